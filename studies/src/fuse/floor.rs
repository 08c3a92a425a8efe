//! Says how much of the time of operations on names is the time of round trips through the kernel, from the
//! servers that answer without doing anything.

use fonio_core::statistics::sample::median;
use xtask::results::{Cell, StudyResult};

use super::work::{CREATE, STAT_DROPPED, UNLINK};

/// Returns a remark on the table of seconds; empty if the table does not have the configuration `nothing`.
pub fn remark(seconds: &StudyResult) -> String {
    let times = |configuration| Times::of(seconds, configuration);
    let Some(Times([create, unlink, stat])) = times("nothing") else { return String::new() };
    let mut text = format!(
        "A server that answers without doing anything takes {} times as long as native to create a file, {} \
         times to unlink one, and {} times to look at one whose name was dropped, so no server that gets the \
         same requests over io_uring can take less.",
        shown(create),
        shown(unlink),
        shown(stat)
    );
    if let Some(ours) = times("auto") {
        text += &format!(" `auto` takes {} times as long.", ours.shown());
    }
    if let Some((floor, ours)) = times("nothing-device").zip(times("auto-device")) {
        text += &format!(
            " Over /dev/fuse, the server that does nothing takes {} times as long as native, and \
             `auto-device` {}.",
            floor.shown(),
            ours.shown()
        );
    }
    text
}

/// The times to create, to unlink and to look at a file, as multiples of the native times.
struct Times([f64; 3]);

impl Times {
    /// Returns `None` if the table does not have the configuration with all tasks.
    fn of(seconds: &StudyResult, configuration: &str) -> Option<Self> {
        let column = |name| seconds.columns.iter().skip(1).position(|column| column == name);
        let (native, own) = (column("native")?, column(configuration)?);
        let mut times = [0.0; 3];
        for (time, work) in times.iter_mut().zip([CREATE, UNLINK, STAT_DROPPED]) {
            let row = seconds.rows.iter().find(|row| row.name == work)?;
            *time = middle(&row.cells[own])? / middle(&row.cells[native])?;
        }
        Some(Self(times))
    }

    fn shown(&self) -> String {
        let [create, unlink, stat] = self.0.map(shown);
        format!("{create}, {unlink} and {stat}")
    }
}

fn middle(cell: &Cell) -> Option<f64> {
    let Cell::Quantity(quantity) = cell else { return None };
    median(&quantity.values.iter().copied().collect::<Option<Vec<f64>>>()?)
}

fn shown(times: f64) -> String {
    if times < 10.0 { format!("{times:.1}") } else { format!("{times:.0}") }
}

#[cfg(test)]
mod tests {
    use xtask::results::{Origin, SCHEMA};

    use super::*;

    fn table(columns: &[(&str, [f64; 3])]) -> StudyResult {
        let mut result = StudyResult {
            schema: SCHEMA,
            id: "fuse-memory".to_owned(),
            title: String::new(),
            command: String::new(),
            origin: Origin::Transcribed { commit: String::new(), file: String::new() },
            seed: None,
            rounds: None,
            columns: [""]
                .into_iter()
                .chain(columns.iter().map(|(name, _)| *name))
                .map(str::to_owned)
                .collect(),
            rows: Vec::new(),
            remark: String::new(),
        };
        for (at, work) in [CREATE, UNLINK, STAT_DROPPED].into_iter().enumerate() {
            let cell = |(_, seconds): &(&str, [f64; 3])| Cell::once(seconds[at], "", 3);
            result.row(work, columns.iter().map(cell).collect());
        }
        result
    }

    #[test]
    fn times_are_multiples_of_native() {
        let native = ("native", [0.01, 0.02, 0.01]);
        let nothing = ("nothing", [0.12, 0.09, 0.05]);
        let auto = ("auto", [0.24, 0.1, 0.0812]);
        let floor = "A server that answers without doing anything takes 12 times as long as native to create a \
                     file, 4.5 times to unlink one, and 5.0 times to look at one whose name was dropped, so no \
                     server that gets the same requests over io_uring can take less.";
        let ours = " `auto` takes 24, 5.0 and 8.1 times as long.";
        assert_eq!(remark(&table(&[native, nothing])), floor);
        assert_eq!(remark(&table(&[native, auto, nothing])), format!("{floor}{ours}"));
        assert_eq!(remark(&table(&[native, auto])), "");
    }
}
