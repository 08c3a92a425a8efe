//! Injects faults. Each kind of fault has its own file.
//!
//! The text of a fault is `KIND:KEY=VALUE,KEY=VALUE…`. All kinds that affect individual commands have the keys
//! `op` (read, write, flush, discard; several with `+`; default: all ops that the kind supports), `range`
//! (`FROM-TO` in bytes, with K, M, G for KiB, MiB, GiB; default: the whole device) and `probability` (0 to 1;
//! default 1). The same seed injects the same faults into the same commands.

mod delay;
mod error;
mod flip;
mod scope;
mod vanish;

use std::fmt::Debug;
use std::str::FromStr;

use fonio_core::{Nanos, Op};
use fonio_sim::Random;

use crate::error::EmulatorError;
use scope::Scope;

/// Properties of a command on which faults depend.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) op: Op,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    /// Time since the server started serving.
    pub(crate) elapsed: Nanos,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// The command fails without writing.
    pub(crate) fails: bool,
    /// The device has disappeared: this command and all later commands fail.
    pub(crate) vanished: bool,
    /// The time by which the command takes longer.
    pub(crate) delay: Nanos,
    /// Positions of flipped bits in the data of a read, relative to the command's first bit.
    pub(crate) flips: Vec<u64>,
}

trait Judge: Debug + Send {
    fn judge(&mut self, asked: &Asked, random: &mut Random, verdict: &mut Verdict);
}

type Parse = fn(&mut scope::Settings<'_>) -> Result<Box<dyn Judge>, String>;

const KINDS: [(&str, Parse); 4] =
    [("error", error::parse), ("delay", delay::parse), ("vanish", vanish::parse), ("flip", flip::parse)];

/// A requested fault, parsed from its text.
#[derive(Debug)]
pub struct Fault(Box<dyn Judge>);

impl FromStr for Fault {
    type Err = EmulatorError;

    fn from_str(text: &str) -> Result<Fault, EmulatorError> {
        let fault = |reason: String| EmulatorError::Fault { text: text.to_owned(), reason };
        let (kind, settings) = text.split_once(':').unwrap_or((text, ""));
        let mut settings = scope::Settings::parse(settings).map_err(fault)?;
        let Some((_, parse)) = KINDS.iter().find(|(name, _)| *name == kind) else {
            return Err(fault(format!("unknown kind `{kind}`; use one of: error, delay, vanish, flip")));
        };
        let judge = parse(&mut settings).map_err(fault)?;
        settings.finish().map_err(fault)?;
        Ok(Fault(judge))
    }
}

#[derive(Default)]
pub(crate) struct Faults {
    /// Each fault has its own random numbers, so adding a fault does not change the others.
    judges: Vec<(Box<dyn Judge>, Random)>,
    vanished: bool,
}

impl Faults {
    pub(crate) fn new(faults: Vec<Fault>, seed: u64) -> Faults {
        let judges = (0..)
            .zip(faults)
            .map(|(at, fault): (u64, Fault)| (fault.0, Random::new(Random::new(seed ^ at << 32).next_u64())));
        Faults { judges: judges.collect(), vanished: false }
    }

    pub(crate) fn judge(&mut self, asked: &Asked) -> Verdict {
        let mut verdict = Verdict { vanished: self.vanished, ..Verdict::default() };
        for (judge, random) in &mut self.judges {
            judge.judge(asked, random, &mut verdict);
        }
        self.vanished = verdict.vanished;
        verdict
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn judged(faults: &[&str], commands: &[(Op, u64, u64)]) -> Vec<Verdict> {
        let mut faults = Faults::new(faults.iter().map(|text| text.parse().expect("a fault")).collect(), 1);
        let asked = commands.iter().enumerate().map(|(at, &(op, offset, bytes))| Asked {
            op,
            offset,
            bytes,
            elapsed: Nanos(at as u64 * 1_000_000_000),
        });
        asked.map(|asked| faults.judge(&asked)).collect()
    }

    #[test]
    fn an_error_strikes_its_op_in_its_range() {
        let commands = [
            (Op::Write, (1 << 20) - 4096, 4096),
            (Op::Write, (1 << 20) - 4096, 8192),
            (Op::Read, 1 << 20, 4096),
            (Op::Write, (2 << 20) - 4096, 4096),
            (Op::Write, 2 << 20, 4096),
            (Op::Flush, 0, 0),
        ];
        for (fault, expected) in [
            ("error:op=write,range=1M-2M", [false, true, false, true, false, false]),
            ("error:op=flush", [false, false, false, false, false, true]),
        ] {
            let fails: Vec<bool> = judged(&[fault], &commands).iter().map(|verdict| verdict.fails).collect();
            assert_eq!(fails, expected, "{fault}");
        }
    }

    #[test]
    fn a_delay_strikes_about_as_often_as_it_should() {
        let verdicts = judged(&["delay:add=50ms,probability=0.25"], &[(Op::Read, 0, 4096); 4000]);
        let struck = verdicts.iter().filter(|verdict| verdict.delay == Nanos(50_000_000)).count();
        assert!((900..1100).contains(&struck), "{struck}");
    }

    #[test]
    fn a_device_vanishes_after_commands_or_seconds_and_stays_away() {
        for fault in ["vanish:commands=2", "vanish:after=2s"] {
            let vanished: Vec<bool> =
                judged(&[fault], &[(Op::Read, 0, 512); 5]).iter().map(|verdict| verdict.vanished).collect();
            assert_eq!(vanished, [false, false, true, true, true], "{fault}");
        }
    }

    #[test]
    fn a_flipped_bit_lies_in_the_range_and_in_what_was_read() {
        let verdicts = judged(&["flip:range=4K-5K"], &[(Op::Read, 4096 - 512, 8192), (Op::Read, 0, 4096)]);
        let &[bit] = verdicts[0].flips.as_slice() else { panic!("{verdicts:?}") };
        assert!((512 * 8..(512 + 1024) * 8).contains(&bit), "{bit}");
        assert_eq!(verdicts[1].flips, [] as [u64; 0]);
    }

    #[test]
    fn the_same_seed_gives_the_same_faults_whatever_stands_beside() {
        let commands = [(Op::Read, 0, 4096); 100];
        let alone = judged(&["error:probability=0.5"], &commands);
        let beside = judged(&["error:probability=0.5", "delay:add=1ms,probability=0.5"], &commands);
        let fails = |verdicts: &[Verdict]| verdicts.iter().map(|verdict| verdict.fails).collect::<Vec<_>>();
        assert_eq!(fails(&alone), fails(&beside));
    }

    #[test]
    fn what_cannot_be_understood_is_said() {
        let check = |text: &str, expected: Expect| {
            expected.assert_eq(&text.parse::<Fault>().expect_err("refused").to_string());
        };
        let read = |text: &str| format!("{:?}", text.parse::<Fault>().expect("it is read"));
        assert_eq!(read("error:range=1MiB-2MiB"), read("error:range=1M-2097152"), "sizes as everywhere");
        check("melt", expect!["fault `melt`: unknown kind `melt`; use one of: error, delay, vanish, flip"]);
        check(
            "error:op=fsync",
            expect!["fault `error:op=fsync`: unknown op `fsync`; use one of: read, write, flush, discard"],
        );
        check("error:range=2M-1M", expect!["fault `error:range=2M-1M`: the range `2M-1M` is empty"]);
        check(
            "error:probability=2",
            expect!["fault `error:probability=2`: `2` is not a probability; write a number from 0 to 1"],
        );
        check("delay:op=read", expect!["fault `delay:op=read`: `add` is missing; write add=50ms"]);
        check(
            "delay:add=50",
            expect![
                "fault `delay:add=50`: `50` needs a unit; write a time in ns, us, ms, s, min or h, such as 30s"
            ],
        );
        check("vanish", expect!["fault `vanish`: `after` (a duration) or `commands` (a number) is missing"]);
        check("flip:colour=red", expect!["fault `flip:colour=red`: unknown key `colour`"]);
        check("flip:op=write", expect!["fault `flip:op=write`: unknown key `op`"]);
    }
}
