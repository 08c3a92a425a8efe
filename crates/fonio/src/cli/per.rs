//! A unit of work in the arguments of `fonio ci` and `fonio cure`.

/// A unit of work, and how it is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Per {
    /// The name of one unit.
    pub name: String,
    pub count: PerCount,
}

/// How units of work are counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PerCount {
    /// The user gave the number.
    Given(u64),
    /// Committed transactions of the databases that match a pattern.
    Transactions(String),
    /// Created files that match a pattern.
    Files(String),
    /// Syncs of files that match a pattern.
    Syncs(String),
    /// Lines on standard output that contain a text.
    Lines(String),
}

impl Per {
    /// Returns whether the count needs the SQL statements of the programs.
    pub fn needs_statements(&self) -> bool {
        matches!(self.count, PerCount::Transactions(_))
    }
}

pub(super) fn parse_per(text: &str) -> Result<Per, String> {
    let wrong = || {
        format!(
            "{text:?} is not a unit of work: write NAME=N, NAME=transactions, NAME=transactions:PATTERN, \
             NAME=files:PATTERN, NAME=syncs:PATTERN or NAME=lines:TEXT"
        )
    };
    let (name, count) = text.split_once('=').ok_or_else(wrong)?;
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | ' ');
    if name.is_empty() || !name.chars().all(is_name) {
        return Err(wrong());
    }
    let (kind, pattern) = count.split_once(':').unwrap_or((count, ""));
    let count = match (kind, pattern) {
        ("transactions", "") => PerCount::Transactions("*".to_owned()),
        ("transactions", pattern) => PerCount::Transactions(pattern.to_owned()),
        ("files" | "syncs" | "lines", "") => return Err(wrong()),
        ("files", pattern) => PerCount::Files(pattern.to_owned()),
        ("syncs", pattern) => PerCount::Syncs(pattern.to_owned()),
        ("lines", text) => PerCount::Lines(text.to_owned()),
        _ => PerCount::Given(count.parse().ok().filter(|count| *count > 0).ok_or_else(wrong)?),
    };
    Ok(Per { name: name.to_owned(), count })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_of_work_has_a_name_and_a_way_to_count() {
        let count =
            |text| parse_per(text).map(|per| per.count).map_err(|error| error.contains("is not a unit"));
        assert_eq!(count("order=120"), Ok(PerCount::Given(120)));
        assert_eq!(count("order=transactions"), Ok(PerCount::Transactions("*".to_owned())));
        assert_eq!(count("order=transactions:*/a.db"), Ok(PerCount::Transactions("*/a.db".to_owned())));
        assert_eq!(count("order=files:*.pdf"), Ok(PerCount::Files("*.pdf".to_owned())));
        assert_eq!(count("order=syncs:*.log"), Ok(PerCount::Syncs("*.log".to_owned())));
        assert_eq!(count("order=lines:a:b=c"), Ok(PerCount::Lines("a:b=c".to_owned())));
        for wrong in ["order", "order=0", "order=x", "=3", "order=lines:", "a.b=3", "order=files"] {
            assert_eq!(count(wrong), Err(true), "{wrong}");
        }
    }
}
