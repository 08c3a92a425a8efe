//! Simulates threads with known intervals. The tree must find these intervals from the events.

use std::collections::BTreeSet;

use fonio_core::{CollectedRows, Wait};
use proptest::prelude::*;

use super::*;

const ROOT: u32 = 10;
const MAKER: u32 = 5;
/// A thread that does not belong to the command.
const STRANGER: u32 = 99;
const PROCESSORS: usize = 2;

/// One step of the simulation. Impossible steps are skipped.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The thread on the processor creates another thread. The new thread is ready.
    Fork { cpu: usize },
    /// The processor switches to a ready thread, to the stranger, or to the idle thread; the previous thread
    /// blocks, stays ready or ends.
    Switch { cpu: usize, left: Left, next: Next },
    /// An interrupt on the processor wakes a blocked thread.
    Wake { cpu: usize, which: usize },
    /// The processor `by` updates the run time of the thread on the processor `on`. `by` and `on` may be the
    /// same processor.
    Update { on: usize, by: usize },
}

#[derive(Clone, Copy, Debug)]
enum Next {
    Idle,
    Stranger,
    Ready(usize),
}

#[derive(Debug, Default)]
struct Simulation {
    now: u64,
    /// The current thread of each processor (0 for the idle thread), and the time up to which the thread's
    /// run time was reported.
    on: [(u32, u64); PROCESSORS],
    ready: BTreeSet<u32>,
    blocked: BTreeSet<u32>,
    made: u32,
    /// The events. Each entry has the time, the processor, the current thread, whether the event is in an
    /// interrupt, and the event.
    events: Vec<(u64, usize, u32, bool, SchedEvent<'static>)>,
    /// The open interval of each thread, and the ended intervals. An ended interval has the thread, the
    /// beginning, the end, and whether the thread was ready.
    open: FxHashMap<u32, (u64, bool)>,
    truth: Vec<(u32, u64, Option<u64>, bool)>,
}

impl Simulation {
    fn of(steps: &[(u64, Step)]) -> Simulation {
        let mut simulation = Simulation::default();
        simulation.make(0, MAKER);
        for (gap, step) in steps {
            simulation.now += gap;
            simulation.step(*step);
        }
        let open = std::mem::take(&mut simulation.open);
        simulation.truth.extend(open.iter().map(|(tid, (began, ready))| (*tid, *began, None, *ready)));
        simulation.truth.sort_unstable_by_key(|(tid, began, ..)| (*began, *tid));
        simulation
    }

    fn event(&mut self, cpu: usize, in_interrupt: bool, event: SchedEvent<'static>) {
        self.events.push((self.now, cpu, self.on[cpu].0, in_interrupt, event));
    }

    fn make(&mut self, cpu: usize, parent: u32) {
        let child = ROOT + self.made;
        self.made += 1;
        self.event(cpu, false, SchedEvent::Fork { parent, child });
        self.ready.insert(child);
        self.open.insert(child, (self.now, true));
    }

    /// Emits the run time since the last event of this kind, unless this run time is zero. The kernel does
    /// the same.
    fn update(&mut self, on: usize, by: usize) {
        let (tid, since) = self.on[on];
        if tid != 0 && self.now > since {
            self.event(by, on != by, SchedEvent::Ran { tid, ns: self.now - since });
            self.on[on].1 = self.now;
        }
    }

    fn close(&mut self, tid: u32) {
        if let Some((began, ready)) = self.open.remove(&tid) {
            self.truth.push((tid, began, Some(self.now), ready));
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Fork { cpu } => {
                let parent = self.on[cpu].0;
                if (ROOT..STRANGER - 1).contains(&parent) && self.made < 6 {
                    self.make(cpu, parent);
                }
            }
            Step::Update { on, by } => self.update(on, by),
            Step::Wake { cpu, which } => {
                let Some(&tid) = self.blocked.iter().nth(which % self.blocked.len().max(1)) else { return };
                self.event(cpu, true, SchedEvent::Waking { tid });
                self.blocked.remove(&tid);
                self.close(tid);
                self.ready.insert(tid);
                self.open.insert(tid, (self.now, true));
            }
            Step::Switch { cpu, left, next } => {
                let next = match next {
                    Next::Idle => 0,
                    Next::Stranger if self.on.iter().any(|(tid, _)| *tid == STRANGER) => 0,
                    Next::Stranger => STRANGER,
                    Next::Ready(which) => {
                        self.ready.iter().nth(which % self.ready.len().max(1)).copied().unwrap_or(0)
                    }
                };
                let prev = self.on[cpu].0;
                if prev == next {
                    return;
                }
                self.update(cpu, cpu);
                self.event(cpu, false, SchedEvent::Switch { prev, prev_comm: b"", left, next });
                if prev != 0 && prev != STRANGER {
                    match left {
                        Left::Preempted => {
                            self.ready.insert(prev);
                            self.open.insert(prev, (self.now, true));
                        }
                        Left::Blocked { .. } => {
                            self.blocked.insert(prev);
                            self.open.insert(prev, (self.now, false));
                        }
                        Left::Ended => {}
                    }
                }
                self.ready.remove(&next);
                self.close(next);
                self.on[cpu] = (next, self.now);
            }
        }
    }

    /// Returns the intervals that the tree finds in the events that `seen` accepts.
    fn intervals(&self, seen: impl Fn(usize, &SchedEvent<'_>) -> bool) -> Vec<(u32, u64, Option<u64>, bool)> {
        let mut tree = WaitTree::new(ROOT, Reasons::default());
        for (time, cpu, current, in_interrupt, event) in &self.events {
            if seen(*cpu, event) {
                let interrupt = in_interrupt.then_some(Interrupt::Hard);
                let record = SchedRecord { current: *current, interrupt, event: *event };
                tree.event(*time, *cpu as u32, &record, &mut Vec::new());
            }
        }
        let mut rows = CollectedRows::default();
        tree.finish(&Completions::default(), &mut rows).expect("memory takes everything");
        let interval = |row: &Wait| {
            (row.tid, row.began.0, row.ended.map(|ended| ended.0), row.reason == WaitReason::Cpu)
        };
        rows.waits.iter().map(interval).collect()
    }
}

fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let cpu = || 0..PROCESSORS;
    let left = prop_oneof![
        3 => Just(Left::Preempted),
        5 => Just(Left::Blocked { uninterruptible: false }),
        1 => Just(Left::Ended),
    ];
    let next = prop_oneof![
        4 => Just(Next::Idle),
        1 => Just(Next::Stranger),
        5 => (0..4_usize).prop_map(Next::Ready),
    ];
    let step = prop_oneof![
        1 => cpu().prop_map(|cpu| Step::Fork { cpu }),
        6 => (cpu(), left, next).prop_map(|(cpu, left, next)| Step::Switch { cpu, left, next }),
        4 => (cpu(), 0..4_usize).prop_map(|(cpu, which)| Step::Wake { cpu, which }),
        3 => (cpu(), cpu()).prop_map(|(on, by)| Step::Update { on, by }),
    ];
    prop::collection::vec((1..10_u64, step), 0..120)
}

/// Returns whether the event is a switch from the idle thread of a processor other than the first. Some
/// kernels do not trace such switches.
fn idle_untraced(cpu: usize, event: &SchedEvent<'_>) -> bool {
    cpu > 0 && matches!(event, SchedEvent::Switch { prev: 0, .. })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn every_switch_is_seen(steps in steps()) {
        let simulation = Simulation::of(&steps);
        prop_assert_eq!(&simulation.intervals(|_, event| !matches!(event, SchedEvent::Ran { .. })), &simulation.truth);
        prop_assert_eq!(&simulation.intervals(|_, _| true), &simulation.truth);
    }

    /// The trace ends with the run times of all running threads, because the tree cannot know run times that
    /// are not reported.
    #[test]
    fn runtimes_show_when_a_thread_came_onto_an_idle_processor(mut steps in steps()) {
        steps.extend((0..PROCESSORS).map(|on| (1, Step::Update { on, by: on })));
        let simulation = Simulation::of(&steps);
        prop_assert_eq!(&simulation.intervals(|cpu, event| !idle_untraced(cpu, event)), &simulation.truth);
    }

    /// Without run times and switches from idle threads, the beginnings and ends of intervals are wrong, but
    /// intervals of the same thread still do not overlap.
    #[test]
    fn without_runtimes_intervals_do_not_overlap(steps in steps()) {
        let simulation = Simulation::of(&steps);
        let seen = |cpu, event: &SchedEvent<'_>| !idle_untraced(cpu, event) && !matches!(event, SchedEvent::Ran { .. });
        let mut ended: FxHashMap<u32, u64> = FxHashMap::default();
        for (tid, began, end, _) in simulation.intervals(seen) {
            prop_assert!(ended.get(&tid).is_none_or(|ended| *ended <= began), "{tid} {began}");
            let end = end.unwrap_or(u64::MAX);
            prop_assert!(began <= end);
            ended.insert(tid, end);
        }
    }
}
