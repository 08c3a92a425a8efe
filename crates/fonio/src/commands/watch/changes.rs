//! Says what had changed on the machine before a stall: packages in the log of dpkg. A change before a stall is not
//! its cause; it is only where a person looks first.

use std::fs::File;
use std::io::Read;

use fonio_watch::times;

const LOGS: [&str; 2] = ["/var/log/dpkg.log.1", "/var/log/dpkg.log"];
const LOG_BYTES_MAX: u64 = 16 << 20;
/// How long before a stall a change is named.
const BEFORE_S: i64 = 24 * 3600;
const NAMED_MAX: usize = 4;

/// Returns a sentence on the packages that changed in the day before a time; none if none changed.
pub(super) fn before(at: i64) -> Option<String> {
    let mut packages = Vec::new();
    for log in LOGS {
        let mut text = String::new();
        let read = File::open(log).and_then(|file| file.take(LOG_BYTES_MAX).read_to_string(&mut text));
        if read.is_ok() {
            packages.extend(changed(&text, at));
        }
    }
    sentence(&packages)
}

fn sentence(packages: &[String]) -> Option<String> {
    let named = packages.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
    let more = match packages.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!packages.is_empty())
        .then(|| format!("In the day before the first one, packages changed: {named}{more}."))
}

/// Returns the packages that a log of dpkg installed, upgraded or removed in the day before a time, kernels first.
fn changed(log: &str, at: i64) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in log.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [date, time, action @ ("install" | "upgrade" | "remove"), name, old, new, ..] = words[..] else {
            continue;
        };
        let Some(done) = times::parse_local(&format!("{date}T{time}")) else { continue };
        if !(at - BEFORE_S..=at).contains(&done) {
            continue;
        }
        let name = name.split(':').next().unwrap_or(name);
        let said = match action {
            "install" => format!("{name} {new} (new)"),
            "remove" => format!("{name} {old} (removed)"),
            _ => format!("{name} {old} → {new}"),
        };
        if !found.contains(&said) {
            found.push(said);
        }
    }
    found.sort_by_key(|said| !said.starts_with("linux-image"));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_the_day_before_are_named_kernels_first() {
        let log = "2026-11-23 09:00:00 upgrade old:amd64 1 2\n\
            2026-11-24 09:00:00 startup archives unpack\n\
            2026-11-24 09:00:01 upgrade mosquitto:armhf 2.0.1-1 2.0.2-1\n\
            2026-11-24 09:00:01 status half-installed mosquitto:armhf 2.0.1-1\n\
            2026-11-24 09:00:02 install linux-image-6.12:arm64 <none> 6.12.5-1\n\
            2026-11-24 09:00:03 remove nano:armhf 7.2 <none>\n\
            2026-11-24 12:00:00 upgrade late:amd64 1 2\n";
        let at = times::parse_local("2026-11-24T10:00:00").expect("a time");
        let found = changed(log, at);
        assert_eq!(
            found,
            ["linux-image-6.12 6.12.5-1 (new)", "mosquitto 2.0.1-1 → 2.0.2-1", "nano 7.2 (removed)"]
        );
        assert_eq!(
            sentence(&found).as_deref(),
            Some(
                "In the day before the first one, packages changed: linux-image-6.12 6.12.5-1 (new), mosquitto 2.0.1-1 → \
                 2.0.2-1, nano 7.2 (removed)."
            )
        );
        assert_eq!(sentence(&[]), None);
        assert!(changed("2026-99-24 09:00:01 upgrade a:b 1 2\nx\n", at).is_empty());
    }
}
