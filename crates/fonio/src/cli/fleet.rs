//! Defines `fonio fleet`.

use std::ffi::OsString;

use clap::Args;

/// `fonio fleet`.
#[derive(Debug, Args)]
pub struct Fleet {
    /// The command of the package and its options: report, pack, migrate, send or generate.
    ///
    /// `fonio fleet report --help` shows the options of a command.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND", required = true)]
    pub words: Vec<OsString>,
}
