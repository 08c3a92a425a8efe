//! Reads the control groups of a process (`/proc/PID/cgroup`).

/// The control groups of a process, one per hierarchy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cgroups {
    /// For each hierarchy: its names, separated by commas (empty for the unified hierarchy), and the group's
    /// path in the hierarchy.
    groups: Vec<(String, String)>,
}

impl Cgroups {
    /// Parses lines such as `4:cpu,cpuacct:/a/b` and `0::/user.slice`; other lines are skipped.
    pub fn parse(text: &str) -> Cgroups {
        let groups = text.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
        Cgroups { groups: groups.map(|(names, path)| (names.to_owned(), path.to_owned())).collect() }
    }

    /// Returns the path that best distinguishes the process. This is the path in the unified hierarchy,
    /// unless it is the root, as with version 1. Then it is the path in systemd's hierarchy, or else the
    /// first path that is not the root.
    pub fn telling(&self) -> Option<&str> {
        let (mut unified, mut systemd, mut any) = (None, None, None);
        for (names, path) in self.groups.iter().filter(|(_, path)| path != "/") {
            match names.as_str() {
                "" => unified = unified.or(Some(path)),
                "name=systemd" => systemd = systemd.or(Some(path)),
                _ => {}
            }
            any = any.or(Some(path));
        }
        let first = self.groups.first().map(|(_, path)| path);
        unified.or(systemd).or(any).or(first).map(String::as_str)
    }

    /// Returns the path in the hierarchy of a controller such as `cpu` (version 1).
    pub fn of_controller(&self, controller: &str) -> Option<&str> {
        self.find(|names| names.split(',').any(|name| name == controller))
    }

    /// Returns the path in the unified hierarchy.
    pub fn unified(&self) -> Option<&str> {
        self.find(str::is_empty)
    }

    fn find(&self, is_it: impl Fn(&str) -> bool) -> Option<&str> {
        self.groups.iter().find(|(names, _)| is_it(names)).map(|(_, path)| path.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_that_tells_a_process_apart() {
        for (text, expected) in [
            ("0::/system.slice/cron.service\n", Some("/system.slice/cron.service")),
            ("9:name=systemd:/init.scope\n8:pids:/x\n0::/\n", Some("/init.scope")),
            ("9:name=systemd:/\n4:memory:/apps/a:b\n0::/\n", Some("/apps/a:b")),
            ("0::/\n", Some("/")),
            ("damaged\n0::/a\n", Some("/a")),
            ("", None),
        ] {
            assert_eq!(Cgroups::parse(text).telling(), expected, "{text}");
        }
    }

    #[test]
    fn the_group_in_one_hierarchy() {
        let groups = Cgroups::parse("4:memory:/m\n2:cpu,cpuacct:/a/b\n0::/user.slice\n");
        assert_eq!(groups.of_controller("cpu"), Some("/a/b"));
        assert_eq!(groups.of_controller("pids"), None);
        assert_eq!(groups.unified(), Some("/user.slice"));
        assert_eq!(Cgroups::parse("").unified(), None);
    }
}
