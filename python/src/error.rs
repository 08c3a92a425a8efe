//! Converts errors to Python's exceptions.

use std::error::Error;

use pyo3::PyErr;
use pyo3::exceptions::{PyException, PyValueError};

pyo3::create_exception!(
    _fonio,
    FonioError,
    PyException,
    "An input, a profile or a simulation that fonio refuses."
);

/// Returns the message of an error with the messages of its causes, as the command line prints it.
pub fn message(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let more = next.to_string();
        // Some errors already contain the message of their cause.
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = next.source();
    }
    text
}

/// Converts an error of an input, a profile or a simulation.
pub fn refused(error: impl Error) -> PyErr {
    FonioError::new_err(message(&error))
}

/// Converts an error of an argument.
pub fn wrong(text: impl Into<String>) -> PyErr {
    PyValueError::new_err(text.into())
}
