//! Runs every shipped workload at a tiny scale.

use std::path::Path;

use crate::definition::{Workload, shipped};
use crate::http::Server;
use crate::{Amounts, DatabaseOverride, Mark, Options, Outcome, Overrides, Places, Runner, WorkloadError};

fn run(
    workload: &Workload,
    directory: &Path,
    options: Options,
) -> Result<(Outcome, Vec<Mark>), WorkloadError> {
    let server = Server::start("127.0.0.1:0".parse().unwrap()).unwrap();
    let options = Options { http: Some(server.address()), ..options };
    let mut runner = Runner::new(workload, &Places::under(directory), options)?;
    runner.prepare(&mut ())?;
    let mut marks = Vec::new();
    let outcome = runner.run(&mut marks)?;
    runner.verify()?;
    Ok((outcome, marks))
}

fn tiny() -> Options {
    Options { scale: 0.01, pace: 0.0, ..Options::default() }
}

#[test]
fn every_shipped_workload_runs_and_does_the_same_again() {
    for shipped in shipped() {
        let workload = Workload::load(shipped.name).unwrap();
        let runs: Vec<Amounts> = (0..2)
            .map(|_| {
                let directory = tempfile::tempdir().unwrap();
                let (outcome, marks) = run(&workload, directory.path(), tiny()).unwrap_or_else(|error| {
                    panic!("{}: {error}: {:?}", shipped.name, std::error::Error::source(&error))
                });
                assert_eq!(outcome.phases.len(), workload.phases.len(), "{}", shipped.name);
                for mark in &marks {
                    assert!(
                        mark.start_ns >= outcome.start_ns && mark.end_ns >= mark.start_ns,
                        "{}: {mark:?}",
                        shipped.name
                    );
                }
                let json = serde_json::to_string(&outcome).unwrap();
                assert_eq!(serde_json::from_str::<Outcome>(&json).unwrap(), outcome);
                outcome.amounts
            })
            .collect();
        assert_eq!(runs[0], runs[1], "{}", shipped.name);
    }
}

#[test]
fn another_seed_is_another_run_of_like_amount() {
    let workload = Workload::load("webbench").unwrap();
    let amounts = |seed| {
        let directory = tempfile::tempdir().unwrap();
        let options = Options { seed, scale: 0.06, ..tiny() };
        run(&workload, directory.path(), options).unwrap().0.amounts
    };
    let (first, second) = (amounts(1), amounts(2));
    assert_ne!(first.bytes_fetched, second.bytes_fetched);
    assert_eq!(first.transactions, second.transactions);
}

#[test]
fn overrides_change_what_is_below_the_app_and_nothing_else() {
    let workload = Workload::load("webbench").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let ram = tempfile::tempdir().unwrap();
    let overrides = Overrides {
        places: [("cache".to_owned(), ram.path().to_owned())].into(),
        databases: [(
            "*".to_owned(),
            DatabaseOverride {
                journal: Some(crate::definition::Journal::Wal),
                ..DatabaseOverride::default()
            },
        )]
        .into(),
        no_sync_databases: ["index".to_owned()].into(),
        ..Overrides::default()
    };
    let (changed, _) = run(&workload, directory.path(), Options { overrides, ..tiny() }).unwrap();
    assert!(ram.path().join("webviewCache").exists());
    assert!(!directory.path().join("cache").exists());
    assert_eq!(changed.databases["index"].journal, "wal");
    assert_eq!(changed.databases["index"].synchronous, "off");
    assert_eq!(changed.databases["state"].synchronous, "full");
    let plain = tempfile::tempdir().unwrap();
    assert_eq!(run(&workload, plain.path(), tiny()).unwrap().0.amounts, changed.amounts);
}

#[test]
fn what_is_missing_or_wrong_is_said_before_a_file_is_touched() {
    let workload = Workload::load("webbench").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let new = |places: &Places, options| {
        Runner::new(&workload, places, options).map(|_| ()).expect_err("wrong").to_string()
    };
    let http = Some("127.0.0.1:9".parse().unwrap());
    let under = Places::under(directory.path());
    assert!(new(&under, Options::default()).contains("start a `fonio_workload::http::Server`"));
    assert!(
        new(&Places::default(), Options { http, ..Options::default() })
            .contains("needs a directory for its place `cache`")
    );
    assert!(new(&under, Options { http, scale: 0.0, ..Options::default() }).contains("scale = 0"));
    let overrides = Overrides { no_sync_places: ["cash".to_owned()].into(), ..Overrides::default() };
    assert!(
        new(&under, Options { http, overrides, ..Options::default() })
            .contains("has no place `cash` to override; it has cache, database")
    );
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);

    let mut runner = Runner::new(&workload, &under, Options { http, ..Options::default() }).unwrap();
    assert!(matches!(runner.run(&mut ()), Err(WorkloadError::NotPrepared { .. })));
    std::fs::create_dir_all(directory.path().join("cache/mine")).unwrap();
    assert!(matches!(runner.prepare(&mut ()), Err(WorkloadError::NotEmpty { .. })));
}

/// The parts of a thread's time add up, and each kind of step counts where it belongs.
#[test]
fn the_time_of_a_thread_has_its_parts() {
    let text = "
        name = 'parts'
        title = 'Works, pauses and syncs'
        [places]
        data = 'files'
        [files.note]
        place = 'data'
        name = '{n}'
        [[phase]]
        name = 'all'
        [[phase.thread]]
        name = 'one'
        [[phase.thread.steps]]
        do = 'repeat'
        times = 3
        mark = 'work'
        steps = [{ do = 'work', kind = 'decode', bytes = '8MiB' }]
        [[phase.thread.steps]]
        do = 'repeat'
        times = 2
        mark = 'pause'
        steps = [{ do = 'think', seconds = 0.02 }]
        [[phase.thread.steps]]
        do = 'repeat'
        times = 1
        mark = 'save'
        steps = [{ do = 'write', files = 'note', count = 5, size = '64KiB', sync = 'end' }]
    ";
    let workload = Workload::parse(text, "parts.toml", None).expect("the workload is valid");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (outcome, _) = run(&workload, directory.path(), Options::default()).expect("it runs");
    let Some(all) = outcome.phases[0].times else {
        return; // The kernel does not count waits for a processor.
    };
    assert_eq!(outcome.spans.keys().map(String::as_str).collect::<Vec<_>>(), ["pause", "save", "work"]);
    let [pause, save, work] = ["pause", "save", "work"].map(|name| outcome.spans[name]);
    assert_eq!((all.count, work.count, pause.count, save.count), (1, 3, 2, 1));
    for times in [all, pause, save, work] {
        let sleep_ns = times.network_ns + times.paused_ns + times.blocked_ns;
        let sum_ns = times.user_ns + times.system_ns + times.queued_ns + sleep_ns;
        assert!(sum_ns.abs_diff(times.wall_ns) < 5_000_000, "{times:?}");
    }
    assert!(pause.paused_ns > 30_000_000 && pause.paused_ns <= pause.wall_ns, "{pause:?}");
    assert!(work.user_ns + work.system_ns > 0 && work.paused_ns == 0, "{work:?}");
    assert!(save.paused_ns == 0 && all.network_ns == 0, "{save:?}");
    assert!(all.wall_ns >= pause.wall_ns + save.wall_ns + work.wall_ns, "{all:?}");
}
