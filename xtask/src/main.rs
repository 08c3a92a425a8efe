//! `cargo xtask`: commands for developers. They install programs that a fresh Debian machine lacks, or print the
//! command that does.

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
mod results_demo;
mod results_service;
mod sentences;
mod tally;
mod test;
mod tidy;
mod times;

use std::process::ExitCode;

use xtask::{emulated, process, smartio, tools};

const HELP: &str = "\
cargo xtask COMMAND

  demo        run the main job: record an app on an emulated card, explain the recording, measure the two best fixes (root);
              without root, explain a recording of it
              `demo results`: the results service: measure emulated cards, send the results after a preview, and show the page
              (root, four minutes): [--once, which ends without waiting for Ctrl-C]
  test        run all checks: format, lints, documentation, invariants, fuzz targets, tests
              `test --fast`: format, invariants, lints, and the unit tests of the crates that changed since they passed
  times       run the demo and all tests, each in a new clone with nothing compiled, and print how long each part takes:
              [demo] [test] [fast]
  sentences   draw sentences of the documents, comments and messages, by the commit's hash, for a reader who judges the language:
              [--count N] [--commit HASH]
  tidy        check the invariants of ARCHITECTURE.md; [--circles] prints the circles of files, known ones included
  fuzz        run the fuzz targets for longer: [TARGET…] [--seconds N] (default: all of them, 600 s each)
  mutants     make small faults in a sample of the code, and see whether the tests notice:
              [assembler] [recorder] [statistics] [buffer] [--seed N] [--sample N, of each; 25]
  gen-trace   write a blktrace capture of any size: [--out PREFIX] [--ios N] [--seed N] [--cpus N]
  bench       measure speed and memory from a block trace to the HTML report, compared with Debian's blktrace package:
              [--ios N] [--runs N]
              `bench record`: the cost of recording (root): [PAIRS] [SECONDS]
              `bench blocked`: the cost of recording which threads are blocked (root): [SECONDS]
              `bench watch`: what the watch writes, its processor time and memory (root): [written|cost] [--for TIME]
              `bench statements`: the cost of recording SQL statements (root, python3): [ROUNDS] [ROWS]
              `bench sync-policy`: the processor time that the library of a sync policy adds to a transaction
              `bench devices`: the speed of device models
              `bench results`: the results service with 10,000,000 results: ranking pages on one processor, submissions, kill -9, a
              full disk (root), requests from its OpenAPI document (python3): [ranking] [submissions] [kill] [full] [schema]
              [--results N] [--seconds S] [--rounds N]; the seeded database (2 KB for each result) is kept
              `cargo studies` lists the measurements that answer a scientific question
  lab         `lab test`: check what fonio promises on Debian's kernels and in whole Debian systems, in guests (one hour):
              [waits] [watch] [keep] [system] [sync-policy]
  kernel      `kernel build`: build the SmartIO I/O scheduler as a module of Debian's kernels (root): [6.1] [6.12] [newest]
              `kernel test`: build it and use it in guests: switched under load, reloaded, devices removed (root; on a machine
              with two processors, ten minutes for each kernel): [KERNEL…] [--rounds N] [--seconds N] [--requests N, of mixed load]
  dist        make programs that need no libraries, Debian packages and images for containers, in target/dist (clang-14, rustup):
              [amd64] [arm64] [armhf] [armv6]; fails if the recorder alone has 5 MB or more
              `dist test` also executes the programs with QEMU, installs the packages in a new Debian of each architecture, in
              guests, and uses them; `dist container` loads the image with podman in a guest, and records from there;
              `dist path` walks a user's whole path there, with a slow card: install, check, measure a fix while units run, keep
              it, reboot, undo it (15 minutes for each architecture)
              `dist results` makes the results service instead: a program, a package and a folder for a container;
              `dist results test` also installs it in a guest, sends it a result, and runs its image with podman
  assets      bundle the script and the style of the HTML report, after a change in crates/fonio-report/web (npm), and compile
              the BPF programs, after a change in crates/fonio-record/bpf (clang-14): [report] [bpf]
  setup       install the programs that the other commands need, or print the command that does
  help        print this text
";

type Run = fn(&[String]) -> anyhow::Result<()>;

/// The commands; each parses the rest of the command line.
const COMMANDS: &[(&str, Run)] = &[
    ("demo", demo::run),
    ("test", test::run),
    ("times", times::run),
    ("sentences", sentences::run),
    ("tidy", tidy::command),
    ("fuzz", fuzz::run),
    ("mutants", mutants::run),
    ("bench", bench::run),
    ("lab", lab::run),
    ("kernel", kernel::run),
    ("dist", dist::run),
    ("assets", assets::run),
    ("gen-trace", gen_trace::run),
    ("setup", |_| tools::ensure(tools::ALL)),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = match arguments.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("help", &[][..]),
    };
    if ["help", "--help", "-h"].contains(&command) {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let Some((_, run)) = COMMANDS.iter().find(|(name, _)| *name == command) else {
        eprintln!("cargo xtask: there is no command `{command}`\n\n{HELP}");
        return ExitCode::from(2);
    };
    match run(rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cargo xtask {command}: {error:#}");
            ExitCode::FAILURE
        }
    }
}
