//! Which goals of SmartIO hold.

use super::cell::{SMARTIO, VARIANTS};
use super::{IN_MEMORY, Results, TUNED_ON, median, slowdown};

/// The study's slowdowns of one reader and one writer on the Galaxy S5 under its SmartIO (section 7.2): read, write.
const STUDY: [(&str, [f64; 2]); 2] = [("seq", [1.72, 1.51]), ("rand", [1.97, 1.83])];
/// The throughput of one kind alone is at least this share of that without a scheduler.
const THROUGHPUT: f64 = 0.97;
/// The processor's time for a request is at most this multiple of mq-deadline's.
const COST: f64 = 1.10;

fn verdict(holds: bool) -> &'static str {
    if holds { "holds " } else { "FAILS " }
}

/// Prints each goal with its figures. A goal without its figures is left out.
pub(super) fn show(profiles: &[&'static str], results: &Results) {
    println!("\nGoals, medians of the starts:");
    for profile in profiles {
        let of = |variant: &'static str, part: &'static str| results.get(&(profile, variant, part));
        for (part, study) in STUDY {
            let times = |op: &str| {
                Some(slowdown(of(SMARTIO, part)?, &format!("1x1 {op}"), &format!("{op}-alone {op}"))?[1])
            };
            if let (true, Some(read), Some(write)) = (*profile == TUNED_ON, times("read"), times("write")) {
                println!(
                    "{} {profile} {part}: slowdowns of reads {read:.2} (at most {}) and writes {write:.2} (at most {})",
                    verdict(read <= study[0] && write <= study[1]),
                    study[0],
                    study[1]
                );
            }
        }
        let cases = [
            ("seq", "1x1"),
            ("rand", "1x1"),
            ("seq", "4x4"),
            ("rand", "4x4"),
            ("deep", "beside"),
            ("files", "copy"),
        ];
        for (part, run) in cases {
            let alone = match part {
                "deep" => "one-alone read",
                "files" => "paced read",
                _ => "read-alone read",
            };
            let times = |variant| Some(slowdown(of(variant, part)?, &format!("{run} read"), alone)?[1]);
            // What it costs: how many times as long as alone writes took there.
            let writes = |variant| {
                let times = slowdown(of(variant, part)?, &format!("{run} write"), "write-alone write")?[1];
                Some(format!(" (writes {times:.2} times)"))
            };
            let rivals = VARIANTS.iter().filter(|variant| variant.is_rival());
            let best = rivals.filter_map(|variant| Some((times(variant.name)?, variant.name)));
            let best = best.min_by(|one, other| one.0.total_cmp(&other.0));
            if let (Some(own), Some((best, name))) = (times(SMARTIO), best) {
                println!(
                    "{} {profile} {part} {run}: reads {own:.2} times as long{}, {best:.2} under {name}, the best other one{}",
                    verdict(own < best),
                    writes(SMARTIO).unwrap_or_default(),
                    writes(name).unwrap_or_default()
                );
            }
        }
        for (name, what) in [("reads read iops", "reads"), ("writes write iops", "writes")] {
            let value = |variant| median(of(variant, "deep")?, name);
            if let (Some(own), Some(none)) = (value(SMARTIO), value("none")) {
                println!(
                    "{} {profile}: {what} alone, 32 at a time: {own:.0} a second, {none:.0} without a scheduler",
                    verdict(own >= THROUGHPUT * none)
                );
            }
        }
        let p99 = |variant| Some(median(of(variant, "files")?, "copy fsync p99")? / 1e3);
        if let (Some(own), Some(deadline)) = (p99(SMARTIO), p99("mq-deadline")) {
            println!(
                "{} {profile}: the 99th percentile of fsync beside a copy is {own:.1} ms, {deadline:.1} under mq-deadline",
                verdict(own <= deadline)
            );
        }
    }
    for run in ["serial", "deep"] {
        let cost = |variant| {
            let values = results.get(&(IN_MEMORY, variant, "cost"))?;
            // Both operations run at the same time.
            Some(
                1e6 / (median(values, &format!("{run} read iops"))?
                    + median(values, &format!("{run} write iops"))?),
            )
        };
        if let (Some(own), Some(deadline), Some(none)) = (cost(SMARTIO), cost("mq-deadline"), cost("none")) {
            let others = ["kyber", "bfq"]
                .map(|name| cost(name).map(|cost| format!(", {name} {cost:.2}")).unwrap_or_default());
            println!(
                "{} processor time of a request, {run} ({}): {own:.2} µs; mq-deadline {deadline:.2}, none {none:.2}{}",
                verdict(own <= COST * deadline),
                if run == "deep" { "16 at a time" } else { "one at a time" },
                others.concat()
            );
        }
    }
}
