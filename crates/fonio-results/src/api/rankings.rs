//! Serves comparison keys, rankings and distributions.

use axum::extract::State;
use axum::http::{StatusCode, Uri};

use super::answers::{DeviceAnswer, Ecdf, FigureAnswer, KeyAnswer, Keys, Ranking, RankingRow};
use super::{Answer, json};
use crate::figures;
use crate::problem::Problem;
use crate::query::{Parameters, page_name};
use crate::service::Service;
use crate::store::read;

/// Number of rows per page of a ranking.
pub(crate) const ROWS: i64 = 50;

/// Maximum number of comparison keys that are listed. Keys that are not listed can still be requested by
/// name.
pub(crate) const KEYS: i64 = 200;

/// Maximum number of points of a distribution function.
pub(crate) const POINTS: usize = 200;

/// Returns the index of a figure in the list of ranked figures.
pub(crate) fn figure(name: &str) -> Result<usize, Problem> {
    figures::find(name)
        .ok_or_else(|| Problem::unknown("this figure is not ranked; /api/v1/keys lists the ranked figures"))
}

pub(crate) fn no_key() -> Problem {
    Problem::unknown("no result has this comparison key; /api/v1/keys lists the keys")
}

/// Handles `GET /api/v1/keys`.
pub(super) async fn keys(State(service): State<Service>, uri: Uri) -> Answer {
    Parameters::of(&uri, &[])?;
    let keys = service.read(|connection, _| Ok(read::keys(connection, KEYS)?)).await?;
    let keys = keys.into_iter().map(|key| KeyAnswer { key: key.of, results: key.results }).collect();
    let figures = figures::ranked().iter().map(FigureAnswer::of).collect();
    Ok(json(StatusCode::OK, &Keys { keys, figures }))
}

/// Handles `GET /api/v1/ranking`.
pub(super) async fn ranking(State(service): State<Service>, uri: Uri) -> Answer {
    let parameters = Parameters::of(&uri, &["key", "figure", "page", "by"])?;
    let figure = figure(parameters.need("figure")?)?;
    let (key, page, of) = (parameters.need("key")?.to_owned(), parameters.page()?, parameters.by()?);
    let ranking = service
        .read(move |connection, lookup| {
            let key = read::key_by_name(connection, &key)?.ok_or_else(no_key)?;
            let summary = lookup.summary(connection, 0, key.key_id, figure)?;
            let scope = lookup.scope(0, key.key_id, figure);
            let page = read::ranking(connection, &summary, scope, of, page, ROWS)?;
            let rows = page.places.into_iter().map(|place| RankingRow {
                rank: place.rank,
                value: place.value,
                device: DeviceAnswer::of(&place.device),
                id: place.id,
            });
            Ok(Ranking {
                key: key.of.name,
                figure: FigureAnswer::of(&figures::ranked()[figure]),
                results: summary.count(),
                rows: rows.collect(),
                next: page.next.map(page_name),
            })
        })
        .await?;
    Ok(json(StatusCode::OK, &ranking))
}

/// Handles `GET /api/v1/ecdf`.
pub(super) async fn ecdf(State(service): State<Service>, uri: Uri) -> Answer {
    let parameters = Parameters::of(&uri, &["key", "figure"])?;
    let figure = figure(parameters.need("figure")?)?;
    let key = parameters.need("key")?.to_owned();
    let ecdf = service
        .read(move |connection, lookup| {
            let key = read::key_by_name(connection, &key)?.ok_or_else(no_key)?;
            let summary = lookup.summary(connection, 0, key.key_id, figure)?;
            Ok(Ecdf {
                key: key.of.name,
                figure: FigureAnswer::of(&figures::ranked()[figure]),
                results: summary.count(),
                quantiles: summary.quantiles(),
                points: summary.points(POINTS),
                band: (summary.count() > 0).then(|| summary.band()),
            })
        })
        .await?;
    Ok(json(StatusCode::OK, &ecdf))
}
