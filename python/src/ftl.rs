//! Flash translation layers written in Python.
//!
//! The object has the methods of `fonio_sim::ftl::Ftl`: `write(unit, work)` and `locate(unit)`, and if needed
//! `close_page(work)`, `discard(unit)`, `die_of(physical_unit)` and `census()`. After an error, the layer does nothing,
//! and the run ends with the error (`Failure`).

use std::sync::Arc;

use fonio_sim::ftl::{Census, Die, Ftl, Geometry, LogicalUnit, PhysicalUnit, Step, Work};
use pyo3::prelude::*;

use crate::error::wrong;
use crate::scheduler::Failure;

/// Returns the numbers of erase blocks in the order in which the shipped layers use them with this seed.
#[pyfunction]
pub fn shuffled_blocks(blocks: u32, seed: u64) -> Vec<u32> {
    fonio_sim::ftl::shuffled_blocks(blocks, seed).into_iter().map(|block| block.0).collect()
}

/// The geometry of the flash below a layer.
#[pyclass(frozen, name = "Geometry", module = "fonio._fonio")]
#[derive(Clone, Copy)]
pub struct FlashGeometry {
    geometry: Geometry,
}

#[pymethods]
impl FlashGeometry {
    /// Number of units that the host sees.
    #[getter]
    fn logical_units(&self) -> u32 {
        self.geometry.logical_units
    }

    /// Number of units in an erase block; in a page map, in a superblock.
    #[getter]
    fn units_per_block(&self) -> u32 {
        self.geometry.units_per_block
    }

    /// Number of units that are programmed together.
    #[getter]
    fn units_per_page(&self) -> u32 {
        self.geometry.units_per_page
    }

    /// Number of dies that work at the same time.
    #[getter]
    fn dies(&self) -> u32 {
        self.geometry.dies
    }

    /// Number of erase blocks that the host's units fill.
    #[getter]
    fn logical_blocks(&self) -> u32 {
        self.geometry.logical_blocks()
    }
}

/// Receives the flash operations of one call.
#[pyclass(name = "Work", module = "fonio._fonio")]
pub struct FlashWork {
    dies: u32,
    operations: Vec<Operation>,
}

#[derive(Clone, Copy)]
enum Operation {
    Push(Step),
    Copy(Die, u32),
    Erase(Die),
    ProgramHostPage(Die),
    Merge(Merge),
}

#[derive(Clone, Copy)]
enum Merge {
    Switch,
    Partial,
    Full,
}

impl FlashWork {
    fn die(&self, die: u32) -> PyResult<Die> {
        if die >= self.dies {
            return Err(wrong(format!("there is no die {die}; the device has {} dies, from 0", self.dies)));
        }
        Ok(Die(die))
    }

    fn apply(&self, work: &mut Work) {
        for operation in &self.operations {
            match *operation {
                Operation::Push(step) => work.push(step),
                Operation::Copy(die, pages) => work.copy(die, pages),
                Operation::Erase(die) => work.erase(die),
                Operation::ProgramHostPage(die) => work.program_host_page(die),
                Operation::Merge(Merge::Switch) => work.totals.switch_merges += 1,
                Operation::Merge(Merge::Partial) => work.totals.partial_merges += 1,
                Operation::Merge(Merge::Full) => work.totals.full_merges += 1,
            }
        }
    }
}

#[pymethods]
impl FlashWork {
    /// Adds the program of one page of host data. The host's data are in flash after this step.
    fn program_host_page(&mut self, die: u32) -> PyResult<()> {
        let die = self.die(die)?;
        self.operations.push(Operation::ProgramHostPage(die));
        Ok(())
    }

    /// Adds the copy of `pages` pages within a die.
    fn copy(&mut self, die: u32, pages: u32) -> PyResult<()> {
        let die = self.die(die)?;
        self.operations.push(Operation::Copy(die, pages));
        Ok(())
    }

    /// Adds the erasure of an erase block of a die.
    fn erase(&mut self, die: u32) -> PyResult<()> {
        let die = self.die(die)?;
        self.operations.push(Operation::Erase(die));
        Ok(())
    }

    /// Adds reads and programs of copied pages on one die.
    #[pyo3(signature = (die, reads = 0, copy_programs = 0))]
    fn push(&mut self, die: u32, reads: u32, copy_programs: u32) -> PyResult<()> {
        let die = self.die(die)?;
        self.operations.push(Operation::Push(Step { die, reads, copy_programs, ..Step::default() }));
        Ok(())
    }

    /// Counts a merge of a log block: `switch`, `partial` or `full`.
    fn count_merge(&mut self, kind: &str) -> PyResult<()> {
        let merge = match kind {
            "switch" => Merge::Switch,
            "partial" => Merge::Partial,
            "full" => Merge::Full,
            _ => return Err(wrong(format!("`{kind}` is not a merge; use switch, partial or full"))),
        };
        self.operations.push(Operation::Merge(merge));
        Ok(())
    }
}

/// A translation layer whose map an object in Python keeps.
pub struct PythonFtl {
    geometry: Geometry,
    object: Option<Py<PyAny>>,
    failure: Arc<Failure>,
}

impl PythonFtl {
    /// Creates a layer: calls `make` with the geometry. An error is kept in `failure`.
    pub fn new(geometry: Geometry, make: &Bound<'_, PyAny>, failure: &Arc<Failure>) -> PythonFtl {
        let made = || {
            let object = make.call1((FlashGeometry { geometry },))?;
            for method in ["write", "locate"] {
                if !object.hasattr(method)? {
                    return Err(wrong(format!(
                        "ftl must be a class or function that returns an object with the methods write and locate; {} has \
                         no method {method}",
                        object.get_type().name()?
                    )));
                }
            }
            Ok(object.unbind())
        };
        let object = made().map_err(|error| failure.set(error)).ok();
        PythonFtl { geometry, object, failure: Arc::clone(failure) }
    }

    /// Calls a method unless Python has failed before. Returns `None` after an error, or if the object lacks an
    /// optional method.
    fn call<T>(
        &self,
        method: &str,
        is_optional: bool,
        call: impl FnOnce(Bound<'_, PyAny>) -> PyResult<T>,
    ) -> Option<T> {
        let object = self.object.as_ref().filter(|_| !self.failure.has_failed())?;
        let result = Python::attach(|py| {
            let object = object.bind(py);
            if is_optional && !object.hasattr(method)? {
                return Ok(None);
            }
            call(object.getattr(method)?).map(Some)
        });
        result.map_err(|error| self.failure.set(error)).ok().flatten()
    }

    /// Calls a method with an empty [`FlashWork`], and adds the operations to `work`.
    fn work(&self, method: &str, unit: Option<LogicalUnit>, work: &mut Work) {
        let is_optional = unit.is_none();
        let operations = self.call(method, is_optional, |method| {
            let collected =
                Bound::new(method.py(), FlashWork { dies: self.geometry.dies, operations: Vec::new() })?;
            match unit {
                Some(unit) => method.call1((unit.0, &collected))?,
                None => method.call1((&collected,))?,
            };
            let collected = collected.borrow();
            Ok(FlashWork { dies: collected.dies, operations: collected.operations.clone() })
        });
        if let Some(operations) = operations {
            operations.apply(work);
        }
    }
}

impl Ftl for PythonFtl {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn write(&mut self, unit: LogicalUnit, work: &mut Work) {
        self.work("write", Some(unit), work);
    }

    fn close_page(&mut self, work: &mut Work) {
        self.work("close_page", None, work);
    }

    fn discard(&mut self, unit: LogicalUnit) {
        self.call("discard", true, |method| method.call1((unit.0,)).map(drop));
    }

    fn locate(&self, unit: LogicalUnit) -> Option<PhysicalUnit> {
        let at: Option<u32> = self.call("locate", false, |method| method.call1((unit.0,))?.extract())?;
        at.map(PhysicalUnit)
    }

    fn die_of(&self, unit: PhysicalUnit) -> Die {
        let die = self.call("die_of", true, |method| {
            let die: u32 = method.call1((unit.0,))?.extract()?;
            if die >= self.geometry.dies {
                return Err(wrong(format!(
                    "die_of returned die {die}; the device has {} dies",
                    self.geometry.dies
                )));
            }
            Ok(die)
        });
        // By default, each erase block is on one die.
        Die(die.unwrap_or(unit.0 / self.geometry.units_per_block % self.geometry.dies))
    }

    fn census(&self) -> Census {
        let counts = self.call("census", true, |method| method.call0()?.extract());
        let (total, free, data, log) = counts.unwrap_or_default();
        Census { total, free, data, log }
    }
}
