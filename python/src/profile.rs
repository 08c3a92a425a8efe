//! Device profiles: the shipped ones, and changed ones.

use fonio_core::ByteCount;
use fonio_sim::profile::{self, Profile as Model, SHIPPED, Source};
use pyo3::prelude::*;

use crate::error::{refused, wrong};

/// Returns the name and the description of every shipped profile.
#[pyfunction]
pub fn shipped() -> Vec<(&'static str, &'static str)> {
    SHIPPED.to_vec()
}

/// A profile of a device: values with their keys. `fonio.Profile` is a dictionary around it.
#[pyclass(module = "fonio._fonio")]
#[derive(Clone)]
pub struct Profile {
    pub model: Model,
}

#[pymethods]
impl Profile {
    /// Returns the shipped profile with this name. Fails with the nearest name if there is none.
    #[staticmethod]
    fn named(name: &str) -> PyResult<Profile> {
        let model = Model::shipped(name).ok_or_else(|| {
            let names = SHIPPED.iter().map(|(name, _)| *name);
            let nearest = fonio_core::nearest(name, names.clone());
            let names: Vec<&str> = names.collect();
            wrong(format!("there is no profile `{name}`{nearest}; the profiles are {}", names.join(", ")))
        })?;
        Ok(Profile { model })
    }

    /// Parses a profile from the text of a TOML file.
    #[staticmethod]
    fn parse(name: &str, text: &str) -> PyResult<Profile> {
        Ok(Profile { model: Model::parse(name, text).map_err(refused)? })
    }

    /// Creates a profile without values.
    #[staticmethod]
    fn empty(name: &str, about: &str) -> Profile {
        Profile { model: Model::empty(name, about) }
    }

    fn copy(&self) -> Profile {
        self.clone()
    }

    #[getter]
    fn name(&self) -> &str {
        self.model.name()
    }

    #[getter]
    fn about(&self) -> &str {
        self.model.about()
    }

    fn rename(&mut self, name: &str, about: &str) {
        self.model.rename(name, about);
    }

    fn keys(&self) -> Vec<&'static str> {
        self.model.keys().map(|key| key.path).collect()
    }

    /// Returns the value of a key as text; `None` if the profile does not have the key.
    fn get(&self, key: &str) -> Option<String> {
        self.model.text(key)
    }

    /// Sets a value from text. Fails if the key is unknown, or if the value does not fit the key.
    fn set(&mut self, key: &str, value: &str) -> PyResult<()> {
        self.model
            .set_text(key, value, Source::Chosen, "set in Python")
            .map_err(|error| wrong(error.to_string()))
    }

    /// Removes a key. Returns whether the profile had it.
    fn remove(&mut self, key: &str) -> PyResult<bool> {
        self.model.remove(key).map_err(|error| wrong(error.to_string()))
    }

    /// Fails if a device cannot be built, because a value is missing or values contradict each other.
    fn check(&self) -> PyResult<()> {
        self.model.check().map_err(|error| wrong(error.to_string()))
    }

    /// Returns the origin of each value: key, kind of source, and text.
    fn sources(&self) -> Vec<(&'static str, &'static str, String)> {
        let origins = self.model.provenance().into_iter();
        origins.map(|origin| (origin.key, origin.source.name(), origin.to)).collect()
    }

    fn toml(&self) -> String {
        self.model.to_toml()
    }

    /// Returns the meaning of each key that a profile can have.
    #[staticmethod]
    fn meanings() -> Vec<(&'static str, &'static str)> {
        profile::schema::KEYS.iter().map(|key| (key.path, key.meaning)).collect()
    }
}

/// Parses a capacity such as `4 GiB` or a number of bytes.
pub fn capacity(text: &str) -> PyResult<ByteCount> {
    text.parse().map_err(|error| wrong(format!("capacity: {error}")))
}
