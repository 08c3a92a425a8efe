//! Finds the databases that are subject to a policy and were written without sync.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::cache::Cache;
use crate::error::PolicyError;
use crate::policy::{Class, Policy, Rule};

/// Returns the databases that have a marker and match a rule of the class `cache`. The search follows no
/// symbolic links, and stays on the file system of the rule's folder. The second returned list contains an
/// error for each unreadable folder; the search continues in the other folders.
pub fn caches_below(policy: &Policy, rule: &Rule) -> (Vec<Cache>, Vec<PolicyError>) {
    let (mut found, mut errors) = (Vec::new(), Vec::new());
    let root = rule.root();
    match fs::metadata(&root) {
        // The rule's program has never run.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => errors.push(PolicyError::system("search", root)(error)),
        Ok(stat) => search(policy, &root, stat.dev(), &mut found, &mut errors),
    }
    found.sort_by(|a, b| a.path().cmp(b.path()));
    (found, errors)
}

fn search(
    policy: &Policy,
    folder: &Path,
    device: u64,
    found: &mut Vec<Cache>,
    errors: &mut Vec<PolicyError>,
) {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => return errors.push(PolicyError::system("list", folder)(error)),
    };
    for entry in entries.flatten() {
        let path = entry.path();
        let Ok(stat) = entry.metadata() else { continue };
        if stat.is_dir() && stat.dev() == device {
            search(policy, &path, device, found, errors);
        } else if stat.is_file()
            && let Some(cache) = Cache::of_marker(&path)
            && matches!(policy.class(cache.path()), Class::Cache { .. })
        {
            found.push(cache);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_of_other_classes_are_left() {
        let dir = tempfile::tempdir().expect("dir");
        let dir = fs::canonicalize(dir.path()).expect("path");
        fs::create_dir_all(dir.join("cache/deep")).expect("mkdir");
        for name in ["cache/a.db", "cache/deep/b.db", "cache/c.other", "d.db"] {
            fs::write(dir.join(format!("{name}-fonio-boot")), "then").expect("write");
        }
        let text = format!("[[database]]\npath = '{}/cache/*.db'\nclass = 'cache'\n", dir.display());
        let policy = Policy::parse(&text, Path::new("policy")).expect("a policy");
        let (found, errors) = caches_below(&policy, &policy.rules()[0]);
        assert!(errors.is_empty(), "{errors:?}");
        let found: Vec<_> =
            found.iter().map(|cache| cache.path().strip_prefix(&dir).expect("below")).collect();
        assert_eq!(found, [Path::new("cache/a.db"), Path::new("cache/deep/b.db")]);
    }
}
