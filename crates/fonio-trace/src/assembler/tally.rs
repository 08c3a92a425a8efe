//! The assembler's counters and their diagnostics.

use std::collections::BTreeMap;
use std::io;

use fonio_core::{BlockEvent, Diagnostic, RowSink, SECTOR_BYTES, Severity};

/// Number of occurrences that are reported with their position; all further occurrences are only counted.
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

            /// Returns the counter's stable name in `meta.json`.
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
        "a requeue fits several requests in flight; paired with the one issued first",
    DuplicateIssues "duplicate_issues" Note
        "a request was issued while an equal one was in flight; both are kept",
    RepeatedIssues "repeated_issues" Note
        "a request in flight was issued again without a recorded requeue; treated as the same request",
    SupersededIssues "superseded_issues" Warning
        "a request's completion was paired with a newer equal request; recorded without completion",
    SupersededBios "superseded_bios" Warning
        "a queued bio or request was skipped for a newer equal one; recorded without issue",
    CompletionsWithoutIssue "completions_without_issue" Warning
        "a completion fits no issued request; left out",
    CompletionsAfterLostEvents "completions_after_lost_events" Warning
        "a completion fits no request issued since events were lost; left out",
    CompletionsOfUnissued "completions_of_unissued" Warning
        "a request completed without a recorded issue; recorded without issue time",
    CompletionsOfRequeued "completions_of_requeued" Note
        "a request completed after a requeue without being issued again",
    BioCompletionsWithoutBio "bio_completions_without_bio" Warning
        "a bio completed that was not queued in the trace; left out",
    RequeuesWithoutIssue "requeues_without_issue" Warning
        "a requeue fits no issued request; left out",
    RemapsWithoutBio "remaps_without_bio" Note
        "a remap fits none of the upper device's bios; the chain starts at the remap",
    RequestRemapsWithoutRequest "request_remaps_without_request" Warning
        "a request's remap fits no request in flight on the upper device; left out",
    SplitsWithoutBio "splits_without_bio" Note
        "a split fits no queued bio; left out",
    SplitsInferred "splits_inferred" Note
        "a request is smaller than the bio at its first sector; the bio is split there",
    MergesMissing "merges_missing" Note
        "a request is larger than its recorded bios; some bios have no row",
    DiscardMergesInferred "discard_merges_inferred" Note
        "a discard of several ranges was paired with the oldest waiting discards that fit",
    QueuedFromAllocation "queued_from_allocation" Note
        "a request has no recorded bio; its allocation time is used as queue time",
    FlushCompletionsInferred "flush_completions_inferred" Note
        "the kernel does not show flush completions; the end of the flush sequence is used",
    FlushSequenceEnds "flush_sequence_ends" Note
        "a completion without data ends a flush sequence; its request completed earlier",
    EventsOutOfOrder "events_out_of_order" Warning
        "events were not in time order; sorted as far as possible",
    EventsBeforeSettled "events_before_settled" Warning
        "an event is older than rows already recorded; left out",
    GapsOfLostEvents "gaps_of_lost_events" Warning
        "events were lost; nothing is paired across the gap",
    RequestsCutByLostEvents "requests_cut_by_lost_events" Warning
        "a request was open when events were lost; recorded without completion",
    RequestsBeyondHorizon "requests_beyond_horizon" Warning
        "a request did not complete within the horizon; recorded without completion",
    RequestsBeyondOpenLimit "requests_beyond_open_limit" Warning
        "too many requests and bios were open; the oldest are recorded without completion",
    RequestsOpenAtEnd "requests_open_at_end" Note
        "a request was in flight when the trace ended; recorded without completion",
    RequestsWithoutCompletion "requests_without_completion" Warning
        "a request was in flight when the trace ended, longer than any other; its completion is missing",
    RequestsNeverIssued "requests_never_issued" Note
        "a request was queued and never issued; recorded without issue and completion",
    BiosWithoutRequest "bios_without_request" Note
        "a queued bio belongs to no recorded request",
    BiosWithoutCompletion "bios_without_completion" Note
        "a bio of a stacked device has no recorded completion",
}

/// The number of cases of each [`Counter`].
#[derive(Debug)]
pub(super) struct Tally {
    counts: [u64; Counter::ALL.len()],
    told: [bool; Counter::ALL.len()],
}

impl Tally {
    pub fn new() -> Tally {
        Tally { counts: [0; Counter::ALL.len()], told: [false; Counter::ALL.len()] }
    }

    /// Counts an occurrence, and reports the position of the first [`PLACES`] occurrences.
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

    /// Counts an occurrence as [`note`](Tally::note) does, but the caller supplies the position.
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

    /// Subtracts one occurrence, because an unmatched event has been matched after all.
    pub fn take_back(&mut self, counter: Counter) {
        let count = &mut self.counts[counter as usize];
        *count = count.saturating_sub(1);
    }

    /// Returns the number of cases.
    pub fn get(&self, counter: Counter) -> u64 {
        self.counts[counter as usize]
    }

    /// Reports the number of occurrences that had no separate diagnostic, and returns the nonzero counters.
    pub fn finish(&self, sink: &mut dyn RowSink) -> io::Result<BTreeMap<String, u64>> {
        for &counter in Counter::ALL {
            let rest = self.get(counter).saturating_sub(PLACES);
            if rest > 0 && self.told[counter as usize] {
                let message = format!("{}: {} in total", counter.sentence(), self.get(counter));
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
