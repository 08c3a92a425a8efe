//! Suggests the known name that a user probably mistyped.

/// Minimum similarity of a mistyped name to the suggested name.
const ALIKE_MIN: f64 = 0.5;

/// Returns the end of a sentence about an unknown name. This end names the most similar known name; it is
/// empty if no known name is similar.
pub fn nearest<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> String {
    let lower = name.to_lowercase();
    let alike = |known: &str| strsim::normalized_damerau_levenshtein(&lower, &known.to_lowercase());
    // If several names are equally similar, take the first name.
    let best = known
        .into_iter()
        .map(|known| (alike(known), known))
        .reduce(|best, other| if other.0 > best.0 { other } else { best });
    match best {
        // A known name needs no suggestion.
        Some((alike, known)) if alike >= ALIKE_MIN && known != name => {
            format!("; the nearest name is `{known}`")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_gets_its_name() {
        let known = ["bfq", "wal-normal", "wal-full", "read-ahead"];
        for (name, expected) in [
            ("bqf", "; the nearest name is `bfq`"),
            ("wal+normal", "; the nearest name is `wal-normal`"),
            ("Read_Ahead", "; the nearest name is `read-ahead`"),
            ("webbench", ""),
            ("bfq", ""),
        ] {
            assert_eq!(nearest(name, known), expected, "{name}");
        }
        assert_eq!(nearest("bfq", []), "");
    }
}
