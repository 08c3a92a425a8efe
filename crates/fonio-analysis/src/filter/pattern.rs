//! Patterns for names of files and units: `*` stands for any text, `?` for any character.

use wildmatch::WildMatch;

pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    WildMatch::new(pattern).matches(text)
}

/// Whether a file matches the pattern. A pattern without a slash is compared with the file's name, any other
/// pattern with the file's path. A pattern that is a path without `*` and `?` also matches the files below
/// that path.
pub(crate) fn matches_file(pattern: &str, path: &str) -> bool {
    if !pattern.contains('/') {
        return matches(pattern, path.rsplit('/').next().unwrap_or(path));
    }
    let is_below = || {
        let dir = pattern.strip_suffix('/').unwrap_or(pattern);
        path.strip_prefix(dir).is_some_and(|rest| rest.starts_with('/'))
    };
    matches(pattern, path) || (!pattern.contains(['*', '?']) && is_below())
}

/// Returns whether a unit matches the pattern. The pattern contains the unit's kind (`docker web`,
/// `notes.service`) or omits it (`web`, `notes`).
pub(crate) fn matches_unit(pattern: &str, unit: &str) -> bool {
    let without_kind =
        || unit.split_once(' ').map(|(_, name)| name).or_else(|| Some(unit.rsplit_once('.')?.0));
    matches(pattern, unit) || without_kind().is_some_and(|name| matches(pattern, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks() {
        for (pattern, text, expected) in [
            ("notes", "notes", true),
            ("notes", "notes2", false),
            ("notes*", "notes", true),
            ("*.db-*", "a.db-wal", true),
            ("*.db-*", "a.db", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("n?tes", "nötes", true),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("?", "", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn files_by_name_path_and_folder() {
        for (pattern, path, expected) in [
            ("notes.db*", "/var/lib/notes.db-wal", true),
            ("var", "/var/lib/notes.db", false),
            ("/var/lib", "/var/lib/notes.db", true),
            ("/var/lib/", "/var/lib/notes.db", true),
            ("/var/li", "/var/lib/notes.db", false),
            ("/var/*.db", "/var/lib/notes.db", true),
            ("/var/lib/notes.db", "/var/lib/notes.db", true),
        ] {
            assert_eq!(matches_file(pattern, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn units_with_and_without_their_kind() {
        for (pattern, unit, expected) in [
            ("web", "docker web", true),
            ("docker web", "docker web", true),
            ("docker *", "docker web", true),
            ("notes", "notes.service", true),
            ("notes.service", "notes.service", true),
            ("note", "notes.service", false),
            ("service", "notes.service", false),
        ] {
            assert_eq!(matches_unit(pattern, unit), expected, "{pattern} {unit}");
        }
    }
}
