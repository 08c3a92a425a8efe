//! Determines the packages, programs and kernel modules of a guest from its command.

/// Packages of every guest: a shell, the libraries of this program, and programs for ext4.
const BASE: &[&str] = &["busybox-static", "libc6", "libgcc-s1", "mount", "e2fsprogs"];
const TOOLS: &[&str] = &["mount", "umount", "mkfs.ext4", "mkfs.ext3"];
/// Modules of every guest, if available: devices, schedulers, and checksums that file systems request by
/// algorithm name.
pub(crate) const MODULES: &[&str] = &[
    "loop",
    // If the kernel has no ublk, emulated devices use FUSE and the loop driver.
    "fuse",
    "ublk_drv",
    "bfq",
    "kyber-iosched",
    "mq-deadline",
    "crc32c_generic",
    "crc32c_cryptoapi",
    "crc32_generic",
    "ext4",
];

/// Packages, programs and modules that a word of the command line needs in the guest.
#[derive(Debug)]
struct Need {
    /// A word on the command line: a file system, command or option. If this text ends with a colon, it
    /// stands for all words that begin with it.
    word: &'static str,
    packages: &'static [&'static str],
    tools: &'static [&'static str],
    modules: &'static [&'static str],
}

const NEEDS: &[Need] = &[
    Need { word: "xfs", packages: &["xfsprogs"], tools: &["mkfs.xfs"], modules: &["xfs"] },
    Need { word: "btrfs", packages: &["btrfs-progs"], tools: &["mkfs.btrfs"], modules: &["btrfs"] },
    Need { word: "f2fs", packages: &["f2fs-tools"], tools: &["mkfs.f2fs"], modules: &["f2fs"] },
    Need {
        word: "nilfs2",
        packages: &["nilfs-tools"],
        tools: &["mkfs.nilfs2", "nilfs_cleanerd"],
        modules: &["nilfs2"],
    },
    Need {
        word: "vfat",
        packages: &["dosfstools"],
        tools: &["mkfs.vfat"],
        modules: &["nls_ascii", "nls_cp437", "nls_iso8859-1", "nls_utf8", "vfat"],
    },
    Need { word: "--link", packages: &["iproute2"], tools: &["ip", "tc"], modules: &["veth", "sch_tbf"] },
    Need { word: "sqlite3", packages: &["sqlite3"], tools: &["sqlite3"], modules: &[] },
    // Benchmarks start fio with a setpriv option that busybox lacks.
    Need { word: "fio", packages: &["fio", "util-linux"], tools: &["fio", "setpriv"], modules: &[] },
    Need { word: "app:", packages: &["util-linux"], tools: &["unshare", "nsenter"], modules: &[] },
    Need { word: "md-raid0:", packages: &[], tools: &[], modules: &["md_mod", "raid0"] },
];

/// The needs of a guest, in addition to the needs of every guest.
#[derive(Debug)]
pub struct Needs(Vec<&'static Need>);

impl Needs {
    /// Returns everything that any fonio command needs.
    pub fn everything() -> Needs {
        Needs(NEEDS.iter().collect())
    }

    /// Returns what a fonio command line needs. `fix` without a name tries all fixes, so it needs their
    /// file systems.
    pub fn of(words: &[String]) -> Needs {
        // A word of the command line may be a script that names programs.
        let separates = |letter: char| !letter.is_alphanumeric() && !"-_.:".contains(letter);
        let parts: Vec<&str> = words.iter().flat_map(|word| word.split(separates)).collect();
        let of_command: &[&str] = match parts[..] {
            ["fix", ..] => &["f2fs", "nilfs2"],
            ["bench", "layers", ..] => &[],
            ["bench", ..] | ["device", "fit", ..] => &["fio"],
            _ => &[],
        };
        let names = |part: &&str, need: &Need| match need.word.strip_suffix(':') {
            Some(_) => part.starts_with(need.word),
            // The fix `db-on-nilfs2` makes a file system, too.
            None => *part == need.word || part.strip_prefix("db-on-") == Some(need.word),
        };
        let wants =
            |need: &&Need| parts.iter().any(|part| names(part, need)) || of_command.contains(&need.word);
        Needs(NEEDS.iter().filter(wants).collect())
    }

    /// Returns the packages that the guest requires.
    pub fn packages(&self) -> Vec<&'static str> {
        BASE.iter().chain(self.0.iter().flat_map(|need| need.packages)).copied().collect()
    }

    /// Returns the programs that are copied from these packages into the guest.
    pub(crate) fn tools(&self) -> impl Iterator<Item = &'static str> {
        TOOLS.iter().chain(self.0.iter().flat_map(|need| need.tools)).copied()
    }

    /// Returns the kernel modules that the guest requires.
    pub(crate) fn modules(&self) -> Vec<&'static str> {
        self.0.iter().flat_map(|need| need.modules).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_gets_what_the_command_line_needs() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let names = |text: &str| Needs::of(&words(text)).0.iter().map(|need| need.word).collect::<Vec<_>>();
        assert_eq!(names("run webbench --fs ext4,nilfs2 --on ridata"), ["nilfs2"]);
        assert_eq!(names("fix prove --safe webbench --link wifi"), ["f2fs", "nilfs2", "--link"]);
        assert_eq!(names("device emulate ridata -- sh -c fio\u{20}--name=x"), ["fio"]);
        assert_eq!(names("run webbench --fs=vfat"), ["vfat"]);
        assert_eq!(names("run webbench --fix raid0,db-on-nilfs2"), ["nilfs2"]);
        assert_eq!(names("device emulate ridata -- sh -c test\u{20}$(sqlite3\u{20}db)"), ["sqlite3"]);
        assert_eq!(names("bench device ridata"), ["fio"]);
        assert_eq!(names("run webbench --on ridata,md-raid0:ridata+kingston"), ["md-raid0:"]);
        assert_eq!(names("bench layers ridata --fs vfat"), ["vfat"]);
        assert_eq!(names("run app:redis:cold --on ridata"), ["app:"]);
        assert_eq!(names("run app:./folder --on ridata"), ["app:"]);
    }
}
