//! Reproduces Table 1 of Jeong and Won 2014: the file systems of six phones, and whether fonio can create
//! them. No row is scored, because fonio only copies the published configurations and measures nothing.

use anyhow::Result;
use fonio_host::Filesystem;
use serde::Deserialize;

use super::measured::Kind;
use super::published::Published;
use super::row::Row;
use super::runs::Runs;

/// The file systems of a phone's partitions; `None` for a partition that the phone does not have.
#[derive(Deserialize)]
struct Phone {
    name: String,
    year: u32,
    data: String,
    sdcard: String,
    ext_sdcard: Option<String>,
}

const PROFILES: [(&str, &str); 2] = [("Nexus One", "internal_2010"), ("Galaxy S3", "galaxy_s3_emmc")];
const FUSE: &str = "fuse";

pub(super) fn rows(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for phone in published.at::<Vec<Phone>>("bfuse.phone")? {
        let profile = PROFILES.iter().find(|(name, _)| *name == phone.name);
        let device = profile
            .map_or_else(|| "fonio has no profile of its flash".to_owned(), |(_, name)| format!("on {name}"));
        let partitions = [
            ("data", Some(&phone.data)),
            ("sdcard", Some(&phone.sdcard)),
            ("ext. sdcard", phone.ext_sdcard.as_ref()),
        ];
        for (partition, told) in partitions {
            let Some(told) = told else { continue };
            let what = format!("{} ({}), {partition}", phone.name, phone.year);
            rows.push(match (told.parse::<Filesystem>(), told.as_str()) {
                (Ok(filesystem), _) => Row::same(what, told, Some(told), Kind::Construction.into(), "")
                    .noted(format!("fonio run --fs {filesystem}"))
                    .noted(runs.place_for(&[filesystem]).noted())
                    .because(device.as_str()),
                (_, FUSE) => Row::same(what, told, Some(told), Kind::Construction.into(), "")
                    .noted("fonio mount --mount-options mode=stock")
                    .because(device.as_str()),
                (_, "yaffs2") => {
                    Row::cannot(Kind::Construction, what, told, "yaffs2 is for raw flash, and not in Linux")
                }
                _ => Row::cannot(Kind::Construction, what, told, "the phone's maker has not published it"),
            });
        }
    }
    Ok(rows)
}
