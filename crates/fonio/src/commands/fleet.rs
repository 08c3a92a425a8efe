//! Implements `fonio fleet`: runs the Python package `fonio.fleet`.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use anyhow::{Result, bail};

use crate::cli::fleet::Fleet;
use crate::exit::Exit;

/// Names another Python than `python3` of the search path, such as that of a virtual environment.
const PYTHON: &str = "FONIO_PYTHON";
/// The package is in fonio's sources. It is not in PyPI, where a package with its name would be a stranger's.
const HOW: &str = "in the folder of fonio's sources, run `python3 -m venv ~/fonio && ~/fonio/bin/pip install duckdb \
    pyarrow numpy fsspec`, and then `FONIO_PYTHON=~/fonio/bin/python3 PYTHONPATH=$PWD/python fonio fleet …`";

pub fn run(arguments: &Fleet) -> Result<Exit> {
    let python = std::env::var_os(PYTHON).unwrap_or_else(|| "python3".into());
    let command = || {
        let mut command = Command::new(&python);
        // Without this, a folder named `fonio` in the current folder would be taken for the package.
        command.env("PYTHONSAFEPATH", "1");
        command
    };
    let find = "import importlib.util, sys; sys.exit(0 if importlib.util.find_spec('fonio.fleet') else 3)";
    let found = command().args(["-c", find]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let shown = python.to_string_lossy();
    match found {
        Err(error) => bail!("`fonio fleet` needs Python, but {shown} cannot be started ({error}): {HOW}"),
        Ok(status) if !status.success() => {
            bail!("`fonio fleet` needs the Python package fonio, which {shown} does not have: {HOW}")
        }
        Ok(_) => {}
    }
    // The package prints its own errors, and its exit code is ours.
    let error = command().args(["-m", "fonio.fleet"]).args(&arguments.words).exec();
    bail!("{shown} cannot be started: {error}")
}
