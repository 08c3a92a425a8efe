//! What a well-formed definition must keep to besides: names that lead somewhere, statements that SQLite knows, amounts
//! that end.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path};

use rusqlite::Connection;

use super::{Step, Workload};
use crate::error::WorkloadError;

/// More operations than this in one step are a mistake: at a microsecond each they take eleven days.
const OPERATIONS_MAX: u64 = 1_000_000_000_000;

/// Deeper nesting than this is a mistake too, and bounds the recursion.
const DEPTH_MAX: usize = 16;

/// Longer files than this in one piece want `append`, whose count is scaled.
const REQUEST_BYTES_MAX: u64 = 1 << 30;

pub(super) fn check(workload: &Workload, origin: &str) -> Result<(), WorkloadError> {
    let checker = Checker { workload, origin };
    checker.head()?;
    let mut connections = BTreeMap::new();
    for (name, database) in &workload.databases {
        let key = format!("databases.{name}.schema");
        let connection = Connection::open_in_memory()
            .and_then(|connection| connection.execute_batch(&database.schema).map(|()| connection))
            .map_err(|source| checker.refused(&key, &database.schema, source))?;
        connections.insert(name.as_str(), connection);
    }
    for (index, step) in workload.prepare.iter().enumerate() {
        checker.step(step, &format!("prepare[{index}]"), 0, 1, None, &connections)?;
    }
    for phase in &workload.phases {
        for thread in &phase.threads {
            for (index, step) in thread.steps.iter().enumerate() {
                let key = format!("phase \"{}\", thread \"{}\", steps[{index}]", phase.name, thread.name);
                checker.step(step, &key, 0, 1, None, &connections)?;
            }
        }
    }
    Ok(())
}

struct Checker<'a> {
    workload: &'a Workload,
    origin: &'a str,
}

type Checked = Result<(), WorkloadError>;

impl Checker<'_> {
    fn wrong(
        &self,
        key: &str,
        value: impl ToString,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> WorkloadError {
        WorkloadError::Value {
            origin: self.origin.to_owned(),
            key: key.to_owned(),
            value: value.to_string(),
            problem: problem.into(),
            remedy: remedy.into(),
        }
    }

    fn refused(&self, key: &str, statement: &str, source: rusqlite::Error) -> WorkloadError {
        let statement = statement.split_whitespace().collect::<Vec<_>>().join(" ");
        WorkloadError::Statement { origin: self.origin.to_owned(), key: key.to_owned(), statement, source }
    }

    fn word(&self, key: &str, value: &str) -> Checked {
        if value.is_empty()
            || !value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
        {
            return Err(self.wrong(
                key,
                format!("{value:?}"),
                "not one word",
                "write letters, digits, `_` and `-` only",
            ));
        }
        Ok(())
    }

    fn known<T>(&self, key: &str, value: &str, what: &str, names: &BTreeMap<String, T>) -> Checked {
        if names.contains_key(value) {
            return Ok(());
        }
        let there = names.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        let there = if there.is_empty() { "none".to_owned() } else { there };
        Err(self.wrong(
            key,
            format!("{value:?}"),
            format!("no such {what}"),
            format!("define [{what}.{value}] or name one of: {there}"),
        ))
    }

    fn relative(&self, key: &str, value: &str) -> Checked {
        let path = Path::new(value);
        if value.is_empty()
            || value.contains('\0')
            || path.components().any(|part| !matches!(part, Component::Normal(_)))
        {
            return Err(self.wrong(
                key,
                format!("{value:?}"),
                "leads out of its place",
                "write a relative path without `..`",
            ));
        }
        Ok(())
    }

    fn head(&self) -> Checked {
        let workload = self.workload;
        self.word("name", &workload.name)?;
        for place in workload.places.keys() {
            self.word("places", place)?;
        }
        let mut paths = BTreeSet::new();
        for (name, database) in &workload.databases {
            self.word("databases", name)?;
            self.known(&format!("databases.{name}.place"), &database.place, "places", &workload.places)?;
            let key = format!("databases.{name}.file");
            self.relative(&key, &database.file)?;
            if !paths.insert((&database.place, &database.file)) {
                return Err(self.wrong(
                    &key,
                    &database.file,
                    "another database has this file",
                    "give each its own",
                ));
            }
            if !database.page_size.is_power_of_two() || !(512..=65_536).contains(&database.page_size) {
                let key = format!("databases.{name}.page_size");
                return Err(self.wrong(
                    &key,
                    database.page_size,
                    "SQLite has no such page",
                    "write a power of two from 512 to 65536",
                ));
            }
        }
        for (name, files) in &workload.files {
            self.word("files", name)?;
            self.known(&format!("files.{name}.place"), &files.place, "places", &workload.places)?;
            let key = format!("files.{name}.name");
            self.relative(&key, &files.name)?;
            if !files.name.contains("{n}") {
                return Err(self.wrong(
                    &key,
                    format!("{:?}", files.name),
                    "the same name for every file",
                    "put {n} where the number goes",
                ));
            }
            if !paths.insert((&files.place, &files.name)) {
                return Err(self.wrong(
                    &key,
                    format!("{:?}", files.name),
                    "another group has these names",
                    "give each its own",
                ));
            }
        }
        if workload.phases.is_empty() {
            return Err(self.wrong(
                "phase",
                "none",
                "nothing to time",
                "add [[phase]] with a [[phase.thread]]",
            ));
        }
        let mut phases = BTreeSet::new();
        for phase in &workload.phases {
            self.word("phase.name", &phase.name)?;
            if !phases.insert(&phase.name) {
                return Err(self.wrong(
                    "phase.name",
                    &phase.name,
                    "two phases of one name",
                    "name them apart",
                ));
            }
            if phase.threads.is_empty() {
                return Err(self.wrong(
                    &format!("phase \"{}\"", phase.name),
                    "no thread",
                    "nothing to do",
                    "add [[phase.thread]]",
                ));
            }
            let mut threads = BTreeSet::new();
            for thread in &phase.threads {
                self.word("phase.thread.name", &thread.name)?;
                if !threads.insert(&thread.name) {
                    return Err(self.wrong(
                        "phase.thread.name",
                        &thread.name,
                        "two threads of one name",
                        "name them apart, or use `instances`",
                    ));
                }
                if !(1..=256).contains(&thread.instances) {
                    return Err(self.wrong(
                        "phase.thread.instances",
                        thread.instances,
                        "out of range",
                        "write 1 to 256",
                    ));
                }
            }
        }
        Ok(())
    }

    fn step(
        &self,
        step: &Step,
        key: &str,
        depth: usize,
        around: u64,
        within: Option<&str>,
        connections: &BTreeMap<&str, Connection>,
    ) -> Checked {
        let key = format!("{key} ({})", step.kind());
        if depth > DEPTH_MAX {
            return Err(self.wrong(&key, depth, "nested too deep", "put less inside each other"));
        }
        let operations = around.checked_mul(step.count()).filter(|&operations| operations <= OPERATIONS_MAX);
        let Some(operations) = operations.filter(|&operations| operations > 0) else {
            let key = format!("{key}, count");
            return Err(self.wrong(
                &key,
                step.count(),
                "out of range",
                "write a whole number from 1, less than 10^12 with all repeats around it",
            ));
        };
        self.own_keys(step, &key, within, connections)?;
        let within = match step {
            Step::Transaction { database, .. } => Some(database.as_str()),
            _ => within,
        };
        for (index, inner) in step.inner().iter().enumerate() {
            self.step(inner, &format!("{key}.steps[{index}]"), depth + 1, operations, within, connections)?;
        }
        Ok(())
    }

    fn own_keys(
        &self,
        step: &Step,
        key: &str,
        within: Option<&str>,
        connections: &BTreeMap<&str, Connection>,
    ) -> Checked {
        let files = |name: &str| self.known(&format!("{key}, files"), name, "files", &self.workload.files);
        match step {
            Step::Repeat { mark, steps, .. } => {
                if let Some(mark) = mark {
                    self.word(&format!("{key}, mark"), mark)?;
                }
                self.some_steps(key, steps)
            }
            Step::Transaction { database, steps, .. } => {
                self.known(&format!("{key}, database"), database, "databases", &self.workload.databases)?;
                if within.is_some() {
                    return Err(self.wrong(
                        key,
                        database,
                        "a transaction within another",
                        "put one after the other",
                    ));
                }
                self.some_steps(key, steps)
            }
            Step::Write { files: name, size, request, .. } => {
                files(name)?;
                self.request(key, request.0, false)?;
                self.largest(key, size.largest())
            }
            Step::Append { files: name, size, direct, .. }
            | Step::Overwrite { files: name, size, direct, .. } => {
                files(name)?;
                for bytes in size.bounds() {
                    self.request(key, bytes, *direct)?;
                }
                self.largest(key, size.largest())
            }
            Step::Read { files: name, size, direct, .. } => {
                files(name)?;
                self.request(key, size.0, *direct)?;
                self.largest(key, size.0)
            }
            Step::Replace { files: name, size, .. } => {
                files(name)?;
                self.largest(key, size.largest())
            }
            Step::Delete { files: name, .. } | Step::Evict { files: name } => files(name),
            Step::Rename { files: name, to, .. } => {
                files(name)?;
                files(to)?;
                if self.workload.files[name].place != self.workload.files[to].place {
                    return Err(self.wrong(
                        &format!("{key}, to"),
                        to,
                        "lies in another place",
                        "rename within one place",
                    ));
                }
                Ok(())
            }
            Step::Sql { database, statement, params, batch, .. } => {
                self.known(&format!("{key}, database"), database, "databases", &self.workload.databases)?;
                if *batch == Some(0) || (batch.is_some() && within == Some(database)) {
                    return Err(self.wrong(
                        &format!("{key}, batch"),
                        batch.unwrap_or(0),
                        "no transaction of its own",
                        "leave `batch` out, or take the step out of the transaction",
                    ));
                }
                self.statement(key, statement, params.len(), &connections[database.as_str()])
            }
            Step::Get { size, store, request, send, .. } => {
                if let Some(store) = store {
                    files(store)?;
                }
                self.request(key, request.0, false)?;
                self.largest(key, size.largest().max(send.as_ref().map_or(0, super::Sizes::largest)))
            }
            Step::Think { seconds } => {
                if !(0.0..=86_400.0).contains(seconds) {
                    return Err(self.wrong(
                        &format!("{key}, seconds"),
                        seconds,
                        "out of range",
                        "write 0 to 86400",
                    ));
                }
                Ok(())
            }
            Step::Work { bytes, .. } => self.largest(key, bytes.map_or(0, |bytes| bytes.0)),
            Step::Replay { place, .. } => {
                self.known(&format!("{key}, place"), place, "places", &self.workload.places)
            }
        }
    }

    fn some_steps(&self, key: &str, steps: &[Step]) -> Checked {
        if steps.is_empty() {
            return Err(self.wrong(&format!("{key}, steps"), "[]", "nothing to do", "add steps"));
        }
        Ok(())
    }

    fn request(&self, key: &str, bytes: u64, direct: bool) -> Checked {
        if bytes == 0 {
            return Err(self.wrong(key, "0B", "a call that moves nothing", "write a size above 0"));
        }
        if direct && !bytes.is_multiple_of(4096) {
            return Err(self.wrong(
                key,
                format!("{bytes} bytes"),
                "direct I/O needs whole 4 KiB",
                "write a multiple of 4KiB",
            ));
        }
        Ok(())
    }

    fn largest(&self, key: &str, bytes: u64) -> Checked {
        if bytes > REQUEST_BYTES_MAX {
            return Err(self.wrong(
                key,
                format!("{bytes} bytes"),
                "too much in one piece",
                "write at most 1GiB, and a higher count",
            ));
        }
        Ok(())
    }

    /// Statements that change the schema are run on the empty database, so that what follows them can be checked.
    fn statement(&self, key: &str, text: &str, params: usize, connection: &Connection) -> Checked {
        let key = format!("{key}, statement");
        let wanted = {
            let statement = connection.prepare(text).map_err(|source| self.refused(&key, text, source))?;
            statement.parameter_count()
        };
        if wanted != params {
            return Err(self.wrong(
                &format!("{key} and params"),
                text,
                format!("{wanted} parameters in the statement, {params} in `params`"),
                "list one for each `?`",
            ));
        }
        let first = text.split_whitespace().next().unwrap_or("").to_ascii_uppercase();
        if ["BEGIN", "COMMIT", "END", "ROLLBACK", "SAVEPOINT", "RELEASE", "ATTACH", "DETACH"]
            .contains(&first.as_str())
        {
            return Err(self.wrong(
                &key,
                text,
                "transactions are not statements here",
                "use `do = \"transaction\"` or `batch`",
            ));
        }
        if ["CREATE", "DROP", "ALTER"].contains(&first.as_str()) {
            connection.execute_batch(text).map_err(|source| self.refused(&key, text, source))?;
        }
        Ok(())
    }
}
