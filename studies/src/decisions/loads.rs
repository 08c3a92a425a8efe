//! The loads under which schedulers are observed.

/// Requests of fio under a scheduler.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) name: &'static str,
    pub(super) scheduler: &'static str,
    /// Under the kernel's names and in its units; the others are the defaults.
    pub(super) settings: &'static str,
    /// Options of fio.
    options: &'static str,
}

impl Load {
    const fn new(
        scheduler: &'static str,
        name: &'static str,
        settings: &'static str,
        options: &'static str,
    ) -> Load {
        Load { name, scheduler, settings, options }
    }

    /// The name of its files.
    pub(super) fn file(&self) -> String {
        format!("{}-{}", self.scheduler, self.name)
    }

    /// Returns its line for `decisions.sh`.
    pub(super) fn line(&self) -> String {
        format!("{}|{}|{}|{}\n", self.file(), self.scheduler, self.settings, self.options)
    }
}

/// Two random readers, a random and a sequential writer.
const PLAIN: &str = "--name=r1 --rw=randread --iodepth=3 --name=r2 --rw=randread --offset=64m --iodepth=2 \
    --name=w1 --rw=randwrite --offset=128m --iodepth=4 --name=w2 --rw=write --offset=192m --iodepth=2";
/// A reader of the real-time class, one of the default class, a writer of the default and one of the idle class.
const CLASSES: &str = "--name=r1 --rw=randread --iodepth=2 --prioclass=1 --prio=2 --thinktime=500 \
    --name=r2 --rw=randread --offset=64m --iodepth=4 --name=w1 --rw=randwrite --offset=128m --iodepth=4 \
    --name=w2 --rw=randwrite --offset=192m --iodepth=4 --prioclass=3";

/// The settings that leave BFQ its main mechanism.
const MAIN: &str = "low_latency=0 slice_idle=0 max_budget=256";

pub(super) const LOADS: [Load; 21] = [
    Load::new("mq-deadline", "plain", "", PLAIN),
    Load::new("mq-deadline", "classes", "", CLASSES),
    Load::new(
        "mq-deadline",
        "two-classes",
        "fifo_batch=3 writes_starved=1",
        "--name=r1 --rw=randrw --iodepth=4 --prioclass=1 --prio=2 --thinktime=700 --thinktime_blocks=3 \
         --name=r2 --rw=randread --offset=64m --iodepth=4 --name=w1 --rw=randwrite --offset=128m --iodepth=4",
    ),
    Load::new(
        "mq-deadline",
        "three-classes",
        "fifo_batch=4 writes_starved=3",
        "--name=r1 --rw=randrw --iodepth=3 --prioclass=1 --prio=2 --thinktime=1000 --thinktime_blocks=2 \
         --name=r2 --rw=randrw --offset=64m --iodepth=6 --name=w1 --rw=randrw --offset=128m --iodepth=6 --prioclass=3",
    ),
    Load::new(
        "mq-deadline",
        "aging",
        "prio_aging_expire=12 fifo_batch=2 writes_starved=1",
        "--number_ios=20 --name=r1 --rw=randread --iodepth=6 --prioclass=1 --number_ios=150 \
         --name=r2 --rw=randread --offset=256m --iodepth=4",
    ),
    Load::new(
        "mq-deadline",
        "late-idle",
        "fifo_batch=5 writes_starved=4",
        "--number_ios=50 --name=r1 --rw=randrw --iodepth=3 --prioclass=1 --thinktime=900 --thinktime_blocks=4 \
         --name=r2 --rw=randrw --offset=256m --iodepth=7 --name=r3 --rw=randrw --offset=512m --iodepth=3 --prioclass=3",
    ),
    Load::new("kyber", "plain", "", PLAIN),
    Load::new("kyber", "classes", "", CLASSES),
    Load::new("bfq", "plain", "", PLAIN),
    Load::new("bfq", "classes", "", CLASSES),
    Load::new(
        "bfq",
        "plain-mixed",
        "",
        "--name=r1 --rw=randrw --iodepth=5 --name=r2 --rw=read --offset=256m --iodepth=2 \
         --name=w1 --rw=randwrite --offset=512m --iodepth=3 --name=r4 --rw=randread --offset=768m --iodepth=1 --bs=16k",
    ),
    Load::new(
        "bfq",
        "weights",
        MAIN,
        "--name=r1 --rw=randread --iodepth=6 --prioclass=2 --prio=6 \
         --name=r2 --rw=randread --offset=256m --iodepth=6 --prioclass=2 --prio=2 \
         --name=r3 --rw=randread --offset=512m --iodepth=6 --prioclass=2 --prio=0 \
         --name=r4 --rw=randread --offset=768m --iodepth=6 --prioclass=2 --prio=7",
    ),
    Load::new(
        "bfq",
        "budgets",
        "low_latency=0 slice_idle=0 max_budget=12288",
        "--bs=512k --name=r1 --rw=randread --iodepth=5 --prioclass=2 --prio=1 \
         --name=r2 --rw=randread --offset=256m --iodepth=5 --prioclass=2 --prio=4",
    ),
    Load::new(
        "bfq",
        "large",
        "low_latency=0 slice_idle=0 max_budget=1024",
        "--bs=128k --name=r1 --rw=randread --iodepth=5 --prioclass=2 --prio=1 \
         --name=r2 --rw=randread --offset=256m --iodepth=5 --prioclass=2 --prio=4 \
         --name=r3 --rw=randread --offset=512m --iodepth=5 --prioclass=2 --prio=6",
    ),
    Load::new(
        "bfq",
        "equal-weights",
        MAIN,
        "--name=r1 --rw=randread --iodepth=6 --name=other --prioclass=2 --prio=5 --number_ios=1 --rw=randread --offset=512m \
         --name=r2 --rw=randread --offset=256m --iodepth=6",
    ),
    Load::new(
        "bfq",
        "asynchronous",
        MAIN,
        "--name=r1 --rw=randread --iodepth=4 --name=r2 --rw=randread --offset=256m --iodepth=4 \
         --name=a --rw=randwrite --offset=512m --direct=0 --ioengine=psync --sync_file_range=write:4",
    ),
    Load::new(
        "bfq",
        "real-time",
        MAIN,
        "--name=r1 --rw=randread --iodepth=3 --prioclass=1 --prio=4 --thinktime=800 \
         --name=r2 --rw=randread --offset=256m --iodepth=5 \
         --name=r3 --rw=randread --offset=512m --iodepth=4 --prioclass=2 --prio=1",
    ),
    Load::new(
        "bfq",
        "three-classes",
        MAIN,
        "--number_ios=30 --name=r1 --rw=randread --iodepth=2 --prioclass=1 --prio=2 --thinktime=500 \
         --name=r2 --rw=randread --offset=256m --iodepth=4 --name=w1 --rw=randwrite --offset=512m --iodepth=4 \
         --name=w2 --rw=randwrite --offset=768m --iodepth=4 --prioclass=3",
    ),
    Load::new(
        "bfq",
        "strict",
        "low_latency=0 max_budget=256 strict_guarantees=1",
        "--name=r1 --rw=randread --iodepth=1 --prioclass=2 --prio=0 \
         --name=r2 --rw=randread --offset=256m --iodepth=2 --prioclass=2 --prio=4 \
         --name=r3 --rw=randread --offset=512m --iodepth=6 --prioclass=2 --prio=7",
    ),
    Load::new(
        "bfq",
        "shallow",
        MAIN,
        "--name=r1 --rw=randread --iodepth=1 --prioclass=2 --prio=0 \
         --name=r2 --rw=randread --offset=256m --iodepth=2 --prioclass=2 --prio=4 \
         --name=r3 --rw=randread --offset=512m --iodepth=6 --prioclass=2 --prio=7",
    ),
    Load::new(
        "bfq",
        "idling",
        "low_latency=0 max_budget=256",
        "--name=r1 --rw=randread --iodepth=1 --prioclass=2 --prio=0 --number_ios=60 \
         --name=r2 --rw=randread --offset=256m --iodepth=2 --prioclass=2 --prio=4 \
         --name=r3 --rw=randread --offset=512m --iodepth=6 --prioclass=2 --prio=7",
    ),
];
