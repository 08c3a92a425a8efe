//! The rates at which a workload of timers writes, from its definition alone.

use std::ops::{Add, Mul};

use super::{Step, Workload};

/// What a workload does on average at the pace 1, if all its threads are driven by timers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// SQLite transactions that change something, in a minute.
    pub transactions_per_min: f64,
    /// Bytes written to files other than SQLite's, in a minute.
    pub file_bytes_per_min: f64,
}

impl Add for Rates {
    type Output = Rates;

    fn add(self, other: Rates) -> Rates {
        Rates {
            transactions_per_min: self.transactions_per_min + other.transactions_per_min,
            file_bytes_per_min: self.file_bytes_per_min + other.file_bytes_per_min,
        }
    }
}

impl Mul<f64> for Rates {
    type Output = Rates;

    fn mul(self, by: f64) -> Rates {
        Rates {
            transactions_per_min: self.transactions_per_min * by,
            file_bytes_per_min: self.file_bytes_per_min * by,
        }
    }
}

impl Workload {
    /// Returns the rates of the workload; `None` if it has several phases, or a thread that no timer drives.
    #[must_use]
    pub fn rates(&self) -> Option<Rates> {
        let [phase] = self.phases.as_slice() else { return None };
        phase.threads.iter().try_fold(Rates::default(), |sum, thread| {
            let [Step::Repeat { every: Some(every), steps, .. }] = thread.steps.as_slice() else {
                return None;
            };
            Some(sum + of(steps, false) * (thread.instances as f64 * 60.0 / every))
        })
    }
}

/// Returns what the steps do in one round.
fn of(steps: &[Step], is_in_transaction: bool) -> Rates {
    steps.iter().map(|step| of_step(step, is_in_transaction)).fold(Rates::default(), Add::add)
}

fn of_step(step: &Step, is_in_transaction: bool) -> Rates {
    let bytes = |file_bytes_per_min: f64| Rates { file_bytes_per_min, ..Rates::default() };
    let transactions = |count: u64| Rates { transactions_per_min: count as f64, ..Rates::default() };
    match step {
        Step::Repeat { times, steps, .. } => of(steps, is_in_transaction) * *times as f64,
        Step::Transaction { times, steps, .. } => (transactions(1) + of(steps, true)) * *times as f64,
        Step::Write { count, size, .. }
        | Step::Append { count, size, .. }
        | Step::Overwrite { count, size, .. }
        | Step::Replace { count, size, .. } => bytes(*count as f64 * size.mean()),
        Step::Sql { count, batch, statement, .. } if !is_in_transaction && !is_query(statement) => {
            transactions(count.div_ceil(batch.unwrap_or(1).max(1)))
        }
        _ => Rates::default(),
    }
}

fn is_query(statement: &str) -> bool {
    statement.trim_start().get(..6).is_some_and(|word| word.eq_ignore_ascii_case("select"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "name = 'own'\ntitle = 'Own'\n[places]\ndata = 'all'\n\
        [files.log]\nplace = 'data'\nname = '{n}.log'\n\
        [databases.main]\nplace = 'data'\nfile = 'main.db'\nschema = 'CREATE TABLE t(a, b)'\n[[phase]]\nname = 'p'\n";

    #[test]
    fn rates_follow_from_timers() {
        let insert = "{ do = 'sql', database = 'main', count = 4, statement = 'INSERT INTO t VALUES(1, 2)' }";
        let thread = |step: &str| format!("[[phase.thread]]\nname = 'main'\nsteps = [{step}]\n");
        let every = |s: f64, steps: &str| {
            thread(&format!("{{ do = 'repeat', times = 9, every = {s:.1}, steps = [{steps}] }}"))
        };
        let of = |threads: &str| {
            let workload =
                Workload::parse(&format!("{HEAD}{threads}"), "own.toml", None).expect("it is valid");
            workload.rates().map(|rates| (rates.transactions_per_min, rates.file_bytes_per_min))
        };
        assert_eq!(of(&every(5.0, insert)), Some((48.0, 0.0)));
        let in_one = format!("{{ do = 'transaction', database = 'main', steps = [{insert}] }}");
        assert_eq!(of(&every(5.0, &in_one)), Some((12.0, 0.0)));
        let batched = insert.replace("count = 4", "count = 5, batch = 2");
        assert_eq!(of(&every(60.0, &batched)), Some((3.0, 0.0)));
        let query = "{ do = 'sql', database = 'main', statement = 'SELECT a FROM t' }";
        let append = "{ do = 'append', files = 'log', count = 3, size = '100B..300B' }";
        let both =
            every(60.0, &format!("{query}, {append}")) + &every(30.0, append).replace("'main'", "'two'");
        assert_eq!(of(&both), Some((0.0, 1800.0)));
        assert_eq!(of(&thread(append)), None, "no timer drives it");
    }

    #[test]
    fn the_shipped_backgrounds_have_rates() {
        for name in ["phone", "home"] {
            let rates = Workload::load(name).expect("it is shipped").rates().expect("timers drive it");
            assert!(rates.transactions_per_min > 1.0, "{name}: {rates:?}");
        }
    }
}
