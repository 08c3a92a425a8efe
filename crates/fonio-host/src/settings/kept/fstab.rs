//! Edits mount options in the text of `/etc/fstab`, leaving the rest unchanged.

use std::ops::Range;
use std::path::Path;

/// Returns the byte range of the line that contains a place, without its newline.
pub(super) fn line_at(text: &str, place: usize) -> Range<usize> {
    let start = text[..place].rfind('\n').map_or(0, |newline| newline + 1);
    let end = text[place..].find('\n').map_or(text.len(), |newline| place + newline);
    start..end
}

/// Options for access times; a mount has exactly one of these options.
const TIMES: [&str; 3] = ["noatime", "relatime", "strictatime"];
/// Options for keeping changed timestamps in memory; a mount has at most one of these options.
const LAZY: [&str; 2] = ["lazytime", "nolazytime"];

/// The reason why an entry of the mount table cannot be changed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoEntry {
    /// No line of the table mounts this folder.
    Missing,
    /// The lines with these two numbers, counted from 1, both mount this folder.
    Twice(usize, usize),
    /// The line with this number has no field for options.
    NoOptions(usize),
}

/// Returns the byte range of the options in the line that mounts `dir`.
pub(super) fn options_of(text: &str, dir: &str) -> Result<Range<usize>, NoEntry> {
    let mut found: Option<(usize, Option<Range<usize>>)> = None;
    let mut start = 0;
    for (number, line) in (1..).zip(text.split_inclusive('\n')) {
        let fields = fields(line);
        let is_entry = fields.first().is_some_and(|field| !line[field.clone()].starts_with('#'));
        if is_entry && fields.get(1).is_some_and(|field| unescape(&line[field.clone()]) == dir) {
            if let Some((earlier, _)) = found {
                return Err(NoEntry::Twice(earlier, number));
            }
            found = Some((number, fields.get(3).map(|field| start + field.start..start + field.end)));
        }
        start += line.len();
    }
    match found {
        None => Err(NoEntry::Missing),
        Some((number, None)) => Err(NoEntry::NoOptions(number)),
        Some((_, Some(options))) => Ok(options),
    }
}

/// Returns the byte ranges of a line's fields, which are separated by blanks and tabs.
fn fields(line: &str) -> Vec<Range<usize>> {
    let mut fields = Vec::new();
    let mut rest = 0;
    while let Some(skip) = line[rest..].find(|letter: char| !letter.is_ascii_whitespace()) {
        let start = rest + skip;
        let length = line[start..].find(|letter: char| letter.is_ascii_whitespace());
        rest = length.map_or(line.len(), |length| start + length);
        fields.push(start..rest);
    }
    fields
}

/// Decodes the escape sequences of fstab(5): a backslash and three octal digits.
fn unescape(field: &str) -> String {
    let mut parts = field.split('\\');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) if code.is_ascii() => {
                plain.push(code as char);
                plain.push_str(&part[3..]);
            }
            _ => {
                plain.push('\\');
                plain.push_str(part);
            }
        }
    }
    plain
}

fn escape(path: &Path) -> String {
    let text = path.to_string_lossy();
    text.chars().fold(String::new(), |mut line, letter| {
        match letter {
            ' ' | '\t' | '\\' | '#' => line.push_str(&format!("\\{:03o}", u32::from(letter))),
            _ => line.push(letter),
        }
        line
    })
}

/// Returns the mount table line that binds the folder `to` over the folder `dir`.
pub(in crate::settings) fn line_of_bind(to: &Path, dir: &Path) -> String {
    line_of_mount(to, dir, "none", "bind,nofail")
}

/// Returns the mount table line that mounts `source` over the folder `dir`. With the option nofail, a missing
/// source does not stop the boot. If the source exists, programs start only after it is mounted.
pub(in crate::settings) fn line_of_mount(
    source: &Path,
    dir: &Path,
    filesystem: &str,
    options: &str,
) -> String {
    let (source, dir) = (escape(source), escape(dir));
    format!(
        "{source} {dir} {filesystem} {options},x-systemd.requires-mounts-for={source},x-systemd.before=sysinit.target 0 0"
    )
}

fn contradict(one: &str, other: &str) -> bool {
    let key = |option: &str| option.split_once('=').map(|(key, _)| key.to_owned());
    let both_of = |family: &[&str]| family.contains(&one) && family.contains(&other);
    (key(one).is_some() && key(one) == key(other)) || both_of(&TIMES) || both_of(&LAZY)
}

/// Adds `option` to `options`, replacing options that contradict it.
pub(super) fn with_option(options: &str, option: &str) -> String {
    let mut kept: Vec<&str> = options.split(',').filter(|other| !contradict(option, other)).collect();
    kept.push(option);
    kept.join(",")
}

fn with_options<'o>(original: &str, added: impl Iterator<Item = &'o str>) -> String {
    added.fold(original.to_owned(), |options, option| with_option(&options, option))
}

/// Removes one of the `added` options from `now`, the options of an entry that had `original` before the
/// first addition. Returns `None` if `now` does not contain the option.
///
/// If nobody else has changed the options, the result is the options that the entry would have if this option
/// had never been added. If somebody else has changed the options, only this option is removed. The options
/// that it replaced are restored, unless someone else has set them.
pub(super) fn without(now: &str, original: &str, added: &[&str], at: usize) -> Option<String> {
    let others = || added.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, option)| *option);
    if now == with_options(original, added.iter().copied()) {
        return Some(with_options(original, others()));
    }
    let mut options: Vec<&str> = now.split(',').collect();
    let place = options.iter().position(|option| *option == added[at])?;
    options.remove(place);
    for replaced in original.split(',').filter(|option| contradict(option, added[at])) {
        if !options.iter().any(|option| *option == replaced || contradict(option, replaced)) {
            options.push(replaced);
        }
    }
    Some(if options.is_empty() { "defaults".to_owned() } else { options.join(",") })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TABLE: &str = "# <file system>\t<mount point>\n\
        UUID=1-2 /\text4\tdefaults,noatime   0\t1\n\
        #/dev/sdb1 /mnt ext4 defaults 0 0\n\
        /dev/sdb1 /mnt/a\\040b  ext4 rw 0 2\n\
        LABEL=x /data btrfs subvol=@data,commit=120\n\
        LABEL=x /data2 btrfs subvol=@x\n\
        /data /bind none bind\n\
        /dev/sdc /short ext4\n\
        /dev/sdd /twice ext4 rw\n\
        /dev/sde /twice ext4 rw";

    #[test]
    fn the_options_of_a_mount_are_found() {
        let options = |dir| options_of(TABLE, dir).map(|place| &TABLE[place]);
        for (dir, expected) in [
            ("/", Ok("defaults,noatime")),
            ("/mnt/a b", Ok("rw")),
            ("/data", Ok("subvol=@data,commit=120")),
            ("/bind", Ok("bind")),
            ("/mnt", Err(NoEntry::Missing)),
            ("/short", Err(NoEntry::NoOptions(8))),
            ("/twice", Err(NoEntry::Twice(9, 10))),
        ] {
            assert_eq!(options(dir), expected, "{dir}");
        }
    }

    #[test]
    fn a_line_binds_a_folder_over_another() {
        let line = line_of_bind(Path::new("/mnt/my card/log"), Path::new("/var/lo#g"));
        assert_eq!(
            line,
            "/mnt/my\\040card/log /var/lo\\043g none bind,nofail,x-systemd.requires-mounts-for=/mnt/my\\040card/log,x-systemd.before=sysinit.target 0 0"
        );
        assert_eq!(options_of(&line, "/var/lo#g").map(|place| line[place].starts_with("bind,")), Ok(true));
    }

    #[test]
    fn options_take_the_place_of_what_they_contradict() {
        for (options, option, expected) in [
            ("defaults", "noatime", "defaults,noatime"),
            ("rw,relatime,nosuid", "noatime", "rw,nosuid,noatime"),
            ("commit=5,ro", "commit=30", "ro,commit=30"),
        ] {
            assert_eq!(with_option(options, option), expected);
        }
    }

    #[test]
    fn an_option_goes_and_what_it_replaced_comes_back() {
        const BOTH: [&str; 2] = ["noatime", "commit=30"];
        for (now, original, at, expected) in [
            ("rw,noatime,commit=30", "rw,relatime", 0, Some("rw,relatime,commit=30")),
            ("rw,noatime,commit=30", "rw,relatime", 1, Some("rw,noatime")),
            // Another program has added nosuid.
            ("rw,noatime,commit=30,nosuid", "rw,relatime", 0, Some("rw,commit=30,nosuid,relatime")),
            ("noatime,nosuid", "defaults", 0, Some("nosuid")),
            // Another program has removed fonio's option or set another value.
            ("rw,commit=30", "rw,relatime", 0, None),
            ("rw,noatime,commit=60", "rw,commit=5", 1, None),
        ] {
            assert_eq!(without(now, original, &BOTH, at).as_deref(), expected, "{now}");
        }
    }

    proptest! {
        /// After all added options are removed, in any order, the text equals the original.
        #[test]
        fn all_taken_away_leaves_the_original(
            original in prop::collection::vec("rw|relatime|noatime|commit=5|nosuid|x=1|defaults", 1..4),
            order in Just(vec![0_usize, 1, 2]).prop_shuffle(),
        ) {
            let original = original.join(",");
            let mut added = vec![(0, "noatime"), (1, "commit=30"), (2, "x=2")];
            let mut now = with_options(&original, added.iter().map(|(_, option)| *option));
            for id in order {
                let at = added.iter().position(|(known, _)| *known == id).expect("it was added");
                let options: Vec<&str> = added.iter().map(|(_, option)| *option).collect();
                now = without(&now, &original, &options, at).expect("it is there");
                added.remove(at);
            }
            prop_assert_eq!(now, original);
        }

        #[test]
        fn no_text_makes_it_panic(text in "[ \t\n#/a\\\\0-9,=é]{0,60}", dir in "/[a ]{0,2}") {
            if let Ok(place) = options_of(&text, &dir) {
                let _ = with_option(&text[place], "noatime");
            }
        }
    }
}
