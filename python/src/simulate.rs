//! `fonio.simulate`: runs requests through a scheduler and a device in virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fonio_core::ByteCount;
use fonio_sim::device::Device;
use fonio_sim::engine::{EngineError, Host};
use fonio_sim::scheduler::{Policy, Scheduler};
use fonio_sim::simulation::{self, Load, Ran, Settings, SimulationError, Summary};
use pyo3::prelude::*;

use crate::error::{refused, wrong};
use crate::ftl::PythonFtl;
use crate::interrupt::interruptible;
use crate::profile::{self, Profile};
use crate::result::Simulation;
use crate::scheduler::{Failure, PythonScheduler};
use crate::source::Given;

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
    let given = Given::of(requests, "requests")?;
    let prepare = prepare.map(|prepare| Given::of(prepare, "prepare")).transpose()?;
    let prepare = prepare.as_ref().map(|prepare| prepare.load.as_ref());
    let host = host(device.as_ref(), depth, seed)?;
    let mut settings = Settings::of(&profile.model, device.as_ref(), &name, host);
    if let Some(make) = ftl {
        settings.ftl = Some(name_of(make)?);
    }
    let (ran, summary) = interruptible(py, |stop| -> PyResult<_> {
        let mut ran =
            run(device.as_mut(), policy.as_mut(), prepare, &given.load, host, samples, &failure, stop)?;
        let summary = Summary::of(&ran, &settings);
        ran.done = given.in_rows(ran.done);
        Ok((ran, summary))
    })??;
    Ok(Simulation::new(ran, &summary))
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

/// Runs a load until it ends, fails in Python, or is interrupted.
#[expect(clippy::too_many_arguments, reason = "each is a part of a run, and all differ in type")]
pub fn run(
    device: &mut dyn Device,
    scheduler: &mut dyn Scheduler,
    prepare: Option<&Load>,
    load: &Load,
    host: Host,
    samples: u64,
    failure: &Failure,
    stop: &AtomicBool,
) -> PyResult<Ran> {
    let is_over = || failure.has_failed() || stop.load(Ordering::Relaxed);
    let ran = simulation::run(device, scheduler, prepare, load, host, samples, &is_over);
    let ran = ran.map_err(|error| match error {
        SimulationError::Engine(EngineError::Stopped) => {
            failure.take().unwrap_or_else(|| wrong("interrupted"))
        }
        error @ SimulationError::DoesNotFit { .. } => {
            wrong(format!("{error}; simulate a larger device (capacity=)"))
        }
        error @ SimulationError::RangeBeyondDevice { .. } => wrong(error.to_string()),
        other => refused(other),
    })?;
    failure.take().map_or(Ok(ran), Err)
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
