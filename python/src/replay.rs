//! The replay of a recording as a load: its accesses, with the waits of its threads.

use std::collections::BTreeSet;
use std::sync::Arc;

use fonio_input::UntilStopped;
use fonio_sim::recorded::Collected;
use fonio_sim::simulation::{self, Load};
use pyo3::prelude::*;

use crate::error::{refused, wrong};
use crate::input::Input;
use crate::interrupt::interruptible;

/// The accesses of an input, with the waits of its threads.
#[pyclass(frozen, subclass, module = "fonio._fonio")]
pub struct Replay {
    load: Arc<Load>,
    /// Number of reads, writes and flushes.
    accesses: u64,
    /// Number of discards and other operations that are not replayed.
    left_out: u64,
    /// Number of requests to other devices.
    of_other_devices: u64,
}

#[pymethods]
impl Replay {
    /// Reads the requests, threads and waits of an input.
    #[new]
    #[pyo3(signature = (input, fast))]
    fn new(py: Python<'_>, input: &Bound<'_, Input>, fast: bool) -> PyResult<Replay> {
        let input = input.get();
        let sequence = interruptible(py, |stop| -> PyResult<_> {
            let mut collected = Collected::of_requests();
            input.pour(&mut UntilStopped::new(&mut collected, stop)).map_err(refused)?;
            collected
                .sequence()
                .map_err(|error| wrong(format!("{} cannot be replayed: {error}", input.name())))
        })??;
        if sequence.is_empty() {
            return Err(wrong(format!("{} has no reads, writes or flushes to replay", input.name())));
        }
        Ok(Replay {
            accesses: sequence.len() as u64,
            left_out: sequence.left_out,
            of_other_devices: sequence.of_other_devices,
            load: Arc::new(Load::Replay(simulation::Replay { sequence, fast, idle: BTreeSet::new() })),
        })
    }

    /// Number of reads, writes and flushes.
    #[getter]
    fn accesses(&self) -> u64 {
        self.accesses
    }

    /// Number of discards and other operations that are not replayed.
    #[getter]
    fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Number of requests to other devices, which are not replayed.
    #[getter]
    fn of_other_devices(&self) -> u64 {
        self.of_other_devices
    }
}

impl Replay {
    pub fn load(&self) -> Arc<Load> {
        Arc::clone(&self.load)
    }
}
