//! Renders the history of a watch as an HTML page with charts.

use fonio_core::quantity::Unit;
use fonio_core::{ByteCount, Nanos};
use fonio_report::document::{
    Axis, Cell, Chart, Column, Document, Fact, Mark, Plot, Role, Section, Series, Table, Term, Tone, Verdict,
};

use crate::answers::{self, StallGroup, StallsAnswer, WearAnswer, WornDevice};
use crate::histogram::Histogram;
use crate::rings::History;
use crate::settings::Settings;
use crate::summary::{DeviceFigures, OTHERS, Stall, Summary, Traffic, UnixSeconds};
use crate::times;

/// Maximum number of parties that have their own curve in a chart.
const CURVES_MAX: usize = 6;
/// Maximum number of stalls marked in the chart of blocked time.
const MARKS_MAX: usize = 5;
/// Maximum number of causes in the table of causes.
const GROUPS_MAX: usize = 20;
/// Maximum number of rows in the table of stalls.
const ROWS_MAX: usize = 100;
/// Maximum gap between two spans, in seconds, for which the watch counts as uninterrupted.
const GAP_S: i64 = 90;

struct About<'a> {
    history: &'a History,
    since: UnixSeconds,
    settings: &'a Settings,
    stalls: StallsAnswer,
    wear: WearAnswer,
    load: Summary,
}

/// What a page shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Stalls, waits, who writes, and the wear.
    Everything,
    /// Who writes, and the wear. The watch of a phone knows no stalls and no waits.
    Wear,
}

/// Creates the page about a watch's history since `since`.
pub fn document(history: &History, since: UnixSeconds, settings: &Settings, shown: Shown) -> Document {
    let about = About {
        history,
        since,
        settings,
        stalls: answers::stalls(history, since),
        wear: answers::wear(history, since, &settings.endurance),
        load: history.sum_since(since),
    };
    let About { stalls, wear, load, .. } = &about;
    let curves = Curves::of(about.history.since(about.since));
    let has_stalls = shown == Shown::Everything;
    let mut sections = match has_stalls {
        true => vec![stall_section(&about), wait_section(load, stalls, &curves)],
        false => Vec::new(),
    };
    sections.extend(
        wear.devices.iter().enumerate().map(|(at, device)| device_section(at, device, load, &curves)),
    );
    Document {
        title: "Storage watch".to_owned(),
        subtitle: format!("{} to {}", times::shown(load.began), times::shown(load.ended)),
        verdict: verdict(&about, has_stalls),
        facts: facts(&about, has_stalls),
        sections,
        terms: if has_stalls { terms(about.settings) } else { Vec::new() },
        provenance: provenance(&about, has_stalls),
        ..Document::default()
    }
}

fn verdict(about: &About<'_>, has_stalls: bool) -> Verdict {
    let mut wear = about.wear.verdict.lines().map(str::to_owned);
    if has_stalls {
        let tone = if about.stalls.is_problem { Tone::Bad } else { Tone::Good };
        return Verdict { tone, sentence: about.stalls.verdict.clone(), reasons: wear.collect() };
    }
    let sentence = wear.next().unwrap_or_default();
    Verdict { tone: Tone::Plain, sentence, reasons: wear.collect() }
}

fn facts(about: &About<'_>, has_stalls: bool) -> Vec<Fact> {
    let mut facts = vec![Fact::new("Watched", Cell::count(about.load.watched_s, Unit::S))];
    if has_stalls {
        facts.push(Fact::new("Stalls", Cell::count(about.stalls.stalls_in_all, Unit::Count)));
    }
    if let Some(worst) = about.stalls.stalls.first() {
        let lasted = worst.stall.lasted_ms as f64 / 1000.0;
        let cell =
            if worst.stall.goes_on { Cell::AtLeast(lasted, Unit::S) } else { Cell::Number(lasted, Unit::S) };
        facts.push(Fact::new("Longest stall", cell));
    }
    for device in &about.wear.devices {
        let written = Cell::count(device.written.0, Unit::Bytes);
        facts.push(Fact::new("Written", written).note(format!("to {}", device.name)));
    }
    facts
}

fn stall_section(about: &About<'_>) -> Section {
    let told = &about.stalls.stalls;
    let lasted = |ms: u64| Unit::S.format(ms as f64 / 1000.0);
    let answer = match told.first() {
        None if about.stalls.stalls_in_all == 0 => "Nothing.".to_owned(),
        None => "The history no longer lists any of the stalls.".to_owned(),
        Some(longest) => {
            let together = told.iter().map(|told| told.stall.lasted_ms).sum();
            format!(
                "{} stalls are listed; the longest lasted {}, the total is {}.",
                told.len(),
                lasted(longest.stall.lasted_ms),
                lasted(together)
            )
        }
    };
    let rows = told.iter().take(ROWS_MAX).map(|told| {
        let stall = &told.stall;
        let seconds = stall.lasted_ms as f64 / 1000.0;
        vec![
            Cell::words(times::shown(stall.began)),
            if stall.goes_on { Cell::AtLeast(seconds, Unit::S) } else { Cell::Number(seconds, Unit::S) },
            Cell::Name(answers::party_name(&stall.party)),
            Cell::Text(place(stall)),
            answers::stall_reason(stall).map_or(Cell::Unknown, Cell::Text),
            stall.kept.clone().map_or(Cell::Unknown, Cell::Name),
        ]
    });
    let table = Table {
        caption: "Stalls, longest first".to_owned(),
        columns: vec![
            Column::new("Began"),
            Column::new("Blocked for"),
            Column::new("Who").whose(),
            Column::new("In").wordy(),
            Column::noted("Why", "Derived from the requests during the stall.").wordy(),
            Column::noted("Kept as", "`fonio report` explains this file in the watch's folder `kept`."),
        ],
        rows: rows.collect(),
        left_out: told.len().saturating_sub(ROWS_MAX) as u64,
        whole: true,
        ..Table::default()
    };
    let by_cause = Table {
        caption: "Stalls by cause, longest total time first".to_owned(),
        columns: vec![
            Column::new("What happened").wordy(),
            Column::new("Stalls"),
            Column::new("In all"),
            Column::new("Longest"),
        ],
        rows: about.stalls.groups.iter().take(GROUPS_MAX).map(group_row).collect(),
        left_out: about.stalls.groups.len().saturating_sub(GROUPS_MAX) as u64,
        whole: true,
        ..Table::default()
    };
    Section {
        id: "stalls".to_owned(),
        question: "What stalled?".to_owned(),
        answer,
        tables: if told.is_empty() { Vec::new() } else { vec![by_cause, table] },
        notes: about.stalls.notes.clone(),
        ..Section::default()
    }
}

/// Returns the operation, file and device of a stall.
fn place(stall: &Stall) -> String {
    let file = stall.file.as_ref().map(|file| format!(" of {file}")).unwrap_or_default();
    let device = stall.device.as_ref().map(|device| format!(" on {device}")).unwrap_or_default();
    format!("{}{file}{device}", answers::stall_operation(stall))
}

fn group_row(group: &StallGroup) -> Vec<Cell> {
    vec![
        Cell::Text(group.sentence.clone()),
        Cell::count(group.stalls, Unit::Count),
        Cell::Number(group.total_ms as f64 / 1000.0, Unit::S),
        Cell::Number(group.longest_ms as f64 / 1000.0, Unit::S),
    ]
}

fn wait_section(load: &Summary, stalls: &StallsAnswer, curves: &Curves<'_>) -> Section {
    let watched = load.watched_s.max(1) as f64;
    let mut rows: Vec<_> = load.blocked.iter().filter(|row| row.waits.total() > Nanos(0)).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.waits.total()));
    let share = |waits: &Histogram| waits.total().0 as f64 / 1e9 / watched;
    let answer = rows.first().map_or("Nobody.".to_owned(), |row| {
        format!(
            "{} waits most: its threads waited for a total of {}, {} of the time.",
            answers::party_name(&row.party),
            Unit::Ns.format(row.waits.total().0 as f64),
            Unit::Share.format(share(&row.waits))
        )
    });
    let blocked = |span: &Summary, name: &str| {
        let of_party = span.blocked.iter().filter(|row| answers::party_name(&row.party) == name);
        of_party.map(|row| row.waits.total().0 as f64 / 1e9).sum::<f64>() / span.watched_s.max(1) as f64
    };
    let names = distinct(rows.iter().map(|row| answers::party_name(&row.party)));
    let mark = |told: &answers::ToldStall| Mark::AtX {
        x: curves.x(told.stall.began),
        label: Unit::S.format(told.stall.lasted_ms as f64 / 1000.0),
    };
    let figure = curves.stacked(
        "blocked",
        "Threads blocked on storage",
        "Mean number over time. Dashed lines mark the longest stalls.",
        Axis::linear("Threads", Unit::Number),
        &names,
        &blocked,
    );
    let figure = Chart { marks: stalls.stalls.iter().take(MARKS_MAX).map(mark).collect(), ..figure };
    let is_watched = |name: &str| load.devices.iter().any(|watched| watched.name == name);
    let device = |name: Option<&str>| match name {
        None => Cell::Unknown,
        Some(name) if is_watched(name) => Cell::Name(name.to_owned()),
        Some(name) => Cell::Name(format!("{name} (not watched)")),
    };
    let table = Table {
        caption: "Waits for storage".to_owned(),
        columns: vec![
            Column::new("Who").whose(),
            Column::new("Device"),
            Column::new("Waits"),
            Column::noted("Waited", "Sum of all threads."),
            Column::noted("Share of the time", "The share exceeds 100 % if several threads waited at once."),
            Column::new("Longest"),
        ],
        rows: rows
            .iter()
            .map(|row| {
                vec![
                    Cell::Name(answers::party_name(&row.party)),
                    device(row.device.as_deref()),
                    Cell::count(row.waits.count(), Unit::Count),
                    Cell::count(row.waits.total().0, Unit::Ns),
                    Cell::Number(share(&row.waits), Unit::Share),
                    Cell::count(row.waits.longest().0, Unit::Ns),
                ]
            })
            .collect(),
        ..Table::default()
    };
    let is_empty = rows.is_empty();
    Section {
        id: "waits".to_owned(),
        question: "Who waits for storage?".to_owned(),
        answer,
        figures: if is_empty { Vec::new() } else { vec![figure] },
        tables: if is_empty { Vec::new() } else { vec![table] },
        notes: answers::unwatched_sentence(&stalls.unwatched).into_iter().collect(),
        hints: vec![
            "Drag across a chart to zoom all charts to that period; double-click to zoom out.".to_owned(),
        ],
    }
}

fn device_section(at: usize, device: &WornDevice, load: &Summary, curves: &Curves<'_>) -> Section {
    let name = &device.name;
    let written = |span: &Summary, party: &str| {
        let of_party =
            span.parties.iter().filter(|row| row.device == *name && answers::party_name(&row.party) == party);
        of_party.map(|row| row.traffic.written_bytes.0 as f64).sum::<f64>() / span.watched_s.max(1) as f64
    };
    let parties: Vec<String> = device.parties.iter().map(|row| row.party.clone()).collect();
    let mut figures = Vec::new();
    if !parties.is_empty() {
        figures.push(curves.stacked(
            &format!("written-{at}"),
            &format!("Written to {name}"),
            "Bytes written, by the program or unit that caused the writes.",
            Axis::linear("Per second", Unit::BytesPerS),
            &parties,
            &written,
        ));
    }
    figures.extend(curves.responses(at, name));
    let mut tables = Vec::new();
    if let Some(figures) = load.devices.iter().find(|row| row.name == *name) {
        tables.push(request_table(figures, load.watched_s));
    }
    tables.extend(written_tables(device));
    let mut notes = Vec::new();
    if device.file_system_share > 0.0 {
        notes.push(format!(
            "{} of the written data is file system journal and metadata.",
            Unit::Share.format(device.file_system_share)
        ));
    }
    notes.extend(health(device));
    Section {
        id: format!("device-{at}"),
        question: format!("Who uses and wears out {name}?"),
        answer: answers::wear_sentence(device),
        figures,
        tables,
        notes,
        ..Section::default()
    }
}

fn request_table(figures: &DeviceFigures, watched_s: u64) -> Table {
    let Traffic { reads, writes, flushes, .. } = &figures.traffic;
    let kinds = [("reads", reads), ("writes", writes), ("flushes", flushes)];
    let time = |time: Option<Nanos>| time.map_or(Cell::Unknown, |time| Cell::count(time.0, Unit::Ns));
    let busy = figures.busy_ms as f64 / 1000.0 / watched_s.max(1) as f64;
    Table {
        caption: format!("Requests; the device was busy for {} of the time", Unit::Share.format(busy)),
        columns: vec![
            Column::new("Requests"),
            Column::new("Number"),
            Column::new("Mean response time"),
            Column::noted(
                "99th percentile, at most",
                "Upper bound of the 99th percentile, at most a factor of two too high.",
            ),
            Column::new("Longest"),
        ],
        rows: kinds
            .iter()
            .filter(|(_, histogram)| histogram.count() > 0)
            .map(|(kind, histogram)| {
                vec![
                    Cell::words(*kind),
                    Cell::count(histogram.count(), Unit::Count),
                    time(histogram.mean()),
                    time(histogram.quantile_at_most(990)),
                    time(Some(histogram.longest())),
                ]
            })
            .collect(),
        whole: true,
        ..Table::default()
    }
}

fn written_tables(device: &WornDevice) -> Vec<Table> {
    let written = |bytes: ByteCount| Cell::count(bytes.0, Unit::Bytes);
    let parties = Table {
        caption: "Who writes".to_owned(),
        columns: vec![Column::new("Who").whose(), Column::new("Written"), Column::new("Share")],
        rows: device
            .parties
            .iter()
            .map(|row| vec![Cell::Name(row.party.clone()), written(row.written), Cell::Bar(row.share)])
            .collect(),
        ..Table::default()
    };
    let files = Table {
        caption: "What is written".to_owned(),
        columns: vec![
            Column::new("File").whose(),
            Column::new("By").whose(),
            Column::new("Written"),
            Column::new("Share"),
        ],
        rows: device
            .files
            .iter()
            .map(|row| {
                vec![
                    Cell::Name(row.file.clone()),
                    Cell::Name(row.party.clone()),
                    written(row.written),
                    Cell::Bar(row.share),
                ]
            })
            .collect(),
        ..Table::default()
    };
    [parties, files].into_iter().filter(|table| !table.rows.is_empty()).collect()
}

/// Returns a sentence with the device's health report.
fn health(device: &WornDevice) -> Option<String> {
    let facts = answers::health_facts(device.health.as_ref()?);
    (!facts.is_empty()).then(|| format!("It reports {}.", facts.join(", ")))
}

fn terms(settings: &Settings) -> Vec<Term> {
    let stall = format!(
        "A span in which a thread of a program was blocked on storage for {} or longer, with pauses of at most 20 ms. Stalls that \
         follow each other within 5 s count as one.",
        Unit::S.format(settings.stall.as_secs_f64())
    );
    [
        ("Stall", stall.as_str()),
        ("Response time", "The time of a request from queueing in the kernel to completion."),
    ]
    .map(|(name, definition)| Term { name: name.to_owned(), definition: definition.to_owned() })
    .to_vec()
}

fn provenance(about: &About<'_>, has_stalls: bool) -> Vec<Fact> {
    let History { minutes, hours, days, .. } = about.history;
    let mut facts = vec![Fact::new("Source", Cell::words("`fonio watch`")).note(format!(
        "the history has {} minutes, {} spans of hours and {} days",
        minutes.len(),
        hours.len(),
        days.len()
    ))];
    if has_stalls && about.load.limited_s > 0 {
        facts.push(
            Fact::new("Only long waits observed", Cell::count(about.load.limited_s, Unit::S))
                .note("requests were not recorded, because BPF could not be used"),
        );
    }
    if about.load.unobserved > 0 {
        let unobserved = Cell::count(about.load.unobserved, Unit::Count);
        facts
            .push(Fact::new("Not recorded", unobserved).note("too many requests and waits happened at once"));
    }
    facts
}

fn distinct(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for name in names {
        if !kept.contains(&name) {
            kept.push(name);
        }
    }
    kept
}

/// Converts the history's spans into points of curves.
struct Curves<'a> {
    /// The spans in time order, each with its time; `None` where the watch was not running.
    spans: Vec<(f64, Option<&'a Summary>)>,
    /// Wall-clock time at the axis value 0.
    zero: i64,
    axis: Axis,
}

/// A function that returns a figure of a span for the party with the given name.
type Value<'a> = dyn Fn(&Summary, &str) -> f64 + 'a;

impl<'a> Curves<'a> {
    fn of(history: Vec<&'a Summary>) -> Curves<'a> {
        let mut history: Vec<&Summary> = history.into_iter().filter(|span| span.watched_s > 0).collect();
        history.sort_by_key(|span| span.began);
        let began = history.first().map_or(0, |span| times::on_clock(span.began));
        let ended = history.iter().map(|span| times::on_clock(span.ended)).max().unwrap_or(began);
        let mut curves = Curves {
            spans: Vec::new(),
            zero: Axis::clock_zero(began),
            axis: Axis::clock(began, ended.max(began + 60)),
        };
        let mut last_end = None;
        for span in history {
            if let Some(end) = last_end.filter(|end| span.began - end > GAP_S) {
                let unwatched = (curves.x(end), None);
                curves.spans.push(unwatched);
            }
            last_end = Some(span.ended);
            let middle = (curves.x(span.began) + curves.x(span.ended)) / 2.0;
            curves.spans.push((middle, Some(span)));
        }
        curves
    }

    fn x(&self, at: UnixSeconds) -> f64 {
        (times::on_clock(at) - self.zero) as f64
    }

    fn series(&self, name: &str, role: Role, value: impl Fn(&Summary) -> f64) -> Series {
        Series {
            name: name.to_owned(),
            role,
            x: self.spans.iter().map(|(x, _)| *x).collect(),
            y: self.spans.iter().map(|(_, span)| span.map_or(f64::NAN, &value)).collect(),
            ..Series::default()
        }
    }

    fn figure(
        &self,
        id: &str,
        title: &str,
        caption: &str,
        plot: Plot,
        y: Axis,
        series: Vec<Series>,
    ) -> Chart {
        Chart {
            id: id.to_owned(),
            title: title.to_owned(),
            caption: caption.to_owned(),
            plot,
            x: self.axis.clone(),
            y,
            z: None,
            series,
            marks: Vec::new(),
        }
    }

    /// Returns a curve for each of the leading parties, and a curve for the sum of the other parties.
    fn stacked(
        &self,
        id: &str,
        title: &str,
        caption: &str,
        y: Axis,
        parties: &[String],
        value: &Value<'_>,
    ) -> Chart {
        // The history itself can have an "others" row, for parties that did not fit into the history.
        let (rest, named): (Vec<&String>, Vec<&String>) = parties.iter().partition(|party| *party == OTHERS);
        let (own, others) = named.split_at(named.len().min(CURVES_MAX));
        let others: Vec<&String> = others.iter().copied().chain(rest).collect();
        let mut series: Vec<Series> = own
            .iter()
            .enumerate()
            .map(|(at, party)| self.series(party, Role::Category(at), |span| value(span, party)))
            .collect();
        if !others.is_empty() {
            let all = |span: &Summary| others.iter().map(|party| value(span, party)).sum();
            series.push(self.series(OTHERS, Role::Rest, all));
        }
        self.figure(id, title, caption, Plot::StackedArea, y, series)
    }

    /// Returns a chart of a device's response times; `None` if no request was observed.
    fn responses(&self, at: usize, device: &str) -> Option<Chart> {
        type Kind = fn(&Traffic) -> &Histogram;
        let kinds: [(&str, Role, Kind); 3] = [
            ("reads", Role::Read, |traffic| &traffic.reads),
            ("writes", Role::Write, |traffic| &traffic.writes),
            ("flushes", Role::Flush, |traffic| &traffic.flushes),
        ];
        let series = kinds.map(|(name, role, kind)| {
            self.series(name, role, |span| {
                let figures = span.devices.iter().find(|row| row.name == device);
                let time = figures.and_then(|figures| kind(&figures.traffic).quantile_at_most(990));
                time.map_or(f64::NAN, |time| time.0 as f64)
            })
        });
        let series: Vec<Series> =
            series.into_iter().filter(|series| series.y.iter().any(|y| !y.is_nan())).collect();
        (!series.is_empty()).then(|| {
            self.figure(
                &format!("responses-{at}"),
                &format!("Response times of {device}"),
                "Upper bound of the 99th percentile over time, at most a factor of two too high.",
                Plot::Line,
                Axis::log("Response time", Unit::Ns),
                series,
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use fonio_record::observer::{Party, PartyKind};

    use super::*;
    use crate::summary::BlockedFigures;

    /// Returns a minute in which each of these parties was blocked for the given number of seconds.
    fn minute(began: i64, blocked: &[(&str, u64)]) -> Summary {
        let row = |(name, seconds): &(&str, u64)| {
            let mut waits = Histogram::default();
            waits.add(Nanos(seconds * 1_000_000_000));
            let party = Party { name: (*name).to_owned(), kind: PartyKind::Program };
            BlockedFigures { party, device: None, waits }
        };
        let blocked = blocked.iter().map(row).collect();
        Summary { began, ended: began + 60, watched_s: 60, blocked, ..Summary::default() }
    }

    fn page(history: &History) -> Document {
        document(history, 0, &Settings::default(), Shown::Everything)
    }

    #[test]
    fn a_phone_has_no_stalls_and_no_waits() {
        let history = History { minutes: vec![minute(0, &[("a", 30)])], ..History::default() };
        let page = document(&history, 0, &Settings::default(), Shown::Wear);
        assert!(page.sections.is_empty() && page.terms.is_empty(), "{page:?}");
        assert!(page.facts.iter().all(|fact| fact.label != "Stalls") && page.verdict.tone == Tone::Plain);
    }

    #[test]
    fn curves_have_gaps_where_nothing_was_watched() {
        let minutes =
            vec![minute(86_400, &[("a", 30)]), minute(86_460, &[]), minute(90_000, &[("a", 120), ("b", 60)])];
        let page = page(&History { minutes, ..History::default() });
        let [figure] = &page.sections[1].figures[..] else { panic!("one figure: {page:?}") };
        let clock = |at: i64| (times::on_clock(at) - Axis::clock_zero(times::on_clock(86_400))) as f64;
        let [a, b] = &figure.series[..] else { panic!("two parties: {figure:?}") };
        assert_eq!((a.name.as_str(), b.name.as_str()), ("a", "b"));
        assert_eq!(a.x, [clock(86_430), clock(86_490), clock(86_520), clock(90_030)]);
        assert_eq!((a.y[0], a.y[1], a.y[3]), (0.5, 0.0, 2.0));
        assert!(a.y[2].is_nan());
        assert_eq!((b.y[0], b.y[3]), (0.0, 1.0));
    }

    #[test]
    fn the_last_parties_share_a_curve() {
        let names: Vec<String> = (0..9).map(|at| format!("p{at}")).collect();
        let mut blocked: Vec<(&str, u64)> =
            names.iter().enumerate().map(|(at, name)| (name.as_str(), 20 - at as u64)).collect();
        blocked.push((OTHERS, 30));
        let page = page(&History { minutes: vec![minute(0, &blocked)], ..History::default() });
        let series = &page.sections[1].figures[0].series;
        assert_eq!(series.len(), CURVES_MAX + 1);
        assert_eq!((series[6].name.as_str(), series[6].role), ("others", Role::Rest));
        assert_eq!(series[6].y, [(14.0 + 13.0 + 12.0 + 30.0) / 60.0]);
    }
}
