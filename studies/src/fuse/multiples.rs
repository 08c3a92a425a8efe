//! Turns the table of seconds into multiples of the time in the directory itself.

use fonio_core::statistics::sample::median;
use xtask::results::{Cell, Row, StudyResult};

/// The configuration without a daemon.
const NATIVE: &str = "native";

/// Returns the rows of a table with the columns of `seconds`: the native time in seconds, and the other times as multiples of it.
/// A multiple compares two times of the same round. The table is empty if the native times are missing.
pub fn rows(seconds: &StudyResult) -> Vec<Row> {
    let Some(native) = seconds.columns.iter().skip(1).position(|column| column == NATIVE) else {
        return Vec::new();
    };
    let of_row = |row: &Row| {
        let base = values(&row.cells[native]);
        let cell = |(at, cell): (usize, &Cell)| match at {
            at if at == native => Cell::rounds(base.clone(), "s", 3),
            _ => shown(
                values(cell).into_iter().zip(&base).map(|(time, base)| Some(time? / (*base)?)).collect(),
            ),
        };
        Row { name: row.name.clone(), cells: row.cells.iter().enumerate().map(cell).collect() }
    };
    seconds.rows.iter().map(of_row).collect()
}

fn values(cell: &Cell) -> Vec<Option<f64>> {
    match cell {
        Cell::Quantity(quantity) => quantity.values.clone(),
        Cell::Text(_) => Vec::new(),
    }
}

fn shown(multiples: Vec<Option<f64>>) -> Cell {
    let middle = multiples.iter().copied().collect::<Option<Vec<f64>>>().and_then(|known| median(&known));
    let decimals = match middle {
        Some(middle) if middle < 2.0 => 2,
        Some(middle) if middle < 10.0 => 1,
        _ => 0,
    };
    Cell::rounds(multiples, "", decimals)
}

#[cfg(test)]
mod tests {
    use xtask::results::folder;

    use super::*;

    #[test]
    fn the_kept_multiples_are_those_of_the_kept_seconds() {
        let kept = |id: &str| StudyResult::read(&folder().join(format!("{id}.json"))).expect("it is kept");
        let (seconds, multiples) = (kept("fuse-memory"), kept("fuse-memory-multiples"));
        assert_eq!(multiples.columns, seconds.columns);
        assert_eq!(multiples.rows, rows(&seconds));
        let shown = |row: &Row| row.cells.iter().map(Cell::shown).collect::<Vec<_>>();
        let names: Vec<_> = multiples.rows.iter().map(|row| (row.name.as_str(), shown(row).len())).collect();
        assert!(names.iter().all(|(_, cells)| *cells + 1 == seconds.columns.len()), "{names:?}");
    }

    #[test]
    fn rounds_are_compared_with_each_other() {
        let known = |values: &[f64]| Cell::rounds(values.iter().copied(), "", 3);
        let cells = vec![known(&[1.0, 2.0, 3.0]), known(&[4.0, 2.0, 36.0]), Cell::once(None, "", 3)];
        let columns = ["", NATIVE, "slow", "missing"];
        let mut seconds = StudyResult::read(&folder().join("fuse-memory.json")).expect("it is kept");
        (seconds.columns, seconds.rows) =
            (columns.map(str::to_owned).into(), vec![Row { name: "task".to_owned(), cells }]);
        let rows = rows(&seconds);
        let shown: Vec<_> = rows[0].cells.iter().map(Cell::shown).collect();
        assert_eq!(shown, ["2.000 s", "4.0", "–"]);
    }
}
