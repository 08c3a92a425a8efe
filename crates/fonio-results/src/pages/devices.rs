//! The list of devices, and the page of a device with its revisions.

use askama::Template;
use axum::extract::{Path, State};
use axum::http::Uri;

use super::{Page, count, day, html, interval, short};
use crate::database::Connection;
use crate::entry;
use crate::figures;
use crate::problem::Problem;
use crate::query::Parameters;
use crate::service::{Lookup, Service};
use crate::store::read::{self, StoredDevice, StoredKey};

const DEVICES: i64 = 100;

/// Maximum numbers of shown revisions per device, keys per revision, and latest results per revision.
const REVISIONS: usize = 20;
const KEYS: i64 = 5;
const LATEST: i64 = 10;

#[derive(Template)]
#[template(path = "devices.html")]
struct List {
    devices: Vec<StoredDevice>,
    is_first: bool,
    next: Option<String>,
}

/// `GET /devices`.
pub(super) async fn list(State(service): State<Service>, uri: Uri) -> Page {
    let parameters = Parameters::of(&uri, &["after"])?;
    let after = parameters.get("after").unwrap_or("").to_owned();
    let is_first = after.is_empty();
    let mut devices = service
        .read(move |connection, _| {
            let (slug, revision) = after.split_once('.').unwrap_or((&after, ""));
            Ok(read::devices(connection, (slug, revision), DEVICES + 1)?)
        })
        .await?;
    let is_more = devices.len() as i64 > DEVICES;
    devices.truncate(DEVICES as usize);
    let next = devices.last().filter(|_| is_more).map(|last| format!("{}.{}", last.slug, last.revision_slug));
    Ok(html(&List { devices, is_first, next }))
}

struct FigureRow {
    label: &'static str,
    count: String,
    median: String,
    interval: String,
    all: String,
}

struct KeyPart {
    name: String,
    rows: Vec<FigureRow>,
}

struct Latest {
    id: String,
    short_id: String,
    received: String,
    key: String,
}

struct Revision {
    slug: String,
    name: String,
    keys: Vec<KeyPart>,
    latest: Vec<Latest>,
}

#[derive(Template)]
#[template(path = "device.html")]
struct DevicePage {
    device: String,
    total: String,
    revisions: Vec<Revision>,
}

/// `GET /devices/{slug}`.
pub(super) async fn show(State(service): State<Service>, Path(slug): Path<String>) -> Page {
    let no_device = || Problem::unknown("this device has no results; they may have been deleted");
    if !entry::is_slug(&slug) {
        return Err(no_device().into());
    }
    let page = service
        .read(move |connection, lookup| {
            let devices = read::revisions(connection, &slug)?;
            let first = devices.first().ok_or_else(no_device)?;
            let revisions: Result<Vec<Revision>, Problem> =
                devices.iter().take(REVISIONS).map(|device| revision(connection, lookup, device)).collect();
            Ok(DevicePage {
                device: first.name(),
                total: count(devices.iter().map(|device| device.results).sum()),
                revisions: revisions?,
            })
        })
        .await?;
    Ok(html(&page))
}

fn revision(
    connection: &mut dyn Connection,
    lookup: &Lookup,
    device: &StoredDevice,
) -> Result<Revision, Problem> {
    let keys: Result<Vec<KeyPart>, Problem> = read::keys_of_device(connection, device.device_id, KEYS)?
        .into_iter()
        .map(|key| key_part(connection, lookup, device, key))
        .collect();
    let latest = read::latest_of_device(connection, device.device_id, LATEST)?
        .into_iter()
        .map(|(id, received, key)| Latest { short_id: short(&id), id, received: day(received), key });
    Ok(Revision {
        slug: device.revision_slug.clone(),
        name: device.revision.clone(),
        keys: keys?,
        latest: latest.collect(),
    })
}

fn key_part(
    connection: &mut dyn Connection,
    lookup: &Lookup,
    device: &StoredDevice,
    key: StoredKey,
) -> Result<KeyPart, Problem> {
    let mut rows = Vec::new();
    for (at, figure) in figures::ranked().iter().enumerate() {
        let own = lookup.summary(connection, device.device_id, key.key_id, at)?;
        let Some(median) = own.quantile(0.5) else { continue };
        let all = lookup.summary(connection, 0, key.key_id, at)?.quantile(0.5);
        rows.push(FigureRow {
            label: &figure.label,
            count: count(own.count()),
            median: figure.unit.format(median.value),
            interval: interval(&median, figure.unit),
            all: all.map_or_else(|| "–".to_owned(), |all| figure.unit.format(all.value)),
        });
    }
    Ok(KeyPart { name: key.of.name, rows })
}
