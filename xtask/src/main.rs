//! `cargo xtask`: developer commands. On Debian, these commands install missing programs or print the command
//! line that installs them.

mod assets;
mod bench;
mod bpf;
mod circles;
mod demo;
mod dist;
mod documents;
mod fuzz;
mod gen_trace;
mod kernel;
mod lab;
mod mutants;
mod parts;
mod python;
mod results_demo;
mod results_service;
mod sentences;
mod site;
mod tally;
mod test;
mod tidy;
mod times;
mod workflows;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use xtask::{emulated, process, smartio, tools};

/// Build, test and measure fonio. `cargo studies` lists the measurements for scientific questions.
#[derive(Parser)]
#[command(name = "cargo xtask", disable_help_subcommand = true)]
struct CommandLine {
    /// The task. Without a task, all tasks are listed.
    #[command(subcommand)]
    task: Option<Task>,
}

#[derive(Subcommand)]
enum Task {
    /// Show fonio's main use: record an app on an emulated card, explain the recording, measure the two best fixes.
    ///
    /// Without root, only explains a recording of the same app.
    Demo(demo::Arguments),
    /// Run all checks: format, lints, documentation, invariants, fuzz targets, tests.
    Test(test::Arguments),
    /// Run the demo and all tests, each in a new clone, and print the time of each part.
    Times(times::Arguments),
    /// Draw random sentences from the documents, comments and messages, seeded by the commit's hash.
    Sentences(sentences::Arguments),
    /// Check the invariants of ARCHITECTURE.md.
    Tidy,
    /// Run the fuzz targets for a given time.
    Fuzz(fuzz::Arguments),
    /// Test whether the tests detect faults that cargo-mutants puts into a sample of the code.
    Mutants(mutants::Arguments),
    /// Write a blktrace capture of any size.
    GenTrace(gen_trace::Arguments),
    /// Measure the speed and the cost of fonio's own code.
    ///
    /// Without a name, compares fonio with Debian's blktrace package: the time to turn a block trace into a report.
    Bench(bench::Arguments),
    /// Build the Python package as a wheel, install it in a virtual environment, and run its tests.
    Python(python::Arguments),
    /// Build the pages of the documentation in target/site. Warnings are errors.
    Site(site::Arguments),
    /// Check fonio on Debian's kernels and in complete Debian systems, in guests.
    Lab(lab::Arguments),
    /// Build and test the SmartIO I/O scheduler, a module for Debian's kernels.
    Kernel(kernel::Arguments),
    /// Make programs that need no libraries, Debian packages, and container images in target/dist.
    ///
    /// Needs clang-14 and rustup. Fails if the recorder alone has 5 MB or more.
    Dist(dist::Arguments),
    /// Bundle the script and the style of the HTML report (npm), and compile the BPF programs (clang-14).
    ///
    /// Needed after a change in crates/fonio-report/web or crates/fonio-record/bpf.
    Assets(assets::Arguments),
    /// Install the programs that the other commands need, or print the command that installs them.
    Setup,
}

fn run(task: Task) -> anyhow::Result<()> {
    match task {
        Task::Demo(arguments) => demo::run(&arguments),
        Task::Test(arguments) => test::run(&arguments),
        Task::Times(arguments) => times::run(&arguments),
        Task::Sentences(arguments) => sentences::run(arguments),
        Task::Tidy => tidy::run(),
        Task::Fuzz(arguments) => fuzz::run(&arguments),
        Task::Mutants(arguments) => mutants::run(&arguments),
        Task::GenTrace(arguments) => gen_trace::run(&arguments),
        Task::Bench(arguments) => bench::run(&arguments),
        Task::Python(arguments) => python::run(&arguments),
        Task::Site(arguments) => site::run(&arguments),
        Task::Lab(arguments) => lab::run(&arguments),
        Task::Kernel(arguments) => kernel::run(arguments),
        Task::Dist(arguments) => dist::run(&arguments),
        Task::Assets(arguments) => assets::run(&arguments),
        Task::Setup => tools::ensure(tools::ALL),
    }
}

fn main() -> ExitCode {
    let outcome = match CommandLine::parse().task {
        Some(task) => run(task),
        None => CommandLine::command().print_help().map_err(Into::into),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cargo xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
