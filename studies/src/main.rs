//! `cargo studies`: runs experiments, stores their results, and writes the tables of figures in documents.
//!
//! Each study is a module with a type `Arguments` and a function `run`. Code that `cargo xtask` also needs is
//! in the library of xtask.

mod applications;
mod apps;
mod asked;
mod attribution;
mod casebook;
mod compare;
mod cure;
mod cuts_bfuse;
mod debian_sources;
mod decisions;
mod documents;
mod emulator;
mod fit;
mod fuse;
mod fuse_safety;
mod guests;
mod histories;
mod home_assistant;
mod imitations;
mod live;
mod paper;
mod paths;
mod readers;
mod receipt;
mod sampled;
mod schedulers;
mod shares;
mod storebench;
mod sync_policy;
mod verdicts;
mod veryquick;
mod watch_day;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use xtask::{emulated, process, smartio, tools};

/// Run a study. To measure the speed of fonio's own code, use `cargo xtask bench`.
#[derive(Parser)]
#[command(name = "cargo studies", disable_help_subcommand = true)]
struct CommandLine {
    /// Without arguments, list all studies.
    #[command(subcommand)]
    study: Option<Study>,
}

#[derive(Subcommand)]
enum Study {
    /// Compare published tables and figures with our results.
    ///
    /// Without an ID, prints the tables and figures that need only models and files; this takes seconds and
    /// needs no privileges. The other tables and figures must be named, because they run workloads on
    /// emulated devices: they need root and take about two minutes each. `all --full` takes hours.
    ///
    /// Example: cargo studies paper kim-t5 kim-f13
    Paper(paper::Arguments),
    /// Count fonio's correct verdicts on 40 situations with a known cause.
    ///
    /// Each situation runs on its own emulated device and is recorded as by `fonio check`. Needs root and
    /// fio; all situations take 20 minutes.
    ///
    /// Example: cargo studies verdicts backup
    Verdicts(verdicts::Arguments),
    /// Count fonio's correct diagnoses of real programs.
    ///
    /// Each case is a program from Debian, made from a public report, on an emulated card. Needs root and a
    /// network for the packages; each case takes a minute.
    ///
    /// Example: cargo studies casebook postgres redis
    Casebook(casebook::Arguments),
    /// Run real programs on emulated devices, and check that they repeat and that their files are named.
    ///
    /// Installs each program from Debian the first time. Needs root and a network for the packages; each program takes
    /// three minutes.
    ///
    /// Example: cargo studies apps redis sqlite --on sd_a1
    Apps(apps::Arguments),
    /// Compare workloads that imitate an app with real programs that do the same.
    ///
    /// Runs both on an emulated device, and compares the shapes of their requests. Needs root and a network for the
    /// packages; takes five minutes.
    ///
    /// Example: cargo studies imitations rlbench --runs 1
    Imitations(imitations::Arguments),
    /// Measure the share of bytes that recordings attribute to the right file, process and unit.
    ///
    /// Records writers whose files have known addresses on a loop device, and judges the recording. Needs
    /// root and e2fsprogs (xfsprogs, btrfs-progs); takes a minute for each file system. With --lab, needs
    /// QEMU and 20 minutes.
    ///
    /// Example: cargo studies attribution xfs --runs 3
    Attribution(attribution::Arguments),
    /// Compare sampled waits of threads with waits recorded by BPF.
    ///
    /// Records four loads of fio in both ways at the same time. Needs root and fio; takes a minute.
    ///
    /// Example: cargo studies sampled --seconds 10
    Sampled(sampled::Arguments),
    /// Compare fonio's costs of SQLite transactions with a published table.
    ///
    /// Counts writes, flushes and KiB for each transaction on new file systems on loop devices. Needs root,
    /// sqlite3, e2fsprogs and xfsprogs; takes five minutes.
    ///
    /// Example: cargo studies receipt ext4
    Receipt(receipt::Arguments),
    /// Measure the cost of a transaction under a sync policy.
    ///
    /// Prints the number of writes, flushes and KiB per transaction. Needs root; takes a minute.
    ///
    /// Example: cargo studies sync-policy
    SyncPolicy(sync_policy::Arguments),
    /// Cut the power of databases under a sync policy, and of plain files beside them; count the losses.
    ///
    /// Each run adds its cuts to the result file. Needs root; 1000 cuts take about five minutes.
    ///
    /// Example: cargo studies cuts-sync-policy --cuts 500
    CutsSyncPolicy(sync_policy::cuts::Arguments),
    /// Run SQLite's own tests under each class of a sync policy.
    ///
    /// Fetches the sources of Debian's SQLite and builds its tests. Needs tcl-dev, a network and an hour.
    ///
    /// Example: cargo studies veryquick durable
    Veryquick(veryquick::Arguments),
    /// Compare the modes of `fonio mount` with the directory itself, with bindfs, and with libfuse's examples.
    ///
    /// Prints seconds, processor time, context switches and write calls, as medians of interleaved rounds.
    /// Needs root, bindfs, libfuse3-dev, g++, and a network for the first run; takes 25 minutes.
    ///
    /// Example: cargo studies fuse --on samsung_s5 --cpu study stock buffered
    Fuse(fuse::Arguments),
    /// Cut the power below `fonio mount`, and compare the surviving files with docs/bfuse.md.
    ///
    /// Runs random writes, syncs, creations, renames and syncs of directories. Each run adds its cuts to the
    /// result file. Needs root; 1000 cuts take about five minutes.
    ///
    /// Example: cargo studies cuts-bfuse --cuts 500
    CutsBfuse(cuts_bfuse::Arguments),
    /// Test the promises of `fonio mount` on devices that fail writes.
    ///
    /// Also runs random operations against a model file system, pjdfstest and fsx, and Debian's kernels in
    /// guests. Needs root, a network for the suites, and QEMU for the kernels; all parts take two hours.
    ///
    /// Example: cargo studies fuse-safety errors sequences
    FuseSafety(fuse_safety::Arguments),
    /// Measure concurrent reads and writes under SmartIO and the kernel's schedulers, and check SmartIO's
    /// goals.
    ///
    /// Runs in guests whose clock counts instructions. Needs root and QEMU. All cells take hours; finished
    /// cells are kept.
    ///
    /// Example: cargo studies schedulers --quick
    Schedulers(schedulers::Arguments),
    /// Launch apps during an installation and a backup, under SmartIO and the kernel's schedulers.
    ///
    /// Also prints the predictions of scheduler models, including CFQ. Needs root and QEMU; takes 20 minutes.
    ///
    /// Example: cargo studies applications
    Applications(applications::Arguments),
    /// Compare the decisions of the kernel's schedulers with the decisions of their models.
    ///
    /// Records decisions in a guest, and saves as tests of `fonio-sim` the decisions that the model also
    /// makes. Needs QEMU; takes ten minutes.
    ///
    /// Example: cargo studies decisions
    Decisions(decisions::Arguments),
    /// Compare fio's figures of emulated cards with published numbers and with the model's time.
    ///
    /// Needs root and fio; all cards take ten minutes.
    ///
    /// Example: cargo studies emulator kingston ridata
    Emulator(emulator::Arguments),
    /// Fit profiles to emulated cards as black boxes, and test the fits.
    ///
    /// The fits are tested with measurements that were not used in the fit. Needs root and fio; takes up to
    /// an hour for each card.
    ///
    /// Example: cargo studies fit kingston
    Fit(fit::Arguments),
    /// Count the false claims of `fonio compare`, on generated series or on recordings.
    ///
    /// Generated series have no requirements and take a second for each pair. With --real, records fio on an
    /// emulated eMMC: needs root and half a minute for each pair. With --several, compares five recordings per
    /// side on three devices, with and without stress-ng: needs root and 80 minutes, and can be continued.
    ///
    /// Example: cargo studies compare --pairs 50
    Compare(compare::Arguments),
    /// Count the false and true claims of `fonio fix trial`.
    ///
    /// Runs short trials on an emulated card, with loads and settings whose effect is known. Needs root;
    /// takes 25 minutes for each case.
    ///
    /// Example: cargo studies live same --runs 5
    Live(live::Arguments),
    /// Count the false and true claims of the trials of `fonio cure`.
    ///
    /// Recreates a stall on an emulated card, with a change that changes nothing and with one that acts. Each run adds
    /// its trials to the result file. Needs root; takes two minutes for each trial.
    ///
    /// Example: cargo studies cure same --trials 5
    Cure(cure::Arguments),
    /// Compute StoreBench's results for models, or compare results of equal cards.
    ///
    /// `models` takes a minute and writes the data set that fonio ships. `equal` measures an emulated card
    /// several times: needs root, fio and ten minutes per run.
    ///
    /// Example: cargo studies storebench equal --runs 3
    Storebench(storebench::Arguments),
    /// Test whether measurements in guests are repeatable and agree with the model.
    ///
    /// Needs QEMU; all parts take half an hour.
    ///
    /// Example: cargo studies guests repeatable
    Guests(guests::Arguments),
    /// Compare a machine's files and settings before and after random histories of fonio's changes.
    ///
    /// In a complete Debian guest, commands of fonio are killed at their writes, disks are full, other programs
    /// change the same files, and the guest reboots or loses power. Each run adds its histories to the result
    /// file. Needs QEMU; without KVM, a boot alone takes minutes.
    ///
    /// Example: cargo studies histories --histories 20
    Histories(histories::Arguments),
    /// Compare cards, file systems and settings for a Home Assistant.
    ///
    /// Runs Home Assistant in guests on eight emulated cards, with ext4, F2FS and btrfs and four settings. Needs root, QEMU,
    /// and a network for the packages. All cells take many hours; finished cells are kept in the result file.
    ///
    /// Example: cargo studies home-assistant --on sd_a1 --guests 1
    HomeAssistant(home_assistant::Arguments),
    /// Walk the paths of strangers, from their first command to a proven fix.
    ///
    /// Types a person's commands, and prints minutes, commands and words, and whether fonio's answers are right.
    /// Needs root, QEMU, crun, node, go and a network; a path that lacks something is skipped. All paths take 15
    /// minutes; each path replaces its row of the result.
    ///
    /// Example: cargo studies paths --only python
    Paths(paths::Arguments),
    /// Compare the readers of foreign traces with each other and with other programs.
    ///
    /// Records a load with four recorders at the same time, compares answers with those of Perfetto's trace_processor, and
    /// measures the speed of each reader. Needs root, fio, perf and a network for the recorders, and 4 GB of disk space;
    /// takes ten minutes.
    ///
    /// Example: cargo studies readers recorders answers
    Readers(readers::Arguments),
    /// Run the watch for a day in a guest, with stalls, a suspended clock and a full disk.
    ///
    /// Prints its memory, processor time, written bytes and stalls. The guest's clock skips idle time. Each run
    /// adds its minutes to the result file. Needs QEMU; a day takes hours.
    ///
    /// Example: cargo studies watch-day --minutes 120
    WatchDay(watch_day::Arguments),
    /// Write the tables of figures in README.md and docs from the results.
    ///
    /// The results are in studies/results, one file per table; each study writes its own files. Takes a
    /// moment and has no requirements.
    ///
    /// Example: cargo studies documents --check
    Documents(documents::Arguments),
}

type Role = fn(&[String]) -> anyhow::Result<()>;

/// Internal programs that studies start as separate processes.
const ROLES: [(&str, Role); 8] = [
    (attribution::ROLE, attribution::run_role),
    (fuse::STACKS, fuse::run_in_guest),
    (fuse_safety::SIDE, fuse_safety::run_side),
    (readers::READ, readers::run_read),
    (readers::WRITE, readers::run_write),
    (sampled::SAMPLE, sampled::run_sample),
    (sync_policy::SERVE, sync_policy::serve),
    (verdicts::ACT, verdicts::run_act),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let role = ROLES.into_iter().find(|(name, _)| words.first().is_some_and(|word| word == name));
    let outcome = match role {
        Some((_, run)) => run(&words[1..]),
        None => match CommandLine::parse().study {
            Some(study) => run(study),
            None => CommandLine::command().print_help().map_err(Into::into),
        },
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cargo studies: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(study: Study) -> anyhow::Result<()> {
    match study {
        Study::Paper(arguments) => paper::run(&arguments),
        Study::Casebook(arguments) => casebook::run(&arguments),
        Study::Verdicts(arguments) => verdicts::run(&arguments),
        Study::Apps(arguments) => apps::run(&arguments),
        Study::Imitations(arguments) => imitations::run(&arguments),
        Study::Attribution(arguments) => attribution::run(&arguments),
        Study::Sampled(arguments) => sampled::run(&arguments),
        Study::Receipt(arguments) => receipt::run(&arguments),
        Study::SyncPolicy(arguments) => sync_policy::run(&arguments),
        Study::CutsSyncPolicy(arguments) => sync_policy::cuts::run(&arguments),
        Study::Veryquick(arguments) => veryquick::run(&arguments),
        Study::Fuse(arguments) => fuse::run(&arguments),
        Study::CutsBfuse(arguments) => cuts_bfuse::run(&arguments),
        Study::FuseSafety(arguments) => fuse_safety::run(&arguments),
        Study::Schedulers(arguments) => schedulers::run(&arguments),
        Study::Applications(arguments) => applications::run(&arguments),
        Study::Decisions(arguments) => decisions::run(&arguments),
        Study::Emulator(arguments) => emulator::run(&arguments),
        Study::Fit(arguments) => fit::run(&arguments),
        Study::Compare(arguments) => compare::run(&arguments),
        Study::Live(arguments) => live::run(&arguments),
        Study::Cure(arguments) => cure::run(&arguments),
        Study::Storebench(arguments) => storebench::run(&arguments),
        Study::Guests(arguments) => guests::run(&arguments),
        Study::Histories(arguments) => histories::run(&arguments),
        Study::HomeAssistant(arguments) => home_assistant::run(&arguments),
        Study::Paths(arguments) => paths::run(&arguments),
        Study::Readers(arguments) => readers::run(&arguments),
        Study::WatchDay(arguments) => watch_day::run(&arguments),
        Study::Documents(arguments) => documents::run(&arguments),
    }
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn every_study_has_help_and_an_example_that_parses() {
        for study in CommandLine::command().get_subcommands() {
            let shown = CommandLine::try_parse_from(["studies", study.get_name(), "--help"]).err();
            assert_eq!(shown.map(|help| help.kind()), Some(ErrorKind::DisplayHelp), "{}", study.get_name());
            let help = study.get_long_about().map(ToString::to_string).unwrap_or_default();
            let example = help.rsplit("Example: cargo ").next().expect("a rest").trim();
            assert!(example.starts_with("studies "), "{}: {help}", study.get_name());
            if let Err(error) = CommandLine::try_parse_from(example.split(' ')) {
                panic!("{example}: {error}");
            }
        }
    }
}
