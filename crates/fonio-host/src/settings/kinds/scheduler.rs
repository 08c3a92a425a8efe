//! The setting for the I/O scheduler of a disk.

use crate::kernel::can_load_scheduler;
use crate::settings::kind::*;

pub(super) struct Scheduler;

const OF_LINUX: SettingFix = SettingFix {
    needs: "a disk whose kernel has the scheduler",
    trial: Trial::Scheduler,
    ..SettingFix::DEFAULT
};

const FACTS: Facts = Facts {
    tag: "scheduler",
    title: "the scheduler",
    held: Held::QueueFile("scheduler"),
    comes_first: true,
    fixes: &[
        SettingFix {
            name: SMARTIO,
            does: "the scheduler SmartIO, a module that comes with fonio's sources: dispatches reads before writes, writes wait for a bounded time, and large writes of the page cache are split while a program reads",
            needs: "a disk, and the kernel module smartio-iosched",
            source: "Nguyen et al. (MobiSys 2015)",
            ..OF_LINUX
        },
        SettingFix { name: "bfq", does: "the scheduler BFQ", ..OF_LINUX },
        SettingFix { name: "mq-deadline", does: "the scheduler mq-deadline", ..OF_LINUX },
        SettingFix { name: "kyber", does: "the scheduler kyber", ..OF_LINUX },
    ],
    ..Facts::DEFAULT
};

impl Kind for Scheduler {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn check(&self, wanted: &Wanted<'_>, on: &Object) -> Result<(), Refusal> {
        let (_, offered) = Queue::of(on.disk()).schedulers()?;
        let wanted = wanted.value.to_string();
        if offered.contains(&wanted) || can_load_scheduler(&wanted) {
            return Ok(());
        }
        Err(HostError::NoScheduler { device: on.disk().to_owned(), wanted, offered }.into())
    }

    fn current(&self, on: &Object) -> Result<Option<String>, HostError> {
        Ok(Some(Queue::of(on.disk()).schedulers()?.0))
    }

    fn set(&self, on: &Object, value: &str) -> Result<(), HostError> {
        Queue::of(on.disk()).set_scheduler(value)
    }

    fn scheduler<'v>(&self, wanted: &'v Value) -> Option<&'v str> {
        wanted.word()
    }
}
