//! Implements `fonio watch report`.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use fonio_core::quantity::Unit;
use fonio_core::{ByteCount, Nanos, printable};
use fonio_watch::answers::{self, StallsAnswer, WearAnswer};
use fonio_watch::{Folders, Histogram, History, Settings, Summary, page, times};
use serde::Serialize;

use super::history::{history_is_empty, history_of};
use super::{phone, remedy};
use crate::cli::Colour;
use crate::cli::watch::{Report, What};
use crate::exit::Exit;
use crate::output;

const ROWS_MAX: usize = 12;
const GROUPS_MAX: usize = 5;

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stalls: Option<StallsAnswer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wear: Option<WearAnswer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    load: Option<Summary>,
}

pub fn run(arguments: &Report, colour: Colour) -> Result<Exit> {
    let is_phone = arguments.phone.is_some();
    let (folders, mut history) = match &arguments.phone {
        Some(phone) => phone::watched(phone, &arguments.place)?,
        None => {
            let folders = arguments.place.paths().folders()?;
            let history = history(&folders)?;
            (folders, history)
        }
    };
    if is_phone && arguments.what == Some(What::Stalls) {
        bail!("{}; use `fonio record --in android --for 60s`", phone::STALLS_UNKNOWN);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970; set it")?;
    let is_empty = history_is_empty(&history);
    let before_now = |time| i64::try_from(now.saturating_sub(time).as_secs()).unwrap_or(0);
    let since = before_now(arguments.since);
    let until = arguments.until.map(before_now);
    if let Some(until) = until {
        ensure!(since < until, "--until is earlier than --since; both are times before now");
        history.end_at(until);
    }
    // The counters of a phone have no latencies and no waits.
    let wants = |what: What| match arguments.what {
        None => !is_phone || what == What::Wear,
        Some(wanted) => wanted == what,
    };
    let settings = Settings::read(arguments.place.config.as_deref())?;
    let document = Document {
        schema: "fonio.watch/1",
        until,
        stalls: wants(What::Stalls).then(|| answers::stalls(&history, since)),
        wear: wants(What::Wear).then(|| answers::wear(&history, since, &settings.endurance)),
        load: wants(What::Load).then(|| history.sum_since(since)),
    };
    let mut out = output::screen();
    if let Some(path) = &arguments.html {
        if is_empty {
            bail!("the watch started less than a minute ago; run the report again after its first minute");
        }
        let shown = if is_phone { page::Shown::Wear } else { page::Shown::Everything };
        let mut page = page::document(&history, since, &settings, shown);
        page.subtitle.extend(until.map(|until| format!(", until {}", times::shown(until))));
        output::write_html(&page, Some(path))?;
    }
    if arguments.json {
        output::json(&document)?;
    } else if let Some(path) = &arguments.html {
        if let Some(stalls) = &document.stalls {
            writeln!(out, "{}", printable(&stalls.verdict))?;
        }
        if let Some(wear) = document.wear.as_ref().filter(|_| is_phone) {
            wear.verdict.lines().try_for_each(|line| writeln!(out, "{}", printable(line)))?;
        }
        writeln!(out, "The report is in {}.", path.display())?;
    } else {
        print(&document, !is_empty, &folders, is_phone, output::wants_colour(colour), &mut out)?;
        if is_phone && !is_empty {
            writeln!(out, "\n! {}.\nNext: {}", phone::STALLS_UNKNOWN, phone::NEXT)?;
        }
    }
    Ok(if is_empty { Exit::NotValid } else { Exit::Fine })
}

/// Reads the history on disk, and the minutes in memory that are not in the history yet.
pub(super) fn history(folders: &Folders) -> Result<History> {
    for folder in [&folders.state, &folders.run] {
        if let Err(error) = std::fs::read_dir(folder)
            && error.kind() == io::ErrorKind::PermissionDenied
        {
            bail!("only root may read {}: run `sudo fonio watch report`", folder.display());
        }
    }
    let history = history_of(folders)?;
    if history_is_empty(&history) && folders.runs().is_none() {
        bail!(
            "no watch has run here; start one with `sudo fonio watch install` (or `start`, until the next boot)"
        );
    }
    Ok(history)
}

fn print(
    document: &Document,
    has_minutes: bool,
    folders: &Folders,
    is_phone: bool,
    colour: bool,
    out: &mut impl Write,
) -> io::Result<()> {
    let (bold, plain) = if colour { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
    let runs = folders.runs().is_some();
    if !has_minutes {
        return writeln!(
            out,
            "{bold}• The watch started less than a minute ago; run the report again after its first \
             minute.{plain}"
        );
    }
    let mut notes: Vec<&String> = Vec::new();
    if let Some(stalls) = &document.stalls {
        let mark = if stalls.is_problem { "✗" } else { "✓" };
        writeln!(out, "{bold}{mark} {}{plain}", printable(&stalls.verdict))?;
        if let Some(sentence) = answers::unwatched_sentence(&stalls.unwatched) {
            writeln!(out, "• {}", printable(&sentence))?;
        }
        notes.extend(&stalls.notes);
    }
    if let Some(wear) = &document.wear {
        for line in wear.verdict.lines() {
            writeln!(out, "{bold}• {}{plain}", printable(line))?;
        }
        notes.extend(&wear.notes);
    }
    if let Some(until) = document.until {
        writeln!(out, "• The report ends at {} (--until).", times::shown(until))?;
    }
    if !runs {
        let start = if is_phone { "fonio watch run --in android" } else { "sudo fonio watch start" };
        writeln!(out, "! No watch runs now; `{start}` starts one.")?;
    }
    if let Some(stalls) = &document.stalls {
        print_stalls(stalls, folders, (bold, plain), out)?;
    }
    if let Some(wear) = &document.wear {
        print_wear(wear, (bold, plain), out)?;
    }
    if let Some(load) = &document.load {
        print_load(load, (bold, plain), out)?;
    }
    let mut seen = BTreeSet::new();
    notes.retain(|note| seen.insert(*note));
    if !notes.is_empty() {
        writeln!(out, "\n{bold}Notes{plain}")?;
        notes.iter().try_for_each(|note| writeln!(out, "  {}", printable(note)))?;
    }
    Ok(())
}

fn print_stalls(
    answer: &StallsAnswer,
    folders: &Folders,
    (bold, plain): (&str, &str),
    out: &mut impl Write,
) -> io::Result<()> {
    if answer.stalls.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{bold}Stalls by cause{plain} (longest total time first)")?;
    for (number, group) in answer.groups.iter().take(GROUPS_MAX).enumerate() {
        writeln!(out, "  {}. {}", number + 1, printable(&group.sentence))?;
        for line in remedy::lines(group, answer.watched_from, folders) {
            writeln!(out, "     {}", printable(&line))?;
        }
    }
    if answer.groups.len() > GROUPS_MAX {
        writeln!(out, "  … and {} more causes; --json lists them", answer.groups.len() - GROUPS_MAX)?;
    }
    writeln!(out, "\n{bold}Stalls{plain} (longest first)")?;
    for told in answer.stalls.iter().take(ROWS_MAX) {
        writeln!(out, "  {}", printable(&told.sentence))?;
    }
    if answer.stalls.len() > ROWS_MAX {
        writeln!(out, "  … and {} more; --json lists them", answer.stalls.len() - ROWS_MAX)?;
    }
    let kept = answer.stalls.iter().find_map(|told| folders.find_kept(told.stall.kept.as_ref()?));
    if let Some(path) = kept {
        writeln!(
            out,
            "Next: sudo fonio report {}   explains the minute before the longest recorded stall",
            path.display()
        )?;
    }
    Ok(())
}

fn print_wear(answer: &WearAnswer, (bold, plain): (&str, &str), out: &mut impl Write) -> io::Result<()> {
    for device in &answer.devices {
        // Without BPF, the parties that write to the device are unknown.
        if !device.parties.is_empty() {
            writeln!(out, "\n{bold}Who writes to {}{plain}", device.name)?;
        }
        for row in device.parties.iter().take(ROWS_MAX) {
            let party = printable(&row.party);
            writeln!(out, "  {:>10} {:>7}  {party}", bytes(row.written), share(row.share))?;
        }
        if !device.files.is_empty() {
            writeln!(out, "{bold}Writes to {}{plain}", device.name)?;
        }
        for row in device.files.iter().take(ROWS_MAX) {
            writeln!(
                out,
                "  {:>10} {:>7}  {}, by {}",
                bytes(row.written),
                share(row.share),
                printable(&row.file),
                printable(&row.party)
            )?;
        }
        if device.file_system_share > 0.0 {
            writeln!(out, "  {} are file-system journal and metadata.", share(device.file_system_share))?;
        }
        let facts = device.health.as_ref().map(answers::health_facts).unwrap_or_default();
        if !facts.is_empty() {
            writeln!(out, "  It reports {}.", facts.join(", "))?;
        }
    }
    Ok(())
}

fn print_load(load: &Summary, (bold, plain): (&str, &str), out: &mut impl Write) -> io::Result<()> {
    if load.watched_s == 0 {
        return Ok(());
    }
    let watched = load.watched_s as f64;
    writeln!(
        out,
        "\n{bold}Devices{plain} ({} watched, {} to {})",
        Unit::S.format(watched),
        times::shown(load.began),
        times::shown(load.ended)
    )?;
    writeln!(out, "  {:<12} {:>6} {:>26} {:>26} {:>26}", "", "busy", "reads", "writes", "flushes")?;
    for device in &load.devices {
        let busy = share(device.busy_ms as f64 / 1000.0 / watched);
        writeln!(
            out,
            "  {:<12} {busy:>6} {:>26} {:>26} {:>26}",
            device.name,
            responses(&device.traffic.reads),
            responses(&device.traffic.writes),
            responses(&device.traffic.flushes)
        )?;
    }
    let mut blocked: Vec<_> = load.blocked.iter().filter(|row| row.waits.total() > Nanos(0)).collect();
    blocked.sort_by_key(|row| std::cmp::Reverse(row.waits.total()));
    if !blocked.is_empty() {
        writeln!(out, "{bold}Programs that wait for storage{plain} (sum of all threads)")?;
        for row in blocked.iter().take(ROWS_MAX) {
            let is_watched = |device: &String| load.devices.iter().any(|watched| watched.name == *device);
            let on = match &row.device {
                Some(device) if is_watched(device) => format!(" on {device}"),
                Some(device) => format!(" on {device}, which is not watched"),
                None => String::new(),
            };
            writeln!(
                out,
                "  {:>9} ({:>6} of the time), longest {:>8}  {}{on}",
                time(row.waits.total()),
                share(row.waits.total().0 as f64 / 1e9 / watched),
                time(row.waits.longest()),
                printable(&row.party.name)
            )?;
        }
    }
    // Times are in full seconds, which is too coarse to compute shares of less than a minute.
    if let Some(pressure) = load.pressure.filter(|_| load.watched_s >= 60) {
        writeln!(
            out,
            "Some task was stalled on I/O for {} of the time, on memory for {}, on a processor for {}.",
            share(pressure.io_some_ms as f64 / 1000.0 / watched),
            share(pressure.memory_some_ms as f64 / 1000.0 / watched),
            share(pressure.cpu_some_ms as f64 / 1000.0 / watched)
        )?;
    }
    Ok(())
}

/// Formats the number of requests, the mean response time and the 99th percentile of the response time.
fn responses(histogram: &Histogram) -> String {
    match (histogram.mean(), histogram.quantile_at_most(990)) {
        (Some(mean), Some(most)) => {
            format!(
                "{} × {}, 99 % ≤ {}",
                Unit::Count.format(histogram.count() as f64),
                time(mean),
                time(most)
            )
        }
        _ => "–".to_owned(),
    }
}

fn time(time: Nanos) -> String {
    Unit::Ns.format(time.0 as f64)
}

fn bytes(bytes: ByteCount) -> String {
    Unit::Bytes.format(bytes.0 as f64)
}

fn share(share: f64) -> String {
    Unit::Share.format(share)
}
