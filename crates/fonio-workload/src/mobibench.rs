//! Converts Mobibench's options to a workload: `-p -f -r -a -y -t -d -n -j -s -T`.
//!
//! The options follow ESOS-Lab's Mobibench 1.0.8. With `-d`, the workload uses SQLite; otherwise, it uses
//! files.

use std::collections::BTreeMap;

use crate::definition::{
    Bytes, Database, Files, Journal, Order, Param, Phase, Sizes, Step, SyncPolicy, Synchronous, Thread,
    Workload,
};
use crate::error::WorkloadError;

/// A parsed Mobibench command line.
#[derive(Clone, Debug, PartialEq)]
pub struct Mobibench {
    /// The value of `-p`: the directory that the caller uses for the place `data`.
    pub directory: Option<String>,
    /// The workload that the options describe.
    pub workload: Workload,
}

/// Maximum size in KiB, and maximum count; larger values are typing errors.
const KIB_MAX: u64 = 1 << 30;
const COUNT_MAX: u64 = 1_000_000_000;
const THREADS_MAX: u64 = 100;
const TABLES_MAX: u64 = 100;

struct Given<'a>(BTreeMap<&'a str, &'a str>);

const OPTIONS: &[&str] = &["-p", "-f", "-r", "-a", "-y", "-t", "-d", "-n", "-j", "-s", "-T"];

/// Parses Mobibench options such as `-a 1 -f 1024 -r 4 -y 2`. Fails if an option is unknown, a value is
/// missing or invalid, or the mode is memory-mapped I/O, which is not supported.
pub fn parse(arguments: &[&str]) -> Result<Mobibench, WorkloadError> {
    let mut given = Given(BTreeMap::new());
    let mut rest = arguments.iter();
    while let Some(&option) = rest.next() {
        if !OPTIONS.contains(&option) {
            return Err(wrong(option, "", format!("unknown option; use {}", OPTIONS.join(" "))));
        }
        let value = rest.next().ok_or_else(|| wrong(option, "", "the value is missing"))?;
        if given.0.insert(option, value).is_some() {
            return Err(wrong(option, value, "the option occurs twice"));
        }
    }
    let directory = given.0.get("-p").map(|&path| path.to_owned());
    let sqlite = given.0.contains_key("-d");
    let foreign: &[&str] = if sqlite { &["-a", "-f", "-r", "-y"] } else { &["-n", "-j", "-s", "-T"] };
    if let Some(option) = foreign.iter().find(|&option| given.0.contains_key(option)) {
        let other = if sqlite { "only for files; remove -d" } else { "only for SQLite; add -d 0, 1 or 2" };
        return Err(wrong(option, given.0[option], other));
    }
    let workload = if sqlite { sql(&given)? } else { file(&given)? };
    Ok(Mobibench { directory, workload })
}

fn wrong(option: &str, value: &str, problem: impl Into<String>) -> WorkloadError {
    WorkloadError::Mobibench { option: option.to_owned(), value: value.to_owned(), problem: problem.into() }
}

impl Given<'_> {
    fn number(&self, option: &str, default: u64, most: u64) -> Result<u64, WorkloadError> {
        let Some(&value) = self.0.get(option) else { return Ok(default) };
        let number = value.parse().ok().filter(|number| (1..=most).contains(number));
        number.ok_or_else(|| wrong(option, value, format!("write a whole number from 1 to {most}")))
    }

    fn choice<T: Copy>(
        &self,
        option: &str,
        default: usize,
        choices: &[(&str, T)],
    ) -> Result<(String, T), WorkloadError> {
        let value = self.0.get(option).copied();
        let index = match value {
            None => Some(default),
            Some(value) => value.parse::<usize>().ok().filter(|&index| index < choices.len()),
        };
        let Some(index) = index else {
            let list: Vec<String> =
                choices.iter().enumerate().map(|(index, (name, _))| format!("{index} {name}")).collect();
            return Err(wrong(option, value.unwrap_or(""), format!("write one of: {}", list.join(", "))));
        };
        Ok((choices[index].0.to_owned(), choices[index].1))
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Access {
    Write,
    RandomWrite,
    Read,
    RandomRead,
    Append,
}

#[derive(Clone, Copy)]
enum Mode {
    Calls(SyncPolicy, bool),
    Mapped,
}

fn file(given: &Given<'_>) -> Result<Workload, WorkloadError> {
    let file_bytes = given.number("-f", 1024, KIB_MAX)? * 1024;
    let request = given.number("-r", 4, KIB_MAX)? * 1024;
    let (access_name, access) = given.choice(
        "-a",
        0,
        &[
            ("write", Access::Write),
            ("random write", Access::RandomWrite),
            ("read", Access::Read),
            ("random read", Access::RandomRead),
            ("append", Access::Append),
        ],
    )?;
    let (mode_name, mode) = given.choice(
        "-y",
        0,
        &[
            ("normal", Mode::Calls(SyncPolicy::None, false)),
            ("O_SYNC", Mode::Calls(SyncPolicy::Open, false)),
            ("fsync", Mode::Calls(SyncPolicy::Each, false)),
            ("O_DIRECT", Mode::Calls(SyncPolicy::None, true)),
            ("O_SYNC and O_DIRECT", Mode::Calls(SyncPolicy::Open, true)),
            ("mmap", Mode::Mapped),
            ("mmap with MS_ASYNC", Mode::Mapped),
            ("mmap with MS_SYNC", Mode::Mapped),
            ("fdatasync", Mode::Calls(SyncPolicy::DataEach, false)),
        ],
    )?;
    let Mode::Calls(sync, direct) = mode else {
        let value = given.0.get("-y").copied().unwrap_or("");
        return Err(wrong("-y", value, "memory-mapped files are not supported; write 0 to 4 or 8"));
    };
    if request > file_bytes {
        return Err(wrong(
            "-r",
            given.0.get("-r").copied().unwrap_or("4"),
            "a request is longer than the file (-f)",
        ));
    }
    let threads = given.number("-t", 1, THREADS_MAX)?;
    let count = file_bytes / request;

    // Each Mobibench thread has its own file.
    let mut workload =
        empty(&format!("{access_name} of {} by {} each, {mode_name}", Bytes(file_bytes), Bytes(request)));
    let mut phase = Phase { name: "files".to_owned(), threads: Vec::new() };
    for thread in 1..=threads {
        let group = format!("file{thread}");
        workload.files.insert(
            group.clone(),
            Files {
                place: "data".to_owned(),
                name: format!("test{thread}.dat{{n}}"),
                content: crate::definition::Content::Random,
            },
        );
        let (files, size) = (group.clone(), Sizes::fixed(request));
        let append = |sync, direct| {
            let (files, size) = (files.clone(), size.clone());
            Step::Append { files, count, size, sync, direct }
        };
        let (before, steps) = match access {
            Access::Write => (None, vec![append(sync, direct)]),
            Access::Append => {
                let (size, request, sync_before) = (Sizes::fixed(0), Bytes(request), SyncPolicy::None);
                let empty = Step::Write { files: group, count: 1, size, request, sync: sync_before };
                (Some(empty), vec![append(sync, direct)])
            }
            Access::RandomWrite => {
                let size = size.clone();
                let overwrite =
                    Step::Overwrite { files: group, count, size, order: Order::Random, sync, direct };
                (Some(append(SyncPolicy::None, false)), vec![overwrite])
            }
            Access::Read | Access::RandomRead => {
                let order = if access == Access::Read { Order::Sequential } else { Order::Random };
                let read = Step::Read { files: group.clone(), count, size: Bytes(request), order, direct };
                (Some(append(SyncPolicy::None, false)), vec![Step::Evict { files: group }, read])
            }
        };
        workload.prepare.extend(before);
        phase.threads.push(Thread { name: format!("thread{thread}"), instances: 1, steps });
    }
    workload.phases.push(phase);
    Ok(workload)
}

fn sql(given: &Given<'_>) -> Result<Workload, WorkloadError> {
    let (name, statement) = given.choice(
        "-d",
        0,
        &[
            ("insert", "INSERT INTO {table}(Value, creation_date) VALUES(?, ?)"),
            ("update", "UPDATE {table} SET Value = ?, creation_date = ? WHERE id = ?"),
            ("delete", "DELETE FROM {table} WHERE id = ?"),
        ],
    )?;
    let count = given.number("-n", 10, COUNT_MAX)?;
    let tables = given.number("-T", 3, TABLES_MAX)?;
    let threads = given.number("-t", 1, THREADS_MAX)?;
    let (journal_name, journal) = given.choice(
        "-j",
        1,
        &[
            ("DELETE", Journal::Delete),
            ("TRUNCATE", Journal::Truncate),
            ("PERSIST", Journal::Persist),
            ("WAL", Journal::Wal),
            ("MEMORY", Journal::Memory),
            ("OFF", Journal::Off),
        ],
    )?;
    let (synchronous_name, synchronous) = given.choice(
        "-s",
        2,
        &[("OFF", Synchronous::Off), ("NORMAL", Synchronous::Normal), ("FULL", Synchronous::Full)],
    )?;
    let mut workload = empty(&format!(
        "{count} times {name} in {tables} tables, {journal_name}, synchronous {synchronous_name}"
    ));
    let mut phase = Phase { name: "sqlite".to_owned(), threads: Vec::new() };
    for thread in 1..=threads {
        let database = format!("db{thread}");
        let table = |number: u64| format!("tblMyList{number}");
        let schema: String = (1..=tables)
            .map(table)
            .map(|table| {
                format!(
                    "CREATE TABLE {table}(id INTEGER PRIMARY KEY, Value TEXT NOT NULL, creation_date LONG);\n"
                )
            })
            .collect();
        workload.databases.insert(
            database.clone(),
            Database {
                place: "data".to_owned(),
                file: format!("test{thread}.db"),
                journal,
                synchronous,
                page_size: 4096,
                autocheckpoint: None,
                journal_size_limit: None,
                schema,
            },
        );
        let text = Param::Text(Sizes::fixed(100));
        let date = Param::Int(0, 2_000_000_000);
        let counter = |number: u64| format!("{database}.{number}");
        let mut steps = Vec::new();
        for number in 1..=tables {
            // In Mobibench, SQLite chooses the row's ID. The counter is needed only if rows are picked later.
            if name != "insert" {
                workload.prepare.push(Step::Sql {
                    database: database.clone(),
                    statement: format!(
                        "INSERT INTO {}(id, Value, creation_date) VALUES(?, ?, ?)",
                        table(number)
                    ),
                    params: vec![Param::Next(counter(number)), text.clone(), date.clone()],
                    count,
                    batch: Some(count),
                });
            }
            let params = match name.as_str() {
                "insert" => vec![text.clone(), date.clone()],
                "update" => vec![text.clone(), date.clone(), Param::Pick(counter(number))],
                _ => vec![Param::Pick(counter(number))],
            };
            let statement = statement.replace("{table}", &table(number));
            steps.push(Step::Sql { database: database.clone(), statement, params, count: 1, batch: None });
        }
        let transactions = Step::Transaction { database, times: count, steps };
        phase.threads.push(Thread {
            name: format!("thread{thread}"),
            instances: 1,
            steps: vec![transactions],
        });
    }
    workload.phases.push(phase);
    Ok(workload)
}

fn empty(title: &str) -> Workload {
    Workload {
        name: "mobibench".to_owned(),
        title: title.to_owned(),
        about: "A mode of ESOS-Lab's Mobibench 1.0.8, from its options.".to_owned(),
        places: [("data".to_owned(), "the benchmark's files".to_owned())].into(),
        ..Workload::default()
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;
    use crate::{Amounts, Options, Places, Runner};

    fn parsed(line: &str) -> Result<Workload, WorkloadError> {
        Ok(parse(&line.split_whitespace().collect::<Vec<_>>())?.workload)
    }

    /// Prepares a command line's workload in a directory, runs it, and checks its databases.
    fn run(line: &str, directory: &Path) -> Result<Amounts, WorkloadError> {
        let mut runner = Runner::new(&parsed(line)?, &Places::under(directory), Options::default())?;
        runner.prepare(&mut ())?;
        let amounts = runner.run(&mut ())?.amounts;
        runner.verify()?;
        Ok(amounts)
    }

    #[test]
    fn options_are_read() {
        let told =
            |line: &str| parsed(line).map_or_else(|error| error.to_string(), |workload| workload.title);
        let file = expect_test::expect_file!["mobibench_options.txt"];
        file.assert_eq(&fonio_testing::cases::lines(&file.data(), told));
        assert_eq!(told(""), "write of 1MiB by 4KiB each, normal");
    }

    #[test]
    fn every_mode_runs_and_writes_what_it_says() {
        for (line, writes, transactions) in [
            ("-f 64 -a 0 -y 0", 16, 0),
            ("-f 64 -a 1 -y 1", 16, 0),
            ("-f 64 -a 2 -t 3", 0, 0),
            ("-f 64 -a 3", 0, 0),
            ("-f 64 -a 4 -y 8 -t 2", 32, 0),
            ("-d 0 -n 5 -j 3", 0, 5),
            ("-d 1 -n 5 -j 2 -t 2", 0, 10),
            ("-d 2 -n 5 -j 1 -T 2", 0, 5),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let amounts = run(line, directory.path()).unwrap_or_else(|error| panic!("{line}: {error}"));
            assert_eq!((amounts.file_writes, amounts.transactions), (writes, transactions), "{line}");
            if line.contains("-a 2") {
                assert_eq!(amounts.file_bytes_read, 3 * 65_536);
            }
        }
    }

    #[test]
    fn direct_modes_run_where_the_file_system_has_them() {
        let directory = tempfile::tempdir().unwrap();
        for line in ["-f 64 -a 0 -y 3", "-f 64 -a 1 -y 4", "-f 64 -a 3 -y 3"] {
            match run(line, &directory.path().join(line.replace(' ', ""))) {
                Ok(amounts) => assert_eq!(amounts.file_writes + amounts.file_reads, 16, "{line}"),
                Err(WorkloadError::File { source, .. }) if source.kind() == ErrorKind::InvalidInput => {
                    fonio_testing::skip_part(fonio_testing::Need::DirectIo, format!("{line}: {source}"));
                }
                Err(error) => panic!("{line}: {error:?}"),
            }
        }
    }

    proptest! {
        #[test]
        fn no_command_line_panics(words in prop::collection::vec("-[pfraytdnjsT]|[0-9]{1,4}|-1|x|99999999999999999999", 0..12)) {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let _ = parse(&words);
        }
    }
}
