//! `cargo xtask`: commands for developers. They install programs that a fresh Debian machine lacks, or print the
//! command that does.

mod assets;
mod attribution;
mod bench_fuse;
mod bpf;
#[cfg(feature = "results")]
mod circles;
mod compare_bench;
mod demo;
mod dist;
mod documents;
mod emulated;
mod emulator_bench;
mod fit_bench;
mod fuse_safety;
mod fuse_suites;
mod fuzz;
mod gen_trace;
mod kernel;
mod lab;
mod lab_keep;
mod lab_system;
mod lab_waits;
mod lab_watch;
mod live_bench;
mod mutants;
#[cfg(feature = "results")]
mod paper;
mod process;
mod receipt;
mod report_bench;
mod results_bench;
mod results_demo;
mod results_service;
#[cfg(feature = "results")]
mod storebench;
mod sync_policy;
mod tally;
mod test;
mod tidy;
mod tools;
mod verdicts;
mod watch_bench;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask COMMAND

  demo        run the main job: record an app on an emulated card, explain the recording, measure the two best fixes (root);
              without root, explain a recording of it
              `demo results`: the results service: measure emulated cards, send the results after a preview, and show the page
              (root, four minutes): [--once, which ends without waiting for Ctrl-C]
  test        run all checks: format, lints, documentation, invariants, fuzz targets, tests
  tidy        check the invariants of ARCHITECTURE.md; [--circles] prints the circles of files, known ones included
  fuzz        run the fuzz targets for longer: [TARGET…] [--seconds N] (default: all of them, 600 s each)
  mutants     make small faults in a sample of the code, and see whether the tests notice:
              [assembler] [recorder] [statistics] [buffer] [--seed N] [--sample N, of each; 25]
  fuse-safety test `fonio mount` (root): on cards that refuse writes or lose power, with a million random operations for each
              mode against a model, with pjdfstest and fsx, and on Debian's kernels in virtual machines:
              [errors] [power-cuts] [sequences] [suites] [kernels]
  gen-trace   write a blktrace capture of any size: [--out PREFIX] [--ios N] [--seed N] [--cpus N]
  bench       measure speed and memory from a block trace to the HTML report, beside Debian's blktrace package: [--ios N]
              [--runs N]
              `bench record`: the cost of recording (root): [PAIRS] [SECONDS]
              `bench blocked`: the cost of recording which threads are blocked (root): [SECONDS]
              `bench watch`: what the watch writes, its processor time and memory (root): [written|cost] [--for TIME]
              `bench statements`: the cost of recording SQL statements (root, python3): [ROUNDS] [ROWS]
              `bench attribution`: how many bytes recordings attribute to the right file, process and unit (root):
              [ROUNDS|short-lived] [ext4|xfs|btrfs] [--on-overlay]; in a whole Debian, with units of systemd and a container:
              --lab [--on-lvm] [--on-luks] [--on-lvm-on-luks] [FILE-SYSTEM…]
              `bench receipt`: what SQLite transactions cost, beside a published table (root, five minutes): [WORD in the mode…]
              `bench sync-policy`: databases under a sync policy, what a transaction costs, and what 10,000 power cuts do (root; it
              goes on where it was interrupted): [--cuts N]; the library's processor time: overhead; SQLite's own tests with and
              without it (tcl-dev): veryquick [CLASS…]; the fix in a whole Debian, over a reboot and a power cut: system
              `bench verdicts`: what fonio says of 40 situations whose cause is known, on emulated devices (root, 20 minutes):
              [WORD in the name…]
              `bench devices`: the speed of device models
              `bench emulator`: emulated cards with fio, beside model and publication (root): [CARD…]
              `bench fit`: fits of profiles to emulated cards, and their checks (root): [CARD…]
              `bench compare`: how often `fonio compare` is wrong, on generated series: [--pairs N]; on recordings of an
              emulated eMMC (root): --real [same] [doubled] [slower] [--pairs N] [--seconds N] [--long N]
              `bench storebench`: the results of the models of shipped profiles, which `fonio storebench` compares with: models;
              or an emulated card is measured several times, and the results are compared with each other (root, 10 minutes a
              run): equal [RUNS]
              `bench live`: how often `fonio fix --prove --live` claims a difference where there is none, and where there is one
              (root, 25 minutes for each case): [same] [bursts] [effect] [--runs N] [--slices, which prints their times]
              `bench fuse`: mounts in every mode, beside bindfs (root): [--quick] [--over DIR] [MODE…]; on an emulated device,
              with the daemon on a share of a processor: --on PROFILE [--cpu PERCENT|study]
              `bench schedulers`: reads beside writes under SmartIO and the kernel's schedulers, in guests (root), and which
              goals hold: [--quick, only the Galaxy S5] [--on PROFILE] [--jobs N] [--fonio PROGRAM] [WORD in the cell's name…]
              `bench applications`: apps launched beside an installer and a backup, under SmartIO and the kernel's schedulers in a
              guest (root, 20 minutes), and what models of schedulers predict, CFQ among them: [--fonio PROGRAM]
              `bench results`: the results service with 10,000,000 results: ranking pages on one processor, submissions, kill -9, a
              full disk (root), requests from its OpenAPI document (python3): [ranking] [submissions] [kill] [full] [schema]
              [--results N] [--seconds S] [--rounds N]; the seeded database (2 KB for each result) is kept
  paper       print tables and figures of the studies, ours beside theirs: [ID…|all] [--full] [--on DEVICE] [--cpu SHARE] [--json]
              [--in lab:KERNEL] [--html FILE, with charts]; tables and figures that need workloads on emulated devices only run when they are
              named (root, about two minutes each); --full runs all devices and workloads at full scale, and also what is
              measured on emulated devices (root); --on measures one device beside the best, instead of all; --in runs
              everything in a guest; what this kernel lacks runs in a guest also without it
  lab         `lab test`: measure what guests with Debian's kernels promise (one hour): [repeatable] [mixed] [model] [equal] [waits] [watch] [keep]
              [system]
  kernel      `kernel build`: build the SmartIO I/O scheduler as a module of Debian's kernels (root): [6.1] [6.12] [newest]
              `kernel test`: build it and use it in guests: switched under load, reloaded, devices removed (root; on a machine
              with two processors, ten minutes for each kernel): [KERNEL…] [--rounds N] [--seconds N] [--requests N, of mixed load]
              `kernel decisions`: what mq-deadline, kyber and bfq decide in a guest, beside their models: [--fonio PROGRAM]
  dist        make programs that need no libraries, Debian packages and images for containers, in target/dist (clang-14, rustup):
              [amd64] [arm64] [armhf] [armv6]; fails if the recorder alone has 5 MB or more
              `dist test` also executes the programs with QEMU, installs the packages in a new Debian of each architecture, in
              guests, and uses them; `dist container` loads the image with podman in a guest, and records from there;
              `dist path` walks a user's whole path there, with a slow card: install, check, measure a fix while units run, keep
              it, reboot, undo it (15 minutes for each architecture)
              `dist results` makes the results service instead: a program, a package and a folder for a container;
              `dist results test` also installs it in a guest, sends it a result, and runs its image with podman
  act         be a program of a situation of `bench verdicts`; not for people
  stacks      measure what `paper` asks for, in the guest that `paper` starts; not for people
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
    ("tidy", tidy::command),
    ("fuzz", fuzz::run),
    ("mutants", mutants::run),
    ("fuse-safety", fuse_safety::run),
    ("bench", report_bench::run),
    #[cfg(feature = "results")]
    ("paper", paper::run),
    #[cfg(not(feature = "results"))]
    ("paper", |rest| process::with_results("paper", rest)),
    // In a guest, for `paper`; not for people.
    #[cfg(feature = "results")]
    ("stacks", bench_fuse::run_in_guest),
    // A program of a situation, for `bench verdicts`; not for people.
    (verdicts::ACT, verdicts::run_act),
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
