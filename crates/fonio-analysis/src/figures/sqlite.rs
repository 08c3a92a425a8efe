//! Figures of what a transaction of an SQLite database costs.

use fonio_core::Unit;

use super::Facts;
use crate::Analysis;
use crate::sqlite::{MeanCost, Receipt};

/// Adds the figures of all databases together, and of each. They are listed also for a recording without calls, so that a
/// budget is then unknown.
pub(super) fn put(facts: &mut Facts, analysis: &Analysis) {
    let Some(sqlite) = &analysis.sqlite else {
        of_receipt(facts, "sqlite", None);
        facts.count("sqlite.autocommits".to_owned(), None);
        return;
    };
    of_receipt(facts, "sqlite", sqlite.is_complete.then_some(&sqlite.all));
    // A lost run can hide BEGIN.
    let is_known = sqlite.is_complete && sqlite.statements_lost == 0;
    facts.count("sqlite.autocommits".to_owned(), sqlite.autocommits.filter(|_| is_known));
    for database in &sqlite.databases {
        let name = format!("database[{}]", database.path);
        of_receipt(facts, &name, sqlite.is_complete.then_some(&database.receipt));
        facts.count(format!("{name}.autocommits"), database.autocommits.filter(|_| is_known));
    }
}

fn of_receipt(facts: &mut Facts, name: &str, receipt: Option<&Receipt>) {
    let mean = receipt.and_then(|receipt| receipt.mean.as_ref());
    let per = |cost: fn(&MeanCost) -> Option<f64>| mean.and_then(cost);
    facts.count(format!("{name}.transactions"), receipt.map(|receipt| receipt.transactions));
    facts.count(format!("{name}.rollbacks"), receipt.map(|receipt| receipt.rollbacks));
    for (figure, value, unit) in [
        ("syncs", per(|mean| Some(mean.syncs)), Unit::Number),
        ("writes", per(|mean| mean.writes), Unit::Number),
        ("flushes", per(|mean| mean.flushes), Unit::Number),
        ("bytes", per(|mean| mean.bytes), Unit::Bytes),
        ("sync_time", per(|mean| Some(mean.sync_ns)), Unit::Ns),
        ("blocked", per(|mean| mean.blocked_ns), Unit::Ns),
    ] {
        facts.put(format!("{name}.{figure}_per_transaction"), value, unit);
    }
    let total = receipt.and_then(|receipt| receipt.amplification.total);
    facts.put(format!("{name}.write_amplification"), total, Unit::Ratio);
}
