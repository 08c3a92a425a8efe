//! The answers: figures with intervals, years until a card is worn, and comparisons of cards, file systems and settings.

use anyhow::Result;
use fonio_analysis::compare::interval::{Answer, Change, compare_rounds};
use xtask::results::{Cell as Shown, StudyResult};

use super::cell::{CARDS, Cell, FILE_SYSTEMS, REFERENCE, SETTINGS};
use super::wear::years;
use super::{COMMAND, Figures, GB, ID, Measured};

/// How often a card can be written.
#[derive(Clone, Copy, Debug)]
pub struct Endurance {
    /// The name of a kind of card.
    pub name: &'static str,
    /// How often all of its flash can be programmed.
    pub cycles: f64,
}

/// The capacity of the cards in the table; twice the capacity lasts twice as long.
const CAPACITY: f64 = 32e9;
/// Kinds of cards whose makers publish an endurance (docs/home-assistant.md has the sources).
const ENDURANCES: [Endurance; 3] = [
    // 10,000 h of video at 26 Mbit/s on 128 GB.
    Endurance { name: "High Endurance", cycles: 914.0 },
    // 60,000 h of video at 26 Mbit/s on 128 GB.
    Endurance { name: "Max Endurance", cycles: 5_484.0 },
    // One bit in each cell (pSLC).
    Endurance { name: "pSLC", cycles: 20_000.0 },
];
/// The level of confidence of each interval of a figure alone.
const ALONE: &str = "95 %";

/// Writes the tables that follow from the measured cells, and prints them. `own` is a card of the user, by its capacity in bytes.
pub fn show(measured: &Measured, own: Option<(f64, Endurance)>) -> Result<()> {
    let tables =
        [cards(measured)?, devices(measured)?, file_systems(measured)?, settings(measured)?, done(measured)?];
    for table in tables {
        if !table.rows.is_empty() {
            println!("\n{}:\n\n{}", table.title, table.table());
        }
        table.replace(&xtask::results::folder().join(&table.id).with_extension("json"))?;
    }
    if let Some((capacity, endurance)) = own {
        println!("Years until {} with {} GB is worn:\n", endurance.name, capacity / GB);
        for (name, figures) in measured {
            println!("{name}: {}", told_years(capacity, endurance, figures));
        }
    }
    println!("{} of {} cells are measured.", measured.len(), Cell::all().count());
    Ok(())
}

/// Returns the figures of all cards and file systems as they come.
fn cards(measured: &Measured) -> Result<StudyResult> {
    let worn: Vec<String> = ENDURANCES.iter().map(|endurance| format!("years, {}", endurance.name)).collect();
    let mut columns =
        vec!["card, file system", "99 % of answers within", "written a day", "programmed a day"];
    columns.extend(worn.iter().map(String::as_str));
    let title = format!("Home Assistant as it comes, each figure with its own interval ({ALONE})");
    let mut table = StudyResult::begin(&format!("{ID}-cards"), &title, COMMAND, &columns)?;
    for cell in Cell::all().filter(|cell| cell.setting.name == SETTINGS[0].name) {
        if let Some(figures) = measured.get(&cell.name()) {
            let mut cells: Vec<Shown> = vec![
                told(&figures.answer_ms, "ms").into(),
                told(&figures.written_gb, "GB").into(),
                told(&figures.programmed_gb, "GB").into(),
            ];
            let years = |endurance: &Endurance| told_years(CAPACITY, *endurance, figures).into();
            cells.extend(ENDURANCES.iter().map(years));
            add(&mut table, format!("{}, {}", cell.card, cell.file_system), cells);
        }
    }
    Ok(table)
}

/// Returns how many settings of each card and file system are measured.
fn done(measured: &Measured) -> Result<StudyResult> {
    let columns: Vec<&str> = ["card"].into_iter().chain(FILE_SYSTEMS).collect();
    let title = "the measured settings of each card and file system";
    let mut table = StudyResult::begin(&format!("{ID}-done"), title, COMMAND, &columns)?;
    for card in CARDS {
        let of = |file_system| {
            let cells = SETTINGS.map(|setting| Cell { card, file_system, setting });
            let measured = cells.iter().filter(|cell| measured.contains_key(&cell.name())).count();
            Shown::from(format!("{measured} of {}", cells.len()))
        };
        add(&mut table, card.to_owned(), FILE_SYSTEMS.map(of).into());
    }
    Ok(table)
}

fn devices(measured: &Measured) -> Result<StudyResult> {
    let as_it_comes = |card| Cell { card, file_system: FILE_SYSTEMS[0], setting: SETTINGS[0] };
    let pairs = CARDS[1..].iter().map(|card| {
        (format!("{card} over {REFERENCE}"), as_it_comes(REFERENCE).name(), as_it_comes(card).name())
    });
    compared(
        measured,
        "devices",
        "cards with ext4, as they come, compared with sd_a1",
        "card",
        pairs.collect(),
    )
}

fn file_systems(measured: &Measured) -> Result<StudyResult> {
    let mut pairs = Vec::new();
    for card in CARDS {
        for file_system in &FILE_SYSTEMS[1..] {
            let cell = |file_system| Cell { card, file_system, setting: SETTINGS[0] }.name();
            let name = format!("{card}: {file_system} over {}", FILE_SYSTEMS[0]);
            pairs.push((name, cell(FILE_SYSTEMS[0]), cell(file_system)));
        }
    }
    compared(
        measured,
        "file-systems",
        "file systems as they come, compared with ext4",
        "card: file system",
        pairs,
    )
}

fn settings(measured: &Measured) -> Result<StudyResult> {
    let mut pairs = Vec::new();
    for cell in Cell::all().filter(|cell| cell.setting.name != SETTINGS[0].name) {
        pairs.push((cell.name(), Cell { setting: SETTINGS[0], ..cell }.name(), cell.name()));
    }
    let title = "settings, compared with the same card and file system as they come";
    compared(measured, "settings", title, "card, file system, setting", pairs)
}

/// Compares pairs of cells, minute by minute. All intervals of the table hold together with 95 % confidence.
fn compared(
    measured: &Measured,
    id: &str,
    title: &str,
    rows: &str,
    pairs: Vec<(String, String, String)>,
) -> Result<StudyResult> {
    let columns = [rows, "answers", "written", "programmed"];
    let mut table = StudyResult::begin(&format!("{ID}-{id}"), title, COMMAND, &columns)?;
    let found: Vec<(String, &Figures, &Figures)> = pairs
        .into_iter()
        .filter_map(|(name, base, other)| Some((name, measured.get(&base)?, measured.get(&other)?)))
        .collect();
    for ((name, ..), changes) in found.iter().zip(changes(&found)) {
        add(&mut table, name.clone(), changes.iter().map(|change| told_change(change).into()).collect());
    }
    Ok(table)
}

/// Returns the changes of the three figures for each pair, tested together.
fn changes(pairs: &[(String, &Figures, &Figures)]) -> Vec<[Change; 3]> {
    let flat: Vec<(&[f64], &[f64])> =
        pairs.iter().flat_map(|(_, base, other)| three(base).into_iter().zip(three(other))).collect();
    let changes = compare_rounds(&flat);
    let of_pair = |chunk: &[Change]| <[Change; 3]>::try_from(chunk.to_vec()).expect("three figures");
    changes.chunks(3).map(of_pair).collect()
}

fn three(figures: &Figures) -> [&[f64]; 3] {
    [&figures.answer_ms, &figures.written_gb, &figures.programmed_gb]
}

fn add(table: &mut StudyResult, name: String, cells: Vec<Shown>) {
    table.rows.push(xtask::results::Row { name, cells });
}

/// Returns the mean and its own interval. The mean is geometric, because the minutes are compared by ratios.
fn interval(values: &[f64]) -> Option<[f64; 3]> {
    let ones = vec![1.0; values.len()];
    let change = compare_rounds(&[(ones.as_slice(), values)]).pop()?;
    Some([change.low?, change.ratio?, change.high?])
}

fn told(values: &[f64], unit: &str) -> String {
    match interval(values) {
        Some([low, mean, high]) => format!("{} {unit} ({} to {})", number(mean), number(low), number(high)),
        None => "unknown".to_owned(),
    }
}

fn told_years(capacity: f64, endurance: Endurance, figures: &Figures) -> String {
    let of = |programmed: f64| number(years(capacity, endurance.cycles, programmed * GB));
    match interval(&figures.programmed_gb) {
        // More flash is programmed in fewer years.
        Some([low, mean, high]) => format!("{} ({} to {})", of(mean), of(high), of(low)),
        None => "unknown".to_owned(),
    }
}

/// Returns the ratio with its interval, and what it shows.
fn told_change(change: &Change) -> String {
    let (Some(low), Some(ratio), Some(high)) = (change.low, change.ratio, change.high) else {
        return "cannot be told".to_owned();
    };
    let word = match (change.answer, change.side()) {
        (Answer::Lower, _) => "less",
        (Answer::Higher, _) => "more",
        // The interval excludes 1, but the difference can be smaller than 5 %.
        (_, Some(side)) if side.is_higher => "a little more",
        (_, Some(_)) => "a little less",
        (Answer::NoDifference, None) => "no difference shown",
        (Answer::Unknown, None) => "cannot be told",
    };
    format!("{word}: {ratio:.2} ({low:.2} to {high:.2})")
}

/// Formats a number with two significant digits, or all digits before the decimal point.
fn number(value: f64) -> String {
    match value {
        value if value >= 10.0 => format!("{value:.0}"),
        value if value >= 1.0 => format!("{value:.1}"),
        value if value >= 0.1 => format!("{value:.2}"),
        value => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(values: [f64; 5]) -> Figures {
        Figures { answer_ms: values.into(), written_gb: values.into(), programmed_gb: values.into() }
    }

    #[test]
    fn years_have_the_interval_of_the_wear() {
        let steady = figures([32.0; 5]);
        let endurance = Endurance { name: "x", cycles: 1461.0 };
        // 32 GB a day on 32 GB: 1461 days.
        assert_eq!(told_years(32e9, endurance, &steady), "4.0 (4.0 to 4.0)");
        let uneven = told_years(32e9, endurance, &figures([16.0, 64.0, 32.0, 32.0, 32.0]));
        assert!(uneven.starts_with("4.0 (2.") && uneven.ends_with(')'), "{uneven}");
    }

    #[test]
    fn a_difference_is_claimed_only_beyond_equality() {
        let base = figures([10.0, 11.0, 10.0, 9.0, 10.0]);
        let half = figures([5.0, 5.4, 5.1, 4.5, 5.0]);
        let wild = figures([1.0, 100.0, 10.0, 3.0, 30.0]);
        let pair = |other| ("x".to_owned(), &base, other);
        let found = changes(&[pair(&half), pair(&base), pair(&wild)]);
        let told: Vec<String> = found.iter().map(|change| told_change(&change[0])).collect();
        assert!(told[0].starts_with("less: 0.50 ("), "{told:?}");
        assert_eq!(told[1], "no difference shown: 1.00 (1.00 to 1.00)");
        assert!(told[2].starts_with("cannot be told: "), "{told:?}");
    }

    #[test]
    fn tables_have_only_measured_cells() {
        let mut measured = Measured::new();
        assert!(settings(&measured).expect("a table").rows.is_empty());
        let names = ["sd_a1, ext4, as it comes", "sd_a1, ext4, dirty limits", "sd_a1, btrfs, dirty limits"];
        for name in names {
            measured.insert(name.to_owned(), figures([1.0, 1.1, 1.0, 1.2, 1.0]));
        }
        let rows = |table: StudyResult| table.rows.into_iter().map(|row| row.name).collect::<Vec<_>>();
        assert_eq!(rows(settings(&measured).expect("a table")), [names[1]]);
        assert_eq!(rows(cards(&measured).expect("a table")), ["sd_a1, ext4"]);
        assert!(rows(devices(&measured).expect("a table")).is_empty());
        let done = done(&measured).expect("a table");
        let told: Vec<String> = done.rows[0].cells.iter().map(Shown::shown).collect();
        assert_eq!(
            (done.rows[0].name.as_str(), told),
            ("sd_a1", vec!["2 of 4", "0 of 4", "1 of 4"].into_iter().map(str::to_owned).collect())
        );
    }

    #[test]
    fn numbers_keep_two_digits() {
        let told = [1234.4, 56.7, 8.91, 0.234, 0.0123].map(number);
        assert_eq!(told, ["1234", "57", "8.9", "0.23", "0.012"]);
    }
}
