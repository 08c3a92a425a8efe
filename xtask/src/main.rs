//! `cargo xtask`: developers' commands. They install or name what a fresh Debian machine lacks, then do their job.

mod assets;
mod bench_fuse;
#[cfg(feature = "results")]
mod compare_bench;
mod demo;
mod emulated;
mod emulator_bench;
mod fit_bench;
mod fuse_safety;
mod fuse_suites;
mod fuzz;
mod gen_trace;
mod mutants;
#[cfg(feature = "results")]
mod paper;
mod process;
mod report_bench;
mod tally;
mod test;
mod tidy;
mod tools;
mod virtual_machine;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask COMMAND

  demo        run the main job: an app on an emulated card, explained, the two best fixes measured (root), or the report on a
              recording of it
  test        everything that must pass: format, lints, documentation, invariants, fuzz targets, tests
  fuzz        fuzz targets for longer: [TARGET…] [--seconds N] (default: all of them, 600 s each)
  mutants     whether tests notice faults: makes small ones in a sample of the code and runs the tests:
              [assembler] [recorder] [statistics] [buffer] [--seed N] [--sample N, of each; 25]
  fuse-safety `fonio mount` on cards that refuse writes or lose power, a million random operations for each mode
              against a model, pjdfstest and fsx, and its tests on Debian's kernels in virtual machines (root):
              [errors] [power-cuts] [sequences] [suites] [kernels]
  gen-trace   write a blktrace capture of any size: [--out PREFIX] [--ios N] [--seed N] [--cpus N]
  bench       speed and memory from a block trace to the HTML report, beside Debian's blktrace package: [--ios N]
              [--runs N]; `bench record` measures what recording costs (root): [PAIRS] [SECONDS];
              `bench emulator` what fio measures on emulated cards beside model and publication (root): [CARD…];
              `bench fit` fits profiles to emulated cards and checks them (root): [CARD…];
              `bench compare` how often `fonio compare` is wrong, on generated series: [--pairs N]; on recordings of an emulated
              eMMC (root): --real [--pairs N] [--seconds N] [--long N];
              `bench fuse` mounts in every mode beside bindfs (root): [--quick] [--over DIR] [MODE…]; over an
              emulated device, the daemon's processor made slow if wanted: --on PROFILE [--cpu PERCENT|study]
  paper       tables and figures of the studies, ours beside theirs: [ID…|all] [--full] [--cpu SHARE] [--json]
              [--html FILE, with a figure of each]; those that run workloads on emulated devices are run when named (root, about two minutes each); --full takes all
              devices and workloads at full scale, and adds what is
              measured on emulated devices (root)
  assets      bundle the script and the style of the HTML report, after a change in crates/fonio-report/web (npm)
  setup       only install what the other commands need, or print the line that does
  help        this text
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = match arguments.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("help", &[][..]),
    };
    let outcome = match command {
        "demo" => demo::run(rest),
        "test" => test::run(rest),
        "fuzz" => fuzz::run(rest),
        "mutants" => mutants::run(rest),
        "fuse-safety" => fuse_safety::run(rest),
        "bench" => report_bench::run(rest),
        #[cfg(feature = "results")]
        "paper" => paper::run(rest),
        #[cfg(not(feature = "results"))]
        "paper" => process::with_results("paper", rest),
        "assets" => assets::run(rest),
        "gen-trace" => gen_trace::run(rest),
        "setup" => tools::ensure(tools::ALL),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(())
        }
        other => {
            eprintln!("cargo xtask: there is no command `{other}`\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cargo xtask {command}: {error:#}");
            ExitCode::FAILURE
        }
    }
}
