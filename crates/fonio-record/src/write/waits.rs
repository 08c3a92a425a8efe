//! Derives the rows of `waits` and the span of the command from the scheduler's pages.

use std::cell::RefCell;
use std::io;

use fonio_core::{Mark, RowSink, Timestamp};
use fonio_machine::{Machine, read_text};
use fonio_tracefs::ring_buffer::{MergedRecords, PageLayout, SchedDecoder, SchedEvent};
use fonio_tracefs::waits::{Completions, Reasons, WaitTree};

use crate::capture::Captured;
use crate::tracefs::pages::Pages;

/// The mark that spans the command, from its creation until it ended or became quiet.
const LAUNCH: &str = "launch";

/// A remark about missing information: a stable name, a sentence, and the count.
type Missing = (&'static str, String, u64);

/// Writes the rows of waits to `sink`, after the requests. Returns remarks about missing information.
pub(crate) fn write(
    (layout, decoder): (PageLayout, &SchedDecoder),
    pages: Pages,
    captured: &Captured,
    completions: &RefCell<Completions>,
    machine: &Machine,
    sink: &mut dyn RowSink,
) -> io::Result<Vec<Missing>> {
    let mut missing: Vec<Missing> = Vec::new();
    let Some(command) = &captured.command else { return Ok(missing) };
    let reasons = Reasons::from_kallsyms(&read_text(&machine.proc("kallsyms")).unwrap_or_default());
    if reasons.is_empty() {
        let message = "the kernel hides its symbols, so the cause of most waits is unknown; `sysctl -w kernel.kptr_restrict=1` shows them to root";
        missing.push(("no-symbols", message.to_owned(), 1));
    }
    let mut tree = WaitTree::new(command.pid(), reasons);
    let streams = pages.sources.into_iter().map(|(cpu, source)| (cpu, format!("per_cpu/cpu{cpu}"), source));
    let mut records = MergedRecords::new(layout, streams, captured.began);
    let (mut named, mut stacks) = (Vec::new(), 0_u64);
    // After the store became full, events of some processors are missing.
    let left_out = captured.waits_missed.left_out.as_ref();
    let end = left_out.map_or(Timestamp(u64::MAX), |left| left.complete_until.unwrap_or(captured.began));
    let mut behind = 0;
    loop {
        let more = records.next(|cpu, record| {
            if record.time > end {
                behind += 1;
                return;
            }
            let Some(event) = decoder.decode(record.data) else { return };
            stacks += u64::from(matches!(event.event, SchedEvent::Stack(_)));
            tree.event(record.time.0, cpu, &event, &mut named);
        })?;
        for mut thread in named.drain(..) {
            captured.threads.complete(&mut thread);
            sink.thread(&thread)?;
        }
        if !more {
            break;
        }
    }
    let trouble = records.take_trouble();
    trouble.diagnostics.iter().try_for_each(|diagnostic| sink.diagnostic(diagnostic))?;
    if stacks == 0 {
        let message = "this kernel cannot record stacks (it needs CONFIG_STACKTRACE=y), so the cause of most waits is unknown";
        missing.push(("no-stacks", message.to_owned(), 1));
    }
    let lost = captured.waits_missed.total().map(|lost| lost + behind);
    if lost != Some(0) {
        let number = lost.map_or_else(|| "an unknown number of".to_owned(), |lost| lost.to_string());
        let way_out = if left_out.is_some() { "`--buffer`" } else { "`--kernel-buffer`" };
        let message = format!(
            "{number} scheduler events were lost because the buffer was too small, so the causes of waits are incomplete; use a larger {way_out}"
        );
        missing.push(("lost-waits", message, lost.unwrap_or(1)));
    }
    if tree.beyond() > 0 {
        let message = format!("{} intervals were left out, because the maximum was reached", tree.beyond());
        missing.push(("waits-beyond", message, tree.beyond()));
    }
    let span = tree.span();
    let until = captured.quiet_since.map_or(span.ended, |quiet| Some(ended_before(span.ended, quiet)));
    sink.mark(&Mark {
        at: span.began.unwrap_or(captured.began),
        until: Some(until.unwrap_or(captured.ended)),
        name: LAUNCH.to_owned(),
        tid: Some(command.pid()),
    })?;
    tree.finish(&completions.borrow(), sink)?;
    Ok(missing)
}

/// Returns when the command ended or became quiet, whichever was earlier. A command that became quiet is
/// ended by the recorder afterwards.
fn ended_before(ended: Option<Timestamp>, quiet: Timestamp) -> Timestamp {
    ended.map_or(quiet, |ended| ended.min(quiet))
}
