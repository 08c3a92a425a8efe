//! The app `home-assistant` as the study runs it: a copy of the shipped folder with one start instead of two, a script of
//! consecutive minutes, and the settings of a cell.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use toml::{Table, Value};

use super::cell::App;
use crate::process;

/// The script of the study.
pub const SCRIPT: &str = "minutes";
/// The measured minutes of a start.
pub const MINUTES: usize = 5;
/// The kind of answer that counts: each answer that a person waits for, to a toggle or a look at a history.
pub const KIND: &str = "answer";
/// A person asks twice a second.
const ANSWERS: i64 = 120;
/// Before the first measured minute, the kernel writes back as much as it will in each minute: it keeps dirty pages for 30 s,
/// and looks for them every 5 s.
const ANSWERS_BEFORE: i64 = 80;

/// Returns the name of a measured minute, counted from 0.
pub fn minute(at: usize) -> String {
    format!("minute {}", at + 1)
}

/// Writes the app's folder with the settings of `app` to `to`, an empty folder. Fails if the shipped app has another shape.
pub fn write(app: App, to: &Path) -> Result<()> {
    let from = process::root().join("apps/home-assistant");
    for entry in fs::read_dir(&from).with_context(|| format!("cannot list {}", from.display()))? {
        let path = entry?.path();
        let name = path.file_name().context("a file has no name")?;
        let read = || fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()));
        let text = match name.to_str() {
            Some("app.toml") => definition(&read()?, app)?,
            Some("person.py") => person(&read()?)?,
            _ => read()?,
        };
        fs::write(to.join(name), text)?;
    }
    Ok(())
}

/// Changes the definition of the app.
fn definition(shipped: &str, app: App) -> Result<String> {
    let mut table: Table = shipped.parse().context("apps/home-assistant/app.toml")?;
    let environment = table.get_mut("environment").and_then(Value::as_table_mut);
    let environment = environment.context("apps/home-assistant/app.toml has no environment")?;
    for (name, value) in app.environment {
        let old = environment.insert((*name).to_owned(), (*value).into());
        ensure!(old.is_some(), "apps/home-assistant/app.toml has no setting {name}");
    }
    let step = |step: &str| step.parse::<Table>().map(Value::Table);
    let files = "\"$FILES/history.py\", \"$DATA/config/home-assistant_v2.db\"";
    // The history is inserted while Home Assistant runs: a second start would take as long as minutes of it.
    let prepare = [
        step(r#"run = ["sh", "$FILES/prepare.sh", "$FILES", "$DATA/config"]"#)?,
        step(r#"start = "home-assistant""#)?,
        step(&format!("run = [\"python3\", {files}]"))?,
    ];
    table.insert("prepare".to_owned(), Value::Array(prepare.into()));
    let mut steps = vec![used("before", ANSWERS_BEFORE)];
    steps.extend((0..MINUTES).map(|at| used(&minute(at), ANSWERS)));
    let script = Table::from_iter([
        ("title".to_owned(), Value::from("Minutes of a home, without a stop")),
        // The preparation and the first step have read the programs.
        ("warm_up".to_owned(), Value::from(false)),
        ("steps".to_owned(), Value::Array(steps)),
    ]);
    table.insert(
        "scripts".to_owned(),
        Value::Table(Table::from_iter([(SCRIPT.to_owned(), Value::Table(script))])),
    );
    Ok(table.to_string())
}

/// Returns the step of a person who uses Home Assistant.
fn used(name: &str, answers: i64) -> Value {
    let words = ["python3", "$FILES/person.py", "$UNITS"].map(Value::from);
    Value::Table(Table::from_iter([
        ("name".to_owned(), Value::from(name)),
        ("units".to_owned(), Value::from(answers)),
        ("responses".to_owned(), Value::from("$RUN/responses")),
        ("run".to_owned(), Value::Array(words.into())),
    ]))
}

/// Gives all answers the same kind, so that the report has the percentile of all of them.
fn person(shipped: &str) -> Result<String> {
    let line = "out.write(f\"{name} {";
    ensure!(shipped.matches(line).count() == 1, "apps/home-assistant/person.py writes its answers otherwise");
    Ok(shipped.replace(line, &format!("out.write(f\"{KIND} {{")))
}

#[cfg(test)]
mod tests {
    use super::super::cell::SETTINGS;
    use super::*;

    #[test]
    fn the_copy_has_the_settings_and_the_minutes() {
        for setting in SETTINGS {
            let dir = tempfile::tempdir().expect("dir");
            write(setting.app, dir.path()).expect("the shipped app has the expected shape");
            let text = fs::read_to_string(dir.path().join("app.toml")).expect("it is written");
            let table: Table = text.parse().expect("TOML");
            for (name, value) in setting.app.environment {
                assert_eq!(table["environment"][*name].as_str(), Some(*value), "{}", setting.name);
            }
            let steps = table["scripts"][SCRIPT]["steps"].as_array().expect("steps");
            let names: Vec<_> = steps.iter().filter_map(|step| step["name"].as_str()).collect();
            assert_eq!(names, ["before", "minute 1", "minute 2", "minute 3", "minute 4", "minute 5"]);
            let person = fs::read_to_string(dir.path().join("person.py")).expect("it is written");
            assert!(person.contains("f\"answer {time.monotonic() - asked:.6f}\\n\""), "{person}");
        }
    }

    #[test]
    fn another_shape_is_refused() {
        let app = SETTINGS[1].app;
        let error = definition("[environment]\nLOG_FILE = \"a\"\n", app).expect_err("a setting is missing");
        assert!(error.to_string().contains("no setting COMMIT_INTERVAL"), "{error}");
        assert!(person("print()").is_err());
    }
}
