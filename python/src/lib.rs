//! The native module `fonio._fonio` of the Python package.
//!
//! The module converts between Python and fonio's crates: it has no analysis and no model of its own. The classes
//! here are private; the package `fonio` (`python/fonio`) wraps them. Tables are passed through the Arrow C stream
//! interface (`arrow.rs`), everything else as JSON or numbers. Long work runs without Python's lock, and Ctrl-C
//! interrupts it (`interrupt.rs`).

mod arrow;
mod error;
mod explained;
mod ftl;
mod input;
mod interrupt;
mod profile;
mod replay;
mod requests;
mod result;
mod scheduler;
mod simulate;
mod source;
mod stream;
mod sweep;

use pyo3::prelude::*;

/// Creates the module.
#[pymodule]
fn _fonio(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("FonioError", module.py().get_type::<error::FonioError>())?;
    module.add_class::<input::Input>()?;
    module.add_class::<explained::Explained>()?;
    module.add_class::<stream::Stream>()?;
    module.add_class::<profile::Profile>()?;
    module.add_class::<source::ClosedLoop>()?;
    module.add_class::<replay::Replay>()?;
    module.add_class::<result::Simulation>()?;
    module.add_class::<scheduler::Waiting>()?;
    module.add_class::<ftl::FlashGeometry>()?;
    module.add_class::<ftl::FlashWork>()?;
    module.add_function(wrap_pyfunction!(explained::compare, module)?)?;
    module.add_function(wrap_pyfunction!(explained::analyse_requests, module)?)?;
    module.add_function(wrap_pyfunction!(profile::shipped, module)?)?;
    module.add_function(wrap_pyfunction!(simulate::simulate, module)?)?;
    module.add_function(wrap_pyfunction!(simulate::schedulers, module)?)?;
    module.add_function(wrap_pyfunction!(sweep::sweep, module)?)?;
    module.add_function(wrap_pyfunction!(ftl::shuffled_blocks, module)?)?;
    Ok(())
}
