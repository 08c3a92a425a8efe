//! `fonio.simulate`: runs requests through a scheduler and a device in virtual time.

use std::sync::Arc;

use fonio_core::ByteCount;
use fonio_sim::device::Device;
use fonio_sim::engine::Host;
use fonio_sim::scheduler::{Policy, Scheduler};
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::error::wrong;
use crate::ftl::PythonFtl;
use crate::interrupt::interruptible;
use crate::model::run_load;
use crate::profile::{self, Profile};
use crate::result::Simulation;
use crate::scheduler::{Failure, PythonScheduler};
use crate::source::Load;

/// Returns the names of the schedulers that have a model.
#[pyfunction]
pub fn schedulers() -> Vec<&'static str> {
    Policy::ALL.map(Policy::name).to_vec()
}

/// Runs a simulation. `scheduler` is a name or an object; `ftl` makes a translation layer from a geometry.
#[pyfunction]
#[pyo3(signature = (profile, requests, scheduler, ftl, capacity, depth, seed, prepare, samples))]
#[expect(clippy::too_many_arguments, reason = "they are keyword arguments in Python")]
pub fn simulate(
    py: Python<'_>,
    profile: &Profile,
    requests: &Bound<'_, PyAny>,
    scheduler: &Bound<'_, PyAny>,
    ftl: Option<&Bound<'_, PyAny>>,
    capacity: Option<&str>,
    depth: Option<u32>,
    seed: u64,
    prepare: Option<&Bound<'_, PyAny>>,
    samples: u64,
) -> PyResult<Simulation> {
    let capacity = capacity.map(profile::capacity).transpose()?;
    let failure = Arc::new(Failure::default());
    let mut device = match ftl {
        None => device(profile, capacity, seed)?,
        Some(make) => {
            let device = profile
                .model
                .device_with(capacity, |geometry| PythonFtl::new(geometry, make, &failure))
                .map_err(|error| wrong(error.to_string()))?;
            if let Some(error) = failure.take() {
                return Err(error);
            }
            device
        }
    };
    let name = name_of(scheduler)?;
    let mut policy: Box<dyn Scheduler> = match scheduler.extract::<&str>() {
        Ok(name) => named(name)?.scheduler(),
        Err(_) => Box::new(PythonScheduler::new(scheduler, &failure)?),
    };
    let load = Load::of(requests, "requests")?;
    let prepare = prepare.map(|prepare| Load::of(prepare, "prepare")).transpose()?;
    let host = host(device.as_ref(), depth, seed)?;
    let mut settings = settings(profile, device.as_ref(), &name, host);
    if let Some(make) = ftl {
        settings["ftl"] = json!(name_of(make)?);
    }
    let ran = interruptible(py, |stop| {
        run_load(device.as_mut(), policy.as_mut(), prepare.as_ref(), &load, host, samples, &failure, stop)
    })??;
    Ok(Simulation::new(ran, settings))
}

/// Returns the device of a profile, which counts erasures.
pub fn device(profile: &Profile, capacity: Option<ByteCount>, seed: u64) -> PyResult<Box<dyn Device>> {
    profile.model.wearing_device(capacity, seed).map_err(|error| wrong(error.to_string()))
}

/// Returns the model of a scheduler.
pub fn named(name: &str) -> PyResult<Policy> {
    Policy::named(name).ok_or_else(|| {
        let names = Policy::ALL.map(Policy::name);
        let nearest = fonio_core::nearest(name, names);
        wrong(format!("there is no scheduler `{name}`{nearest}; the schedulers are {}", names.join(", ")))
    })
}

/// Returns the host with the depth of the user or, if there is none, of the device.
pub fn host(device: &dyn Device, depth: Option<u32>, seed: u64) -> PyResult<Host> {
    let depth = depth.unwrap_or(device.limits().depth);
    if depth == 0 {
        return Err(wrong("depth must be at least 1"));
    }
    Ok(Host { depth, seed })
}

/// Returns the settings of a run, for its result.
pub fn settings(profile: &Profile, device: &dyn Device, scheduler: &str, host: Host) -> Value {
    let values = profile.model.keys().filter_map(|key| Some((key.path, profile.model.text(key.path)?)));
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "seed": host.seed,
        "profile": profile.model.name(),
        "values": values.collect::<std::collections::BTreeMap<_, _>>(),
        "capacity_bytes": device.limits().capacity.0,
        "depth": host.depth,
        "scheduler": scheduler,
        "ftl": profile.model.word("ftl.kind"),
    })
}

/// Returns a name: the text itself, the name of a class or function, or the name of an object's class.
fn name_of(object: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(name) = object.extract::<String>() {
        return Ok(name);
    }
    match object.getattr("__qualname__") {
        Ok(name) => name.extract(),
        Err(_) => Ok(object.get_type().qualname()?.to_string()),
    }
}
