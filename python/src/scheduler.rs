//! I/O schedulers written in Python.
//!
//! The object has the methods of `fonio_sim::scheduler::Scheduler`: `insert(request, now)`,
//! `dispatch(now, in_flight)`, and if needed `complete(request, issued, now)` and `next_timer(now)`. Each decision is
//! checked. After an error, this scheduler dispatches the remaining requests in the order of insertion, so that the
//! engine comes to its next event, where the run ends with the error (`Failure`).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fonio_core::Timestamp;
use fonio_sim::scheduler::{Request, RequestId, Scheduler};
use pyo3::prelude::*;

use crate::error::wrong;

/// The first error of a scheduler or a translation layer in Python.
#[derive(Default)]
pub struct Failure {
    has_failed: AtomicBool,
    error: Mutex<Option<PyErr>>,
}

impl Failure {
    /// Keeps an error if it is the first.
    pub fn set(&self, error: PyErr) {
        let mut kept = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get_or_insert(error);
        self.has_failed.store(true, Ordering::Release);
    }

    /// Returns whether there was an error.
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    /// Returns the error and removes it.
    pub fn take(&self) -> Option<PyErr> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A request that waits in a scheduler.
#[pyclass(frozen, name = "Request", module = "fonio._fonio")]
pub struct Waiting {
    request: Request,
}

#[pymethods]
impl Waiting {
    /// The number of requests that were queued before this one.
    #[getter]
    fn id(&self) -> u64 {
        self.request.id.0
    }

    /// The name of the operation.
    #[getter]
    fn op(&self) -> &'static str {
        self.request.op.name()
    }

    /// Whether a program waits for the request.
    #[getter]
    fn is_sync(&self) -> bool {
        self.request.is_synchronous()
    }

    /// The first sector (512 bytes).
    #[getter]
    fn sector(&self) -> u64 {
        self.request.sector.0
    }

    /// The length in bytes.
    #[getter]
    fn bytes(&self) -> u64 {
        self.request.bytes.0
    }

    /// The first sector after the request.
    #[getter]
    fn end(&self) -> u64 {
        self.request.end().0
    }

    /// The process that queued the request.
    #[getter]
    fn process(&self) -> u32 {
        self.request.process.0
    }

    /// The priority class: `rt`, `be` or `idle`.
    #[getter]
    fn priority_class(&self) -> &'static str {
        self.request.priority.class.name()
    }

    /// The priority level, from 0 (highest) to 7.
    #[getter]
    fn priority_level(&self) -> u8 {
        self.request.priority.level
    }

    fn __repr__(&self) -> String {
        let Request { id, op, sector, bytes, .. } = self.request;
        format!("Request(id={}, op='{}', sector={}, bytes={})", id.0, op.name(), sector.0, bytes.0)
    }
}

/// A scheduler whose decisions an object in Python makes.
pub struct PythonScheduler {
    object: Py<PyAny>,
    has_complete: bool,
    has_timer: bool,
    /// The requests that were inserted and not dispatched.
    waiting: BTreeMap<RequestId, Request>,
    failure: Arc<Failure>,
}

impl PythonScheduler {
    /// Creates a scheduler from an object. Fails if the object lacks a method.
    pub fn new(object: &Bound<'_, PyAny>, failure: &Arc<Failure>) -> PyResult<PythonScheduler> {
        for method in ["insert", "dispatch"] {
            if !object.hasattr(method)? {
                return Err(wrong(format!(
                    "scheduler must be the name of a model or an object with the methods insert and dispatch; {} has no \
                     method {method}",
                    object.get_type().name()?
                )));
            }
        }
        Ok(PythonScheduler {
            has_complete: object.hasattr("complete")?,
            has_timer: object.hasattr("next_timer")?,
            object: object.clone().unbind(),
            waiting: BTreeMap::new(),
            failure: Arc::clone(failure),
        })
    }

    /// Calls Python unless it has failed before. Keeps an error.
    fn call<T>(&self, call: impl FnOnce(Python<'_>, &Bound<'_, PyAny>) -> PyResult<T>) -> Option<T> {
        if self.failure.has_failed() {
            return None;
        }
        let result = Python::attach(|py| call(py, self.object.bind(py)));
        result.map_err(|error| self.failure.set(error)).ok()
    }

    /// Returns the request that Python chose; `None` if it holds all requests back.
    fn chosen(&self, now: Timestamp, in_flight: u32) -> PyResult<Option<RequestId>> {
        let chosen = Python::attach(|py| {
            let chosen = self.object.bind(py).call_method1("dispatch", (now.0, in_flight))?;
            if chosen.is_none() {
                return Ok(None);
            }
            let chosen = chosen
                .cast::<Waiting>()
                .map_err(|_| wrong("dispatch must return a request that it got from insert, or None"))?;
            Ok::<_, PyErr>(Some(chosen.get().request.id))
        })?;
        match chosen {
            Some(id) if !self.waiting.contains_key(&id) => {
                Err(wrong(format!("dispatch returned request {}, which does not wait any longer", id.0)))
            }
            None if in_flight == 0 && self.timer(now)?.is_none() => Err(wrong(format!(
                "at {} ns, dispatch holds all {} requests back; with none in flight, next_timer must return a later time",
                now.0,
                self.waiting.len()
            ))),
            chosen => Ok(chosen),
        }
    }

    /// Returns the time after `now` at which Python may dispatch held requests.
    fn timer(&self, now: Timestamp) -> PyResult<Option<Timestamp>> {
        if !self.has_timer {
            return Ok(None);
        }
        let at: Option<u64> =
            Python::attach(|py| self.object.bind(py).call_method1("next_timer", (now.0,))?.extract())?;
        Ok(at.map(Timestamp).filter(|at| *at > now))
    }
}

impl Scheduler for PythonScheduler {
    fn insert(&mut self, request: Request, now: Timestamp) {
        self.waiting.insert(request.id, request);
        self.call(|_, object| object.call_method1("insert", (Waiting { request }, now.0)).map(drop));
    }

    fn dispatch(&mut self, now: Timestamp, in_flight: u32) -> Option<Request> {
        if self.waiting.is_empty() {
            return None;
        }
        if !self.failure.has_failed() {
            match self.chosen(now, in_flight) {
                Ok(chosen) => return chosen.and_then(|id| self.waiting.remove(&id)),
                Err(error) => self.failure.set(error),
            }
        }
        self.waiting.pop_first().map(|(_, request)| request)
    }

    fn complete(&mut self, request: &Request, issued: Timestamp, now: Timestamp) {
        if self.has_complete {
            let request = Waiting { request: *request };
            self.call(|_, object| object.call_method1("complete", (request, issued.0, now.0)).map(drop));
        }
    }

    fn next_timer(&self, now: Timestamp) -> Option<Timestamp> {
        if self.failure.has_failed() {
            return None;
        }
        self.timer(now).map_err(|error| self.failure.set(error)).ok().flatten()
    }

    fn waiting(&self) -> usize {
        self.waiting.len()
    }
}
