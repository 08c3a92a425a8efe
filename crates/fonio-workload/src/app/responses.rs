//! The times of answers that a command of an app measured itself.

use std::collections::BTreeMap;
use std::path::Path;

use fonio_system::regular;

use crate::outcome::ResponseOutcome;

/// Maximum number of bytes of the file with the times.
const BYTES_MAX: u64 = 64 << 20;
/// The longest time of an answer that can be meant, in seconds: a day.
const SECONDS_MAX: f64 = 86_400.0;

/// Reads a file with a line for each answer: its kind and its time in seconds, such as `toggle 0.0132`. Returns the kinds in
/// alphabetical order. Fails with a sentence.
pub(super) fn read(path: &Path) -> Result<Vec<ResponseOutcome>, String> {
    let text = regular::read_text(path, BYTES_MAX)
        .map_err(|error| format!("it wrote no times of answers: {}: {error}", path.display()))?;
    parse(&text).map_err(|problem| format!("{}: {problem}", path.display()))
}

fn parse(text: &str) -> Result<Vec<ResponseOutcome>, String> {
    let mut kinds: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for (at, line) in text.lines().enumerate() {
        let parsed = line.split_once(' ').and_then(|(kind, seconds)| {
            let seconds: f64 = seconds.trim().parse().ok()?;
            let is_time = (0.0..=SECONDS_MAX).contains(&seconds) && !kind.is_empty();
            is_time.then_some((kind, (seconds * 1e9) as u64))
        });
        let Some((kind, ns)) = parsed else {
            return Err(format!("line {} is not the kind of an answer and its seconds: {line}", at + 1));
        };
        kinds.entry(kind).or_default().push(ns);
    }
    if kinds.is_empty() {
        return Err("it has no lines".to_owned());
    }
    Ok(kinds.into_iter().map(|(kind, times)| outcome(kind, times)).collect())
}

fn outcome(kind: &str, mut times: Vec<u64>) -> ResponseOutcome {
    times.sort_unstable();
    // The smallest time that at least this share of the answers does not exceed.
    let at = |hundredths: usize| times[(times.len() * hundredths).div_ceil(100).max(1) - 1];
    ResponseOutcome {
        kind: kind.to_owned(),
        count: times.len() as u64,
        median_ns: at(50),
        p99_ns: at(99),
        longest_ns: at(100),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_answers_that_happened() {
        let text: String = (1..=200).map(|ms| format!("a {}\n", f64::from(ms) / 1000.0)).collect();
        let found = parse(&format!("b 0.5\n{text}")).expect("it is right");
        let told: Vec<_> = found
            .iter()
            .map(|kind| (kind.kind.as_str(), kind.count, [kind.median_ns, kind.p99_ns, kind.longest_ns]))
            .collect();
        let ms = |ms: [u64; 3]| ms.map(|ms| ms * 1_000_000);
        assert_eq!(told, [("a", 200, ms([100, 198, 200])), ("b", 1, ms([500, 500, 500]))]);
    }

    #[test]
    fn lines_that_are_no_times_are_named() {
        for (text, said) in [
            ("", "it has no lines"),
            ("a 0.1\nb\n", "line 2 is not the kind of an answer and its seconds: b"),
            ("a -1\n", "line 1"),
            ("a nan\n", "line 1"),
            ("a 1e300\n", "line 1"),
            (" 1\n", "line 1"),
        ] {
            let problem = parse(text).expect_err(text);
            assert!(problem.starts_with(said), "{problem}");
        }
    }
}
