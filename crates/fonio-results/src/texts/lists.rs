//! Reads the lists of known texts in `data/texts`, which `data/texts/README.md` describes.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use fonio_core::DeviceKind;
use regex_lite::Regex;

use crate::entry;

const FILES: [(&str, &str); 5] = [
    ("bus.txt", include_str!("../../data/texts/bus.txt")),
    ("firmware.txt", include_str!("../../data/texts/firmware.txt")),
    ("machine.txt", include_str!("../../data/texts/machine.txt")),
    ("maker.txt", include_str!("../../data/texts/maker.txt")),
    ("model.txt", include_str!("../../data/texts/model.txt")),
];

/// What the macros of patterns stand for.
const MACROS: [(&str, &str); 2] =
    [("{gb?}", r"( \d{1,4}(\.\d)? ?[MGT]B?)?"), ("{gb}", r"\d{1,4}(\.\d)? ?[MGT]B?")];

/// The field in which letter case does not matter, because makers spell their own names in several ways.
const ANY_CASE: &str = "device.manufacturer";

/// The SCSI layer cuts model names after 16 characters, and a cut name may end with a space.
const CUT_CHARS: std::ops::RangeInclusive<usize> = 15..=16;

#[derive(Default)]
struct List {
    /// The kinds of devices for which the list applies; empty for all kinds.
    kinds: Vec<String>,
    texts: HashSet<&'static str>,
    patterns: Vec<Regex>,
}

/// The lists of each field.
static LISTS: LazyLock<HashMap<&str, Vec<List>>> = LazyLock::new(read);

fn read() -> HashMap<&'static str, Vec<List>> {
    let mut lists: HashMap<&str, Vec<List>> = HashMap::new();
    for (file, content) in FILES {
        let mut field = None;
        for line in content.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Some(head) = line.strip_prefix('[').and_then(|head| head.strip_suffix(']')) {
                let mut words = head.split(' ');
                let name = words.next().expect("a text has a first word");
                field = Some(name);
                let kinds = words.map(str::to_owned).collect();
                lists.entry(name).or_default().push(List { kinds, ..List::default() });
                continue;
            }
            let list = field.and_then(|field| lists.get_mut(field)?.last_mut());
            let list = list.unwrap_or_else(|| panic!("{file}: `{line}` is before the first list"));
            match line.strip_prefix('~') {
                Some(pattern) => list.patterns.push(compile(file, pattern)),
                None => list.texts.extend(line.split(" | ").map(str::trim)),
            }
        }
    }
    lists
}

fn compile(file: &str, pattern: &str) -> Regex {
    let expanded = MACROS.iter().fold(pattern.to_owned(), |text, (name, to)| text.replace(name, to));
    Regex::new(&format!("^(?:{expanded})$")).unwrap_or_else(|error| panic!("{file}: {pattern}: {error}"))
}

/// Returns whether a list of the field contains the text, for devices of this kind.
pub(super) fn has(field: &str, kind: DeviceKind, text: &str) -> bool {
    let kind_word = entry::word(&kind);
    let cut = field == "device.model" && is_scsi(kind) && CUT_CHARS.contains(&text.len());
    let applies = |list: &&List| list.kinds.is_empty() || list.kinds.contains(&kind_word);
    LISTS.get(field).into_iter().flatten().filter(applies).any(|list| {
        list.texts.contains(text)
            || (field == ANY_CASE && list.texts.iter().any(|known| known.eq_ignore_ascii_case(text)))
            || (cut && list.texts.iter().any(|known| known.starts_with(text)))
            || list.patterns.iter().any(|pattern| pattern.is_match(text))
    })
}

fn is_scsi(kind: DeviceKind) -> bool {
    matches!(
        kind,
        DeviceKind::SolidState | DeviceKind::HardDisk | DeviceKind::Usb | DeviceKind::Ufs | DeviceKind::Other
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_list_belongs_to_a_field_and_to_kinds_that_exist() {
        for (field, lists) in LISTS.iter() {
            for list in lists {
                assert!(!list.texts.is_empty() || !list.patterns.is_empty(), "[{field} {:?}]", list.kinds);
                for kind in &list.kinds {
                    let known: Result<DeviceKind, _> = serde_json::from_value(kind.as_str().into());
                    assert!(known.is_ok(), "[{field}] names the kind {kind}");
                }
            }
        }
        assert_eq!(LISTS.len(), 21);
    }

    #[test]
    fn a_list_of_a_kind_is_for_this_kind_and_a_cut_name_for_scsi() {
        assert!(has("device.model", DeviceKind::Sd, "SC32G"));
        assert!(!has("device.model", DeviceKind::Nvme, "SC32G"));
        assert!(has("device.model", DeviceKind::Usb, "JetFlash Transce"));
        assert!(!has("device.model", DeviceKind::Usb, "JetFlash"[..7].as_ref()));
        assert!(has("device.manufacturer", DeviceKind::Usb, "SANDISK"));
        assert!(!has("device.scheduler", DeviceKind::Usb, "NONE"));
    }
}
