//! Implements `fonio watch status` and `fonio watch digest`: the watch in one screen.

use std::io::Write;

use anyhow::Result;
use fonio_core::printable;
use fonio_core::quantity::Unit;
use fonio_watch::answers::{self, Followed, StallGroup, StallsAnswer, WearAnswer};
use fonio_watch::{Folders, History, Settings};
use serde::Serialize;

use super::history::{history_is_empty, now};
use super::{remedy, report};
use crate::cli::watch::{Place, Status};
use crate::commands::fix::followed;
use crate::exit::Exit;
use crate::output;

const DAY_S: i64 = 24 * 3600;
const GROUPS_MAX: usize = 3;
/// The width of a digest: a phone shows about this many letters in a line.
const PHONE: usize = 44;

/// The state of the watch, as JSON output.
#[derive(Serialize)]
struct Document {
    schema: &'static str,
    runs: bool,
    stalls: StallsAnswer,
    /// A line with the command that fixes each group of stalls, or tries a fix, in the order of the groups.
    fixes: Vec<Option<String>>,
    wear: WearAnswer,
    /// The fixes that were kept in the last month, with the figures before and after.
    kept: Vec<Followed>,
}

struct Seen {
    folders: Folders,
    kept: Vec<Followed>,
    stalls: StallsAnswer,
    wear: WearAnswer,
    is_empty: bool,
}

impl Seen {
    fn since(place: &Place, since: i64) -> Result<Seen> {
        let folders = place.paths().folders()?;
        let history = report::history(&folders)?;
        let settings = Settings::read(place.config.as_deref())?;
        Ok(Seen {
            kept: followed_all(&history, now()?),
            is_empty: history_is_empty(&history),
            stalls: answers::stalls(&history, since),
            wear: answers::wear(&history, since, &settings.endurance),
            folders,
        })
    }
}

/// Returns the kept fixes that are followed.
pub(super) fn followed_all(history: &History, now: i64) -> Vec<Followed> {
    let kept = followed::kept();
    kept.iter().filter_map(|entry| answers::followed(history, &entry.fix, entry.at, now)).collect()
}

pub(super) fn run(arguments: &Status) -> Result<Exit> {
    let Seen { folders, kept, stalls, wear, is_empty } = Seen::since(&arguments.place, now()? - DAY_S)?;
    let runs = folders.runs().is_some();
    let exit = if is_empty { Exit::NotValid } else { Exit::Fine };
    if arguments.json {
        let fixes = stalls.groups.iter().map(remedy::fix).collect();
        output::json(&Document { schema: "fonio.watch-status/1", runs, stalls, fixes, wear, kept })?;
        return Ok(exit);
    }
    let mut out = output::screen();
    if is_empty {
        writeln!(out, "The watch started less than a minute ago; run this again after its first minute.")?;
        return Ok(exit);
    }
    let state = if runs { "The watch runs." } else { "No watch runs; `sudo fonio watch start` starts one." };
    writeln!(
        out,
        "{state} It has watched {} of the last 24 hours.",
        Unit::S.format(stalls.watched_s as f64)
    )?;
    match stalls.groups.as_slice() {
        [] if stalls.stalls_in_all == 0 => writeln!(out, "✓ Nothing stalled.")?,
        [] => writeln!(out, "✗ {} stalls; none of them is still listed.", stalls.stalls_in_all)?,
        groups => {
            let counted = |count: u64, one: &str, many: &str| match count {
                1 => format!("1 {one}"),
                count => format!("{count} {many}"),
            };
            let in_all = counted(stalls.stalls_in_all, "stall", "stalls");
            writeln!(out, "✗ {in_all} with {}:", counted(groups.len() as u64, "cause", "causes"))?;
            for (number, group) in groups.iter().take(GROUPS_MAX).enumerate() {
                writeln!(out, "  {}. {}", number + 1, printable(&group.sentence))?;
                for line in remedy::lines(group, stalls.watched_from, &folders) {
                    writeln!(out, "     {}", printable(&line))?;
                }
            }
        }
    }
    kept.iter().try_for_each(|fix| writeln!(out, "• {}", printable(&fix.sentence)))?;
    for line in wear.verdict.lines() {
        writeln!(out, "• {}", printable(line))?;
    }
    if let Some(sentence) = answers::unwatched_sentence(&stalls.unwatched) {
        writeln!(out, "• {}", printable(&sentence))?;
    }
    stalls.notes.iter().take(2).try_for_each(|note| writeln!(out, "! {}", printable(note)))?;
    writeln!(
        out,
        "Next: sudo fonio watch report (all stalls, and the last minute before each), sudo fonio cure"
    )?;
    Ok(exit)
}

/// Prints the last week in short lines.
pub(super) fn digest(place: &Place) -> Result<Exit> {
    let Seen { stalls, wear, is_empty, .. } = Seen::since(place, now()? - 7 * DAY_S)?;
    let mut out = output::screen();
    if is_empty {
        writeln!(out, "The watch started less than a minute ago.")?;
        return Ok(Exit::NotValid);
    }
    for line in digest_lines(&stalls, &wear) {
        writeln!(out, "{}", printable(&line))?;
    }
    Ok(Exit::Fine)
}

/// Returns at most twelve lines of at most [`PHONE`] letters.
pub(super) fn digest_lines(stalls: &StallsAnswer, wear: &WearAnswer) -> Vec<String> {
    let mut lines = vec![format!("fonio: {} watched this week", Unit::S.format(stalls.watched_s as f64))];
    match stalls.stalls_in_all {
        0 => lines.push("No stalls.".to_owned()),
        1 => lines.push("1 stall".to_owned()),
        count => lines.push(format!("{count} stalls")),
    }
    for group in stalls.groups.iter().take(GROUPS_MAX) {
        lines.push(format!("{} × {}", group.stalls, short(group)));
        let longest = Unit::S.format(group.longest_ms as f64 / 1000.0);
        lines.push(format!(
            "  at most {longest}{}",
            if remedy::fix(group).is_some() { "; a fix is ready" } else { "" }
        ));
    }
    for device in wear.devices.iter().take(3) {
        let written = Unit::Bytes.format(device.written.0 as f64);
        lines.push(format!("{}: {written} written", device.name));
    }
    lines.push("More: sudo fonio watch status".to_owned());
    lines.into_iter().map(|line| fitted(&line)).collect()
}

fn short(group: &StallGroup) -> String {
    let who = answers::party_name(&group.party);
    match &group.culprit {
        Some(culprit) => format!("{who} behind {}", answers::party_name(culprit)),
        None => who,
    }
}

fn fitted(line: &str) -> String {
    if line.chars().count() <= PHONE {
        return line.to_owned();
    }
    line.chars().take(PHONE - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use fonio_record::observer::{Party, PartyKind};
    use fonio_watch::answers::CauseKind;
    use fonio_watch::{History, Summary};

    use super::*;

    #[test]
    fn a_digest_fits_a_phone() {
        let history = History {
            minutes: vec![Summary { began: 0, ended: 600, watched_s: 600, ..Summary::default() }],
            ..History::default()
        };
        let mut stalls = answers::stalls(&history, 0);
        let wear = answers::wear(&history, 0, &std::collections::BTreeMap::new());
        assert_eq!(
            digest_lines(&stalls, &wear),
            ["fonio: 10 min 00 s watched this week", "No stalls.", "More: sudo fonio watch status"]
        );
        stalls.stalls_in_all = 40;
        let party = |name: &str| Party { name: name.to_owned(), kind: PartyKind::Unit };
        stalls.groups = (0..5)
            .map(|number| StallGroup {
                party: party("a-service-with-a-long-name.service"),
                cause: CauseKind::Behind,
                culprit: Some(party("another-service.service")),
                culprit_op: None,
                operations: Vec::new(),
                file: None,
                device: None,
                stalls: 8,
                total_ms: 8000,
                longest_ms: 1200 + number,
                first: 0,
                last: 1,
                kept: None,
                sentence: String::new(),
            })
            .collect();
        let lines = digest_lines(&stalls, &wear);
        assert!(lines.len() <= 12 && lines.iter().all(|line| line.chars().count() <= PHONE), "{lines:#?}");
        assert_eq!(lines[2], "8 × a-service-with-a-long-name.service behi…");
    }
}
