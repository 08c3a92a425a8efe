//! Table 1: which file systems six phones use. Ours is what fonio can stand up for each: a device profile of the phone's
//! storage, where there is one, and the file systems that this kernel has.

use std::fs;

use anyhow::Result;
use fonio_sim::profile::Profile;

use super::{Phone, Published, Row};

/// Phones whose storage has a profile.
const PROFILES: &[(&str, &str)] = &[("Galaxy S3", "galaxy_s3_emmc")];

/// File systems of these phones that no mainline kernel has, and why ours cannot show them.
const GONE: &[(&str, &str)] = &[
    ("yaffs2", "YAFFS2 was never part of the kernel, and needs raw flash"),
    ("rfs", "RFS is Samsung's own and was not published"),
];

pub(super) fn rows(published: &Published, _full: bool) -> Result<Vec<Row>> {
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    Ok(published.bfuse.phone.iter().map(|phone| row(phone, &known)).collect())
}

fn row(phone: &Phone, known: &str) -> Row {
    let mut parts = vec![("/data", phone.data.as_str()), ("/sdcard", phone.sdcard.as_str())];
    parts.extend(phone.ext_sdcard.as_deref().map(|system| ("/extSdCard", system)));
    let shown = |(at, system): &(&str, &str)| format!("{at} {system}");
    let published: Vec<String> = parts.iter().map(shown).collect();
    let (here, missing): (Vec<_>, Vec<_>) = parts.into_iter().partition(|(_, system)| has(known, system));
    let mut ours: Vec<String> = here.iter().map(shown).collect();
    let profile = PROFILES
        .iter()
        .find(|(name, _)| *name == phone.name)
        .and_then(|(_, profile)| Profile::shipped(profile));
    ours.push(
        profile.as_ref().map_or("no profile".to_owned(), |profile| format!("profile {}", profile.name())),
    );
    let mut why: Vec<String> = missing
        .iter()
        .map(|(_, system)| match GONE.iter().find(|(gone, _)| gone == system) {
            Some((_, why)) => (*why).to_owned(),
            None => format!("this kernel has no {system} loaded"),
        })
        .collect();
    why.dedup();
    if profile.is_none() {
        why.push("nothing is published about its storage's speed".to_owned());
    }
    let what = format!("{} ({})", phone.name, phone.year);
    let (published, ours) = (published.join(", "), ours.join(", "));
    if missing.is_empty() && profile.is_some() {
        Row::statement(what, published, ours, true, "")
    } else {
        Row::cannot(what, published, ours, &why.join("; "))
    }
}

fn has(known: &str, system: &str) -> bool {
    known.lines().any(|line| line.split_whitespace().last() == Some(system))
}
