//! The assembler's counters and their diagnostics.

use std::collections::BTreeMap;
use std::io;

use fonio_core::{BlockEvent, Diagnostic, RowSink, SECTOR_BYTES, Severity};

/// The number of occurrences that get a diagnostic with their place; the rest are only counted.
const PLACES: u64 = 3;

macro_rules! counters {
    ($($variant:ident $name:literal $severity:ident $sentence:literal,)*) => {
        /// An ambiguous, unmatched, inferred or interrupted case.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub(super) enum Counter {
            $(#[doc = $sentence] $variant,)*
        }

        impl Counter {
            const ALL: &[Counter] = &[$(Counter::$variant,)*];

            /// The stable name in `meta.json`.
            pub fn name(self) -> &'static str {
                match self { $(Counter::$variant => $name,)* }
            }

            fn severity(self) -> Severity {
                match self { $(Counter::$variant => Severity::$severity,)* }
            }

            fn sentence(self) -> &'static str {
                match self { $(Counter::$variant => $sentence,)* }
            }
        }
    };
}

counters! {
    AmbiguousCompletions "ambiguous_completions" Warning
        "a completion fits several requests in flight; paired by the assembler's rules",
    AmbiguousIssues "ambiguous_issues" Warning
        "an issue fits several queued bios or requests; paired by the assembler's rules",
    AmbiguousRequeues "ambiguous_requeues" Warning
        "a requeue fits several requests in flight; taken for the one issued first",
    DuplicateIssues "duplicate_issues" Note
        "a request was issued while an equal one was in flight; both are kept",
    RepeatedIssues "repeated_issues" Note
        "a request in flight was issued again without a requeue being shown; taken for the same request",
    SupersededIssues "superseded_issues" Warning
        "a request's completion went to a newer equal request and another was issued; given out without completion",
    SupersededBios "superseded_bios" Warning
        "a queued bio or request was passed over for a newer equal one; given out without issue",
    CompletionsWithoutIssue "completions_without_issue" Warning
        "a completion fits nothing that was issued; left out",
    CompletionsAfterLostEvents "completions_after_lost_events" Warning
        "a completion fits nothing that was issued since events were lost; left out",
    CompletionsOfUnissued "completions_of_unissued" Warning
        "a request completed whose issue was not seen; given out without issue time",
    CompletionsOfRequeued "completions_of_requeued" Note
        "a request completed after a requeue without being issued again",
    BioCompletionsWithoutBio "bio_completions_without_bio" Warning
        "a bio completed whose queueing was not seen; left out",
    RequeuesWithoutIssue "requeues_without_issue" Warning
        "a requeue fits nothing that was issued; left out",
    RemapsWithoutBio "remaps_without_bio" Note
        "a remap from a device that shows its bios fits none of them; the chain is cut there",
    RequestRemapsWithoutRequest "request_remaps_without_request" Warning
        "a request's remap fits nothing in flight on the upper device; left out",
    SplitsWithoutBio "splits_without_bio" Note
        "a split fits no queued bio; left out",
    SplitsInferred "splits_inferred" Note
        "a request is smaller than the bio at its first sector; the bio is taken to be split there",
    MergesMissing "merges_missing" Note
        "a request is larger than its bios that were seen; some bios have no row",
    DiscardMergesInferred "discard_merges_inferred" Note
        "a discard of several ranges was given the oldest waiting discards that fit",
    QueuedFromAllocation "queued_from_allocation" Note
        "a request's bio was not seen; its allocation stands for its queueing",
    FlushCompletionsInferred "flush_completions_inferred" Note
        "a kernel that does not show flush completions: taken from the end of the sequence that waited for it",
    FlushSequenceEnds "flush_sequence_ends" Note
        "a completion without data that ends a flush sequence; its request completed before",
    EventsOutOfOrder "events_out_of_order" Warning
        "events were not in time order; sorted within reach",
    EventsBeforeSettled "events_before_settled" Warning
        "an event came after rows later than it had been given out; left out",
    GapsOfLostEvents "gaps_of_lost_events" Warning
        "events were lost; nothing is paired across the gap",
    RequestsCutByLostEvents "requests_cut_by_lost_events" Warning
        "a request was open when events were lost; given out without completion",
    RequestsBeyondHorizon "requests_beyond_horizon" Warning
        "a request did not complete within the horizon; given out without completion",
    RequestsBeyondOpenLimit "requests_beyond_open_limit" Warning
        "too many requests and bios were open; the oldest given out without completion",
    RequestsOpenAtEnd "requests_open_at_end" Note
        "a request was in flight when the trace ended; given out without completion",
    RequestsWithoutCompletion "requests_without_completion" Warning
        "a request was in flight when the trace ended, for longer than any other had been; its completion was not seen",
    RequestsNeverIssued "requests_never_issued" Note
        "a request was queued and never issued; given out without issue and completion",
    BiosWithoutRequest "bios_without_request" Note
        "a queued bio was not seen in any request",
    BiosWithoutCompletion "bios_without_completion" Note
        "a bio of a stacked device was not seen to complete",
}

/// Counts by [`Counter`].
#[derive(Debug)]
pub(super) struct Tally {
    counts: [u64; Counter::ALL.len()],
    told: [bool; Counter::ALL.len()],
}

impl Tally {
    pub fn new() -> Tally {
        Tally { counts: [0; Counter::ALL.len()], told: [false; Counter::ALL.len()] }
    }

    /// Counts an occurrence, and reports its place if it is one of the first.
    pub fn note(&mut self, counter: Counter, event: &BlockEvent, sink: &mut dyn RowSink) -> io::Result<()> {
        self.note_place(counter, sink, || {
            format!(
                "device {}, sector {}, {} sectors, at {} ns",
                event.device,
                event.sector.0,
                event.bytes.0 / SECTOR_BYTES,
                event.time.0
            )
        })
    }

    /// Like [`note`](Tally::note), with a place that the caller gives.
    pub fn note_place(
        &mut self,
        counter: Counter,
        sink: &mut dyn RowSink,
        place: impl FnOnce() -> String,
    ) -> io::Result<()> {
        let count = &mut self.counts[counter as usize];
        *count += 1;
        if *count > PLACES {
            return Ok(());
        }
        self.told[counter as usize] = true;
        sink.diagnostic(&diagnostic(counter, format!("{}: {}", counter.sentence(), place()), 1))
    }

    /// Counts ordinary cases that need no diagnostic.
    pub fn add(&mut self, counter: Counter, count: u64) {
        self.counts[counter as usize] += count;
    }

    /// Takes one occurrence back: an unmatched event has been matched after all.
    pub fn take_back(&mut self, counter: Counter) {
        let count = &mut self.counts[counter as usize];
        *count = count.saturating_sub(1);
    }

    /// The number of occurrences.
    pub fn get(&self, counter: Counter) -> u64 {
        self.counts[counter as usize]
    }

    /// Reports the totals of occurrences without their own diagnostic, and returns every counter that is not zero.
    pub fn finish(&self, sink: &mut dyn RowSink) -> io::Result<BTreeMap<String, u64>> {
        for &counter in Counter::ALL {
            let rest = self.get(counter).saturating_sub(PLACES);
            if rest > 0 && self.told[counter as usize] {
                let message = format!("{}: {} in all", counter.sentence(), self.get(counter));
                sink.diagnostic(&diagnostic(counter, message, rest))?;
            }
        }
        let seen = Counter::ALL.iter().filter(|&&counter| self.get(counter) > 0);
        Ok(seen.map(|&counter| (counter.name().to_owned(), self.get(counter))).collect())
    }
}

fn diagnostic(counter: Counter, message: String, count: u64) -> Diagnostic {
    Diagnostic {
        severity: counter.severity(),
        code: counter.name().replace('_', "-"),
        message,
        file: None,
        record: None,
        offset: None,
        count,
    }
}
