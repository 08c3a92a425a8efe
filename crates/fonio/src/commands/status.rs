//! Implements `fonio` without a command, which prints the status card.

use std::io::{self, Write};

use anyhow::Result;
use fonio_core::meta::Mount;
use fonio_core::{ByteCount, printable};
use fonio_machine::{Health, Status, percent_full, status};

use crate::cli::Colour;
use crate::exit::Exit;
use crate::output::{self, bytes};

/// Maximum number of processes and cgroups listed under "Writing now".
const WRITERS_SHOWN: usize = 5;

/// Observes the machine for less than a second and prints the status card.
pub fn run(json: bool, colour: Colour) -> Result<Exit> {
    let status = status();
    if json {
        return output::json(&status);
    }
    card(&status, output::wants_colour(colour), &mut output::screen())?;
    Ok(Exit::Fine)
}

fn card(status: &Status, colour: bool, out: &mut impl Write) -> io::Result<()> {
    let (bold, dim, plain) = if colour { ("\x1b[1m", "\x1b[2m", "\x1b[0m") } else { ("", "", "") };
    writeln!(out, "{bold}{}{plain}\n", printable(&status.verdict()))?;
    for device in status.shown() {
        let name = device.device.name.as_deref().unwrap_or("?");
        let model = device.device.model.as_deref().map(|model| format!(", {model}")).unwrap_or_default();
        let size = device.device.size_bytes.map(|size| format!(", {}", bytes(size))).unwrap_or_default();
        writeln!(out, "{bold}{name}{plain}  {}{}{size}", device.kind.label(), printable(&model))?;
        let mut queue = Vec::new();
        queue.extend(device.device.scheduler.as_ref().map(|scheduler| format!("scheduler {scheduler}")));
        queue.extend(device.device.depth.map(|depth| format!("depth {depth}")));
        queue.extend(device.device.write_cache.as_ref().map(|cache| format!("cache {cache}")));
        if !queue.is_empty() {
            writeln!(out, "  {dim}queue{plain}    {}", queue.join(", "))?;
        }
        for mount in &device.device.mounts {
            writeln!(out, "  {dim}mounted{plain}  {}", printable(&mounted(mount)))?;
        }
        if let Some(health) = &device.health {
            writeln!(out, "  {dim}health{plain}   {}", printable(&health_line(health)))?;
        }
        if let (Some(read), Some(written)) = (device.read_now_bytes, device.written_now_bytes) {
            let seconds = status.writing.interval_ms.max(1) as f64 / 1000.0;
            let rate = |moved: ByteCount| bytes(ByteCount((moved.0 as f64 / seconds) as u64));
            writeln!(out, "  {dim}now{plain}      {}/s read, {}/s written", rate(read), rate(written))?;
        }
        writeln!(out)?;
    }
    let writing = &status.writing;
    writeln!(out, "{bold}Writing now{plain} {dim}(over {} ms){plain}", writing.interval_ms)?;
    if writing.processes.is_empty() {
        writeln!(out, "  no visible process")?;
    }
    for process in writing.processes.iter().take(WRITERS_SHOWN) {
        writeln!(
            out,
            "  {:>10}  {} ({}){}",
            bytes(process.written_bytes),
            printable(&process.comm),
            process.pid,
            process
                .unit
                .as_ref()
                .or(process.cgroup.as_ref().filter(|group| *group != "/"))
                .map(|unit| format!("  {dim}{}{plain}", printable(unit)))
                .unwrap_or_default()
        )?;
    }
    for group in writing.cgroups.iter().take(WRITERS_SHOWN) {
        let unit = printable(group.unit.as_ref().unwrap_or(&group.cgroup));
        writeln!(out, "  {:>10}  {unit} on {}", bytes(group.written_bytes), group.device)?;
    }
    for note in &status.notes {
        writeln!(out, "{dim}note: {}{plain}", printable(note))?;
    }
    let sudo = if rustix::process::geteuid().is_root() { "" } else { "sudo " };
    writeln!(
        out,
        "\nNext: {bold}{sudo}fonio check{plain} records for 40 s and says whether storage is the problem."
    )
}

fn mounted(mount: &Mount) -> String {
    let full = match (mount.size_bytes, percent_full(mount)) {
        (Some(size), Some(full)) => format!(", {full} % of {} used", bytes(size)),
        _ => String::new(),
    };
    format!("{} ({}{full}; {})", mount.at, mount.fs, mount.options.join(","))
}

/// Returns the wear that a device reports.
pub fn health_line(health: &Health) -> String {
    let mut parts = Vec::new();
    parts.extend(health.life_used_percent.map(|used| format!("at most {used} % of its lifetime used")));
    parts.extend(
        health
            .life_used_b_percent
            .map(|used| format!("at most {used} % of the lifetime of its second memory type used")),
    );
    parts.extend(health.reserved_blocks.as_ref().map(|state| format!("reserved blocks {state}")));
    parts.extend(health.temperature_millicelsius.map(|milli| format!("{} °C", milli / 1000)));
    parts.extend(health.made.as_ref().map(|made| format!("made {made}")));
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use fonio_machine::{ProcessWriting, Writing};

    use super::*;

    #[test]
    fn a_process_cannot_write_lines_of_the_card() {
        let process = ProcessWriting {
            pid: 7,
            comm: "cp\n\x1b[2J\u{202e}evil".to_owned(),
            cgroup: None,
            unit: Some("a\nb.service".to_owned()),
            written_bytes: ByteCount(4096),
        };
        let writing = Writing { processes: vec![process], ..Writing::default() };
        let status = Status { writing, notes: vec!["a\rb".to_owned()], ..Status::default() };
        let mut out = Vec::new();
        card(&status, false, &mut out).expect("memory takes it");
        let text = String::from_utf8(out).expect("text");
        assert!(text.contains("\n       4 KiB  cp \\x1b[2J\\x202eevil (7)  a b.service\n"), "{text}");
        assert!(text.contains("\nnote: a b\n"), "{text}");
    }
}
