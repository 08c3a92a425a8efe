//! `cargo studies home-assistant`: which card for a Home Assistant, which file system, which setting?
//!
//! Home Assistant runs in guests, on each emulated card with each file system and each setting ([`cell`]). A cell is one start
//! with several consecutive minutes ([`app`]); each minute is a round. The measured figures of a minute are the answers that a
//! person waits for, and the bytes that reach the card; a model of the card computes the flash that these bytes wear ([`wear`]).
//!
//! The result file is the only state of the study. It is replaced after each guest, so an interrupted run loses only the guest
//! that ran, and the next run measures only the missing cells. The tables with answers ([`tables`]) are computed from it.

mod app;
mod cell;
mod tables;
mod wear;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use fonio_core::ByteCount;
use fonio_core::quantity::parse_bytes;
use serde_json::Value;
use xtask::results::{self, Cell as Shown, Row, StudyResult};

use self::cell::{CARDS, Cell, FILE_SYSTEMS, SETTINGS, Share, shares};
use self::tables::Endurance;
use self::wear::Recorded;
use crate::emulated::in_guest;
use crate::{process, tools};

const KERNEL: &str = "lab:6.12";
/// The size of the emulated cards. The data of a guest's card are in the guest's memory.
const SIZE: ByteCount = ByteCount(2 << 30);
const SIZE_TEXT: &str = "2GiB";
const ID: &str = "home-assistant";
const COMMAND: &str = "sudo cargo studies home-assistant";
const COLUMNS: [&str; 4] =
    ["card, file system, setting", "99 % of answers within", "written a day", "programmed a day"];
/// Bytes in the unit of the table.
const GB: f64 = 1e9;

#[derive(Args)]
pub struct Arguments {
    /// Measure only these cards (default: all).
    #[arg(long, value_name = "CARD", value_delimiter = ',', value_parser = CARDS)]
    on: Vec<String>,
    /// Measure only these file systems (default: all).
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = FILE_SYSTEMS)]
    fs: Vec<String>,
    /// Measure only these settings (default: all).
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = SETTINGS.map(|setting| setting.name))]
    setting: Vec<String>,
    /// Run this many guests at most, then stop; the next run continues (default: until all cells are measured).
    #[arg(long, value_name = "N")]
    guests: Option<usize>,
    /// Also print the years until a card of this size is worn, with --cycles.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, requires = "cycles")]
    capacity: Option<u64>,
    /// How often each cell of this card can be programmed, according to its data sheet.
    #[arg(long, value_name = "N", requires = "capacity", value_parser = clap::value_parser!(u32).range(1..))]
    cycles: Option<u32>,
    /// Use this program, for example a release build (default: builds fonio as for tests).
    #[arg(long, value_name = "FONIO")]
    fonio: Option<PathBuf>,
}

/// The figures of a cell, one for each minute.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// The time that 99 % of the answers do not exceed, in ms.
    pub answer_ms: Vec<f64>,
    /// Bytes that the host wrote to the card, extrapolated to a day, in GB.
    pub written_gb: Vec<f64>,
    /// Bytes that the card programmed into flash, extrapolated to a day, in GB.
    pub programmed_gb: Vec<f64>,
}

/// The measured cells, by name.
type Measured = BTreeMap<String, Figures>;

/// Measures the missing cells, and writes the results.
pub fn run(arguments: &Arguments) -> Result<()> {
    let path = results::folder().join(ID).with_extension("json");
    let (mut measured, of_before) = read(&path)?;
    let is_named = |names: &[String], name: &str| names.is_empty() || names.iter().any(|named| named == name);
    let is_wanted = |cell: &Cell| {
        is_named(&arguments.on, cell.card)
            && is_named(&arguments.fs, cell.file_system)
            && is_named(&arguments.setting, cell.setting.name)
    };
    let planned = shares(|cell| is_wanted(cell) && !measured.contains_key(&cell.name()));
    let planned: Vec<Share> = planned.into_iter().take(arguments.guests.unwrap_or(usize::MAX)).collect();
    if !planned.is_empty() {
        ensure!(process::is_root(), "apps need root: run it with sudo");
        tools::ensure(&[tools::BUILD, tools::GUEST])?;
        process::outlive_signals()?;
        let (fonio, build) = process::fonio_of_study(arguments.fonio.as_deref())?;
        let remark = remark(build);
        ensure!(
            measured.is_empty() || of_before == remark,
            "{} was measured with another build ({of_before}); use the same build with --fonio, or remove the file",
            path.display()
        );
        for (at, share) in planned.iter().enumerate() {
            process::check_signals()?;
            let began = Instant::now();
            println!("guest {} of {}: {}", at + 1, planned.len(), told(share));
            for (cell, figures) in measure(&fonio, share)? {
                measured.insert(cell.name(), figures);
            }
            result(&measured, &remark)?.replace(&path)?;
            println!(
                "  {:.0} min; {} of {} cells are measured",
                began.elapsed().as_secs_f64() / 60.0,
                measured.len(),
                Cell::all().count()
            );
        }
    }
    let own = arguments.capacity.zip(arguments.cycles).map(|(capacity, cycles)| {
        (capacity as f64, Endurance { name: "your card", cycles: f64::from(cycles) })
    });
    tables::show(&measured, own)
}

fn told(share: &Share) -> String {
    let names = share.cells().iter().map(Cell::name).collect::<Vec<_>>();
    names.join("; ")
}

/// Returns the remark of the result. The emulated card is served by fonio, so cells of different builds do not compare.
fn remark(build: &str) -> String {
    format!("{build} of fonio.")
}

/// Reads the measured cells, and the remark of their result. Without a file, there are none. Fails if the file is of another
/// study.
fn read(path: &Path) -> Result<(Measured, String)> {
    if !path.exists() {
        return Ok((Measured::new(), String::new()));
    }
    let found = StudyResult::read(path)?;
    let remedy = || format!("remove {} to start the study again", path.display());
    ensure!(found.columns == COLUMNS, "the study has other columns now; {}", remedy());
    let mut measured = Measured::new();
    for row in &found.rows {
        let is_known = Cell::all().any(|cell| cell.name() == row.name);
        ensure!(is_known, "the study has no cell `{}` now; {}", row.name, remedy());
        let values = row.cells.iter().map(values).collect::<Option<Vec<_>>>();
        let values = values.filter(|values| values.iter().all(|values| values.len() == app::MINUTES));
        let values =
            values.with_context(|| format!("the cell `{}` has no figures; {}", row.name, remedy()))?;
        let [answer_ms, written_gb, programmed_gb] =
            <[Vec<f64>; 3]>::try_from(values).expect("a result has a cell for each column");
        measured.insert(row.name.clone(), Figures { answer_ms, written_gb, programmed_gb });
    }
    Ok((measured, found.remark))
}

fn values(cell: &Shown) -> Option<Vec<f64>> {
    match cell {
        Shown::Quantity(quantity) => quantity.values.iter().copied().collect(),
        Shown::Text(_) => None,
    }
}

/// Returns the result of all measured cells, in the order of the cells.
fn result(measured: &Measured, remark: &str) -> Result<StudyResult> {
    let title = "Home Assistant on cards, file systems and settings: medians of the minutes, with the least and the most";
    let mut result = StudyResult::begin(ID, title, COMMAND, &COLUMNS)?;
    result.rounds = Some(app::MINUTES as u64);
    remark.clone_into(&mut result.remark);
    for name in Cell::all().map(|cell| cell.name()) {
        if let Some(figures) = measured.get(&name) {
            let cell = |values: &[f64], unit, decimals| {
                Shown::rounds(values.iter().copied().map(Some), unit, decimals).with_range()
            };
            let cells = vec![
                cell(&figures.answer_ms, "ms", 1),
                cell(&figures.written_gb, "GB", 2),
                cell(&figures.programmed_gb, "GB", 1),
            ];
            result.rows.push(Row { name, cells });
        }
    }
    Ok(result)
}

/// Runs the cells of a share in one guest.
fn measure(fonio: &Path, share: &Share) -> Result<Vec<(Cell, Figures)>> {
    let folder = process::scratch(ID)?;
    let (files, out) = (folder.join("app"), folder.join("runs"));
    for folder in [&files, &out] {
        process::remove_folder(folder)?;
    }
    fs::create_dir_all(&files)?;
    app::write(share.app, &files)?;
    let mut command = process::bound_to_this(fonio);
    let mut given = OsString::from("app:");
    given.push(&files);
    given.push(format!(":{}", app::SCRIPT));
    command.arg("run").arg(given).args(["--on", share.card, "--fs", share.file_system]);
    command.args(["--in", KERNEL, "--runs", "1", "--size", SIZE_TEXT, "--json", "-o"]);
    command.arg(&out);
    if let Some(fix) = share.fix {
        command.args(["--fix", fix]);
    }
    let (text, _) = in_guest(&mut command)?;
    let summary: Value = serde_json::from_str(&text).context("fonio printed no JSON")?;
    let variations = summary["variations"].as_array().context("the result has no setups")?;
    let cells = share.cells();
    ensure!(variations.len() == cells.len(), "{} setups ran instead of {}", variations.len(), cells.len());
    let mut figures = Vec::new();
    for (cell, variation) in cells.into_iter().zip(variations) {
        figures.push((cell, of_setup(&cell, variation).with_context(|| cell.name())?));
    }
    process::remove_folder(&out)?;
    Ok(figures)
}

/// Returns the figures of a setup that ran.
fn of_setup(cell: &Cell, variation: &Value) -> Result<Figures> {
    let name = variation["name"].as_str().context("a setup has no name")?;
    // A list of one file system is not part of the name.
    let is_of_cell =
        variation["place"] == cell.card && cell.setting.fix.is_none_or(|fix| name.ends_with(fix));
    ensure!(is_of_cell, "fonio ran `{name}` in its place");
    let run = &variation["runs"][0];
    let minutes: Vec<String> = (0..app::MINUTES).map(app::minute).collect();
    let answer_ms = minutes.iter().map(|minute| answer_ms(run, minute)).collect::<Result<Vec<f64>>>()?;
    let recording = run["recording"].as_str().context("the result names no recording")?;
    let per_day = Recorded::open(Path::new(recording))?.per_day(cell.card, SIZE, &minutes)?;
    Ok(Figures {
        answer_ms,
        written_gb: per_day.iter().map(|minute| minute.written / GB).collect(),
        programmed_gb: per_day.iter().map(|minute| minute.programmed / GB).collect(),
    })
}

fn answer_ms(run: &Value, minute: &str) -> Result<f64> {
    let steps = run["steps"].as_array().context("the result has no steps")?;
    let step = steps.iter().find(|step| step["name"] == minute);
    let responses = step.and_then(|step| step["responses"].as_array());
    let answers = responses.and_then(|kinds| kinds.iter().find(|kind| kind["kind"] == app::KIND));
    let seconds = answers.and_then(|answers| answers["p99_s"].as_f64());
    Ok(seconds.with_context(|| format!("`{minute}` has no answers"))? * 1e3)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn figures(of: f64) -> Figures {
        let values = vec![of; app::MINUTES];
        Figures { answer_ms: values.clone(), written_gb: values.clone(), programmed_gb: values }
    }

    #[test]
    fn the_result_file_is_the_state_of_the_study() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("home-assistant.json");
        assert!(read(&path).expect("a missing file has no cells").0.is_empty());
        let names: Vec<String> = Cell::all().map(|cell| cell.name()).collect();
        let mut measured = Measured::new();
        for (at, name) in names.iter().take(4).enumerate() {
            measured.insert(name.clone(), figures(at as f64 + 1.25));
            result(&measured, "A build.").expect("a result").replace(&path).expect("it is written");
            assert_eq!(read(&path).expect("it is read"), (measured.clone(), "A build.".to_owned()));
        }
        let missing = shares(|cell| !measured.contains_key(&cell.name()));
        let missing: Vec<String> = missing.iter().flat_map(Share::cells).map(|cell| cell.name()).collect();
        assert!(missing.iter().all(|name| !measured.contains_key(name)), "{missing:?}");
        assert_eq!(missing.len(), names.len() - 4);
        let left: Vec<_> = fs::read_dir(dir.path()).expect("list").collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn cells_of_another_study_are_refused() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("home-assistant.json");
        let name = Cell::all().next().expect("a cell").name();
        let good = result(&Measured::from([(name.clone(), figures(2.0))]), "").expect("a result");
        let mut columns = good.clone();
        columns.columns[1] = "something".to_owned();
        let mut unknown = good.clone();
        unknown.rows[0].name = "sd_a9, ext4, as it comes".to_owned();
        let mut short = good.clone();
        short.rows[0].cells[0] = Shown::once(1.0, "ms", 1);
        for (result, why) in [(columns, "other columns"), (unknown, "no cell `sd_a9"), (short, "no figures")]
        {
            result.replace(&path).expect("it is written");
            let error = read(&path).expect_err(why).to_string();
            assert!(error.contains(why) && error.contains("remove"), "{error}");
        }
    }

    #[test]
    fn the_answers_of_a_minute_are_found() {
        let responses = json!([{"kind": "answer", "p99_s": 0.25}]);
        let run = json!({"steps": [{"name": "before"}, {"name": "minute 1", "responses": responses}]});
        assert_eq!(answer_ms(&run, "minute 1").expect("found"), 250.0);
        assert!(answer_ms(&run, "minute 2").is_err());
    }

    #[test]
    fn a_setup_of_another_card_is_refused() {
        let cell = Cell::all().next().expect("a cell");
        let error = of_setup(&cell, &json!({"name": "sd_a2", "place": "sd_a2"})).expect_err("another card");
        assert!(error.to_string().contains("`sd_a2` in its place"), "{error}");
    }
}
