//! Reproduces Figure 10, and the gains of Figure 13: SmartIO's effect on app launches.
//!
//! The study compares SmartIO with CFQ, which current kernels no longer have. The guest uses BFQ instead; the
//! simulation in virtual time uses a model of CFQ. The study launched its apps alone or in daily use; we
//! launch our apps while other apps are installed.

use anyhow::{Context, Result};

use super::measured::{Kind, Measured};
use super::published::Published;
use super::row::{Quantity, Row};
use super::runs::Runs;
use super::workload::knows;
use crate::applications::{self, Applications};

const TIMES: Quantity = Quantity::new("times", 2, 1.25, 0.0);

const WHY: &str = "the guest's processor is mostly busy, and an installer writes during the launches";

pub(super) fn rows(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let cold = published.numbers("smartio.app_delay.cold_launch")?;
    let s5 = published.number("smartio.iowait.reduction_percent.samsung_s5")?;
    let found = runs.applications(&applications::FORTY_APPS)?;
    let kernel = |of: fn(&applications::Measured) -> &Vec<f64>| ratio(&found, of);
    let model = |name: &str| Ok::<_, anyhow::Error>(Kind::Model.runs(found.of(name)?.model_read_s.clone()));
    let left = |percent: f64| 1.0 - percent / 100.0;
    // The author of the models had read the study.
    let models = model("smartio")?.over(&model("cfq")?).known(true);
    Ok(vec![
        TIMES.effect("iowait, SmartIO over BFQ", left(s5), &kernel(|of| &of.iowait_ticks)?, WHY),
        TIMES.effect(
            "cold launches, SmartIO over BFQ",
            left(cold["mean"]),
            &kernel(|of| &of.launches_s)?.known(knows("fortyapps", "cold_launch_gain_mean_percent")?),
            WHY,
        ),
        TIMES.effect(
            "waits of cold launches for storage, SmartIO over BFQ",
            left(cold["disk_io_part_mean"]),
            &kernel(|of| &of.blocked_s)?,
            "the programs also wait for their own syncs, which no scheduler can shorten",
        ),
        TIMES
            .effect(
                "reads of cold launches, SmartIO over CFQ, by models",
                left(cold["disk_io_part_mean"]),
                &models,
                "the recorded programs wait for most reads one by one",
            )
            .of_numbers(0),
    ])
}

pub(super) fn ratio(found: &Applications, of: fn(&applications::Measured) -> &Vec<f64>) -> Result<Measured> {
    let values = |name: &str| {
        let kernel = found.of(name)?.kernel.as_ref().with_context(|| format!("the kernel has no {name}"))?;
        Ok::<_, anyhow::Error>(Kind::Imitation.runs(of(kernel).clone()))
    };
    Ok(values("smartio")?.over(&values("bfq")?))
}
