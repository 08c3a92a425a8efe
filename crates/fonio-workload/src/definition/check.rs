//! Validates a definition beyond its syntax: defined names, valid SQL statements, amounts in range.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path};

use rusqlite::Connection;

use super::{Database, Files, Phase, Sizes, Step, Thread, Workload};
use crate::confined::confine;
use crate::error::WorkloadError;

/// The maximum number of operations of a step, including repeats. At 1 µs each, the operations take eleven
/// days.
const OPERATIONS_MAX: u64 = 1_000_000_000_000;

/// The maximum nesting depth of steps. The checker and the runner process nested steps recursively.
const DEPTH_MAX: usize = 16;

/// The maximum request size. Larger files are written with `append`, whose count is scaled.
const REQUEST_BYTES_MAX: u64 = 1 << 30;

pub(super) fn check(workload: &Workload, origin: &str) -> Result<(), WorkloadError> {
    let mut checker = Checker { workload, origin, connections: BTreeMap::new() };
    checker.names_and_paths()?;
    checker.phases()?;
    checker.schemas()?;
    checker.all_steps()
}

struct Checker<'a> {
    workload: &'a Workload,
    origin: &'a str,
    /// For each database of the workload, an in-memory database with the same schema.
    connections: BTreeMap<&'a str, Connection>,
}

/// The context in which a step is executed: its enclosing steps.
#[derive(Clone, Copy)]
struct Around<'a> {
    depth: usize,
    /// Number of times that the enclosing steps together repeat the step.
    repeats: u64,
    transaction: Option<&'a str>,
}

type Checked = Result<(), WorkloadError>;

impl<'a> Checker<'a> {
    /// Checks the names of the workload and of its places, databases and files, and the paths of the
    /// databases and files.
    fn names_and_paths(&self) -> Checked {
        self.one_word("name", &self.workload.name)?;
        for place in self.workload.places.keys() {
            self.one_word("places", place)?;
        }
        let mut paths = BTreeSet::new();
        for (name, database) in &self.workload.databases {
            self.database(name, database, &mut paths)?;
        }
        for (name, files) in &self.workload.files {
            self.files(name, files, &mut paths)?;
        }
        Ok(())
    }

    fn database<'b>(
        &self,
        name: &str,
        database: &'b Database,
        paths: &mut BTreeSet<(&'b str, &'b str)>,
    ) -> Checked {
        self.one_word("databases", name)?;
        self.defined(&format!("databases.{name}.place"), &database.place, "places", &self.workload.places)?;
        let key = format!("databases.{name}.file");
        self.relative_path(&key, &database.file)?;
        self.ensure(
            paths.insert((&database.place, &database.file)),
            &key,
            &database.file,
            "another database has this file; give each database its own file",
        )?;
        self.ensure(
            database.page_size.is_power_of_two() && (512..=65_536).contains(&database.page_size),
            &format!("databases.{name}.page_size"),
            database.page_size,
            "SQLite has no such page size; write a power of two from 512 to 65536",
        )
    }

    fn files<'b>(&self, name: &str, files: &'b Files, paths: &mut BTreeSet<(&'b str, &'b str)>) -> Checked {
        self.one_word("files", name)?;
        self.defined(&format!("files.{name}.place"), &files.place, "places", &self.workload.places)?;
        let key = format!("files.{name}.name");
        self.relative_path(&key, &files.name)?;
        let value = format!("{:?}", files.name);
        self.ensure(
            files.name.contains("{n}"),
            &key,
            &value,
            "every file would have this name; add {n} for the file's number",
        )?;
        self.ensure(
            paths.insert((&files.place, &files.name)),
            &key,
            value,
            "another [files] table has these names; use different names in each table",
        )
    }

    /// Checks that there is at least one phase and one thread, and that the names of all phases and threads
    /// are valid.
    fn phases(&self) -> Checked {
        let is_empty = self.workload.phases.is_empty();
        let nothing = "the workload has no phase; add [[phase]] with a [[phase.thread]]";
        self.ensure(!is_empty, "phase", "none", nothing)?;
        let mut names = BTreeSet::new();
        for phase in &self.workload.phases {
            self.one_word("phase.name", &phase.name)?;
            let twice = "two phases have this name; give each phase its own name";
            self.ensure(names.insert(&phase.name), "phase.name", &phase.name, twice)?;
            self.threads(phase)?;
        }
        Ok(())
    }

    fn threads(&self, phase: &Phase) -> Checked {
        let key = format!("phase \"{}\"", phase.name);
        let nothing = "the phase has no thread; add [[phase.thread]]";
        self.ensure(!phase.threads.is_empty(), &key, "no thread", nothing)?;
        let mut names = BTreeSet::new();
        for Thread { name, instances, .. } in &phase.threads {
            self.one_word("phase.thread.name", name)?;
            let twice = "two threads have this name; give each thread its own name, or use `instances`";
            self.ensure(names.insert(name), "phase.thread.name", name, twice)?;
            let is_valid = (1..=256).contains(instances);
            self.ensure(is_valid, "phase.thread.instances", instances, "out of range; write 1 to 256")?;
        }
        Ok(())
    }

    /// Creates in-memory databases with the workload's schemas, for checking SQL statements.
    fn schemas(&mut self) -> Checked {
        for (name, database) in &self.workload.databases {
            let make = || {
                let mut connection = Connection::open_in_memory()?;
                confine(&mut connection)?;
                connection.execute_batch(&database.schema)?;
                Ok(connection)
            };
            let connection = make().map_err(|source| {
                self.refused(&format!("databases.{name}.schema"), &database.schema, source)
            })?;
            self.connections.insert(name, connection);
        }
        Ok(())
    }

    fn all_steps(&self) -> Checked {
        let around = Around { depth: 0, repeats: 1, transaction: None };
        for (index, step) in self.workload.prepare.iter().enumerate() {
            self.step(step, &format!("prepare[{index}]"), around)?;
        }
        for phase in &self.workload.phases {
            for thread in &phase.threads {
                for (index, step) in thread.steps.iter().enumerate() {
                    let key = format!("phase \"{}\", thread \"{}\", steps[{index}]", phase.name, thread.name);
                    self.step(step, &key, around)?;
                }
            }
        }
        Ok(())
    }

    /// Checks a step and its nested steps.
    fn step(&self, step: &Step, key: &str, around: Around<'_>) -> Checked {
        let key = format!("{key} ({})", step.kind());
        let deep = "steps are nested too deeply; use fewer levels";
        self.ensure(around.depth <= DEPTH_MAX, &key, around.depth, deep)?;
        let repeats = self.operations(step, &key, around.repeats)?;
        self.own_keys(step, &key, around.transaction)?;
        let transaction = match step {
            Step::Transaction { database, .. } => Some(database.as_str()),
            _ => around.transaction,
        };
        let inner = Around { depth: around.depth + 1, repeats, transaction };
        for (index, step) in step.inner().iter().enumerate() {
            self.step(step, &format!("{key}.steps[{index}]"), inner)?;
        }
        Ok(())
    }

    /// Returns the number of operations of a step with `repeats` repeats.
    fn operations(&self, step: &Step, key: &str, repeats: u64) -> Result<u64, WorkloadError> {
        let operations = repeats.saturating_mul(step.count());
        self.ensure(
            (1..=OPERATIONS_MAX).contains(&operations),
            &format!("{key}, count"),
            step.count(),
            "out of range; write a whole number from 1; multiplied by all enclosing repeats, it must be below 10^12",
        )?;
        Ok(operations)
    }

    /// Checks the keys of a step, but not its nested steps. `transaction` is the database of the enclosing
    /// transaction.
    fn own_keys(&self, step: &Step, key: &str, transaction: Option<&str>) -> Checked {
        match step {
            Step::Repeat { mark, every, steps, .. } => {
                if let Some(mark) = mark {
                    self.one_word(&format!("{key}, mark"), mark)?;
                }
                if let Some(every) = every {
                    let is_valid = (0.001..=86_400.0).contains(every);
                    self.ensure(
                        is_valid,
                        &format!("{key}, every"),
                        every,
                        "out of range; write 0.001 to 86400",
                    )?;
                }
                self.some_steps(key, steps)
            }
            Step::Transaction { database, steps, .. } => {
                self.known_database(key, database)?;
                let nested = "the transaction is inside another transaction; move it out";
                self.ensure(transaction.is_none(), key, database, nested)?;
                self.some_steps(key, steps)
            }
            Step::Write { files, size, request, .. } => {
                self.known_files(key, files)?;
                self.request(key, request.0, false)?;
                self.largest(key, size.largest())
            }
            Step::Append { files, size, direct, .. } | Step::Overwrite { files, size, direct, .. } => {
                self.known_files(key, files)?;
                for bytes in size.bounds() {
                    self.request(key, bytes, *direct)?;
                }
                self.largest(key, size.largest())
            }
            Step::Read { files, size, direct, .. } => {
                self.known_files(key, files)?;
                self.request(key, size.0, *direct)?;
                self.largest(key, size.0)
            }
            Step::Replace { files, size, .. } => {
                self.known_files(key, files)?;
                self.largest(key, size.largest())
            }
            Step::Delete { files, .. } | Step::Evict { files } => self.known_files(key, files),
            Step::Rename { files, to, .. } => self.rename(key, files, to),
            Step::Sql { database, statement, params, batch, .. } => {
                self.known_database(key, database)?;
                self.batch(key, *batch, transaction == Some(database))?;
                self.statement(key, statement, params.len(), &self.connections[database.as_str()])
            }
            Step::Get { size, store, request, send, .. } => {
                if let Some(store) = store {
                    self.known_files(key, store)?;
                }
                self.request(key, request.0, false)?;
                self.largest(key, size.largest().max(send.as_ref().map_or(0, Sizes::largest)))
            }
            Step::Think { seconds } => self.seconds(key, *seconds),
            Step::Work { bytes, .. } => self.largest(key, bytes.map_or(0, |bytes| bytes.0)),
            Step::Replay { place, .. } => {
                self.defined(&format!("{key}, place"), place, "places", &self.workload.places)
            }
        }
    }

    fn known_files(&self, key: &str, name: &str) -> Checked {
        self.defined(&format!("{key}, files"), name, "files", &self.workload.files)
    }

    fn known_database(&self, key: &str, name: &str) -> Checked {
        self.defined(&format!("{key}, database"), name, "databases", &self.workload.databases)
    }

    fn rename(&self, key: &str, from: &str, to: &str) -> Checked {
        self.known_files(key, from)?;
        self.known_files(key, to)?;
        let is_same = self.workload.files[from].place == self.workload.files[to].place;
        let elsewhere = "its files are in another place; a rename must stay within one place";
        self.ensure(is_same, &format!("{key}, to"), to, elsewhere)
    }

    fn batch(&self, key: &str, batch: Option<u64>, in_transaction: bool) -> Checked {
        let is_valid = batch.is_none_or(|batch| batch > 0 && !in_transaction);
        self.ensure(
            is_valid,
            &format!("{key}, batch"),
            batch.unwrap_or(0),
            "the step is already in a transaction; remove `batch`, or move the step out of the transaction",
        )
    }

    fn seconds(&self, key: &str, seconds: f64) -> Checked {
        let is_valid = (0.0..=86_400.0).contains(&seconds);
        self.ensure(is_valid, &format!("{key}, seconds"), seconds, "out of range; write 0 to 86400")
    }

    /// Returns an error if a value is not valid. `problem` gives the reason and the remedy.
    fn ensure(&self, is_valid: bool, key: &str, value: impl ToString, problem: &str) -> Checked {
        if is_valid {
            return Ok(());
        }
        let (origin, key, value) = (self.origin.to_owned(), key.to_owned(), value.to_string());
        Err(WorkloadError::Value { origin, key, value, problem: problem.to_owned() })
    }

    fn refused(&self, key: &str, statement: &str, source: rusqlite::Error) -> WorkloadError {
        let statement = statement.split_whitespace().collect::<Vec<_>>().join(" ");
        WorkloadError::Statement { origin: self.origin.to_owned(), key: key.to_owned(), statement, source }
    }

    fn one_word(&self, key: &str, value: &str) -> Checked {
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        let is_valid = !value.is_empty() && value.bytes().all(is_word);
        self.ensure(
            is_valid,
            key,
            format!("{value:?}"),
            "not one word; write letters, digits, `_` and `-` only",
        )
    }

    /// Checks that the table `kind` of the definition has an entry with this name.
    fn defined<T>(&self, key: &str, value: &str, kind: &str, names: &BTreeMap<String, T>) -> Checked {
        let known = names.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        let known = if known.is_empty() { "none".to_owned() } else { known };
        let unknown = format!("[{kind}.{value}] is not defined; define it or use one of: {known}");
        self.ensure(names.contains_key(value), key, format!("{value:?}"), &unknown)
    }

    fn relative_path(&self, key: &str, value: &str) -> Checked {
        let is_inside = Path::new(value).components().all(|part| matches!(part, Component::Normal(_)));
        let is_valid = is_inside && !value.is_empty() && !value.contains('\0');
        let leaves = "the path leaves its place; write a relative path without `..`";
        self.ensure(is_valid, key, format!("{value:?}"), leaves)
    }

    fn some_steps(&self, key: &str, steps: &[Step]) -> Checked {
        let key = format!("{key}, steps");
        self.ensure(!steps.is_empty(), &key, "[]", "there are no steps; add some")
    }

    fn request(&self, key: &str, bytes: u64, direct: bool) -> Checked {
        self.ensure(bytes > 0, key, "0B", "a call would transfer nothing; write a size above 0")?;
        self.ensure(
            !direct || bytes.is_multiple_of(4096),
            key,
            format!("{bytes} bytes"),
            "direct I/O needs a multiple of 4 KiB; write a size such as 4KiB or 8KiB",
        )
    }

    fn largest(&self, key: &str, bytes: u64) -> Checked {
        let large = "too large for one request; write at most 1GiB, and a higher count";
        self.ensure(bytes <= REQUEST_BYTES_MAX, key, format!("{bytes} bytes"), large)
    }

    /// Checks an SQL statement on the empty in-memory database. Executes statements that change the schema,
    /// so later statements can be checked.
    fn statement(&self, key: &str, text: &str, params: usize, connection: &Connection) -> Checked {
        let key = format!("{key}, statement");
        let in_statement = {
            let statement = connection.prepare(text).map_err(|source| self.refused(&key, text, source))?;
            statement.parameter_count()
        };
        self.ensure(
            in_statement == params,
            &format!("{key} and params"),
            text,
            &format!(
                "{in_statement} parameters in the statement, {params} in `params`; list one for each `?`"
            ),
        )?;
        let first = text.split_whitespace().next().unwrap_or("").to_ascii_uppercase();
        let foreign = ["BEGIN", "COMMIT", "END", "ROLLBACK", "SAVEPOINT", "RELEASE", "ATTACH", "DETACH"];
        self.ensure(
            !foreign.contains(&first.as_str()),
            &key,
            text,
            "a step cannot begin or end a transaction, or attach a database; use `do = \"transaction\"` or `batch`",
        )?;
        if ["CREATE", "DROP", "ALTER"].contains(&first.as_str()) {
            connection.execute_batch(text).map_err(|source| self.refused(&key, text, source))?;
        }
        Ok(())
    }
}
