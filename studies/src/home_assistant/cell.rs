//! The cells of the study: each card with each file system and each setting.

/// The cards, by the names of their profiles.
pub const CARDS: [&str; 8] =
    [REFERENCE, "sd_a2", "emmc51", "transcend", "sandisk", "kingston", "patriot", "ridata"];
/// The card with which the others are compared: an SD card of the class that Raspberry Pi recommends.
pub const REFERENCE: &str = "sd_a1";
/// The file systems; the others are compared with the first one.
pub const FILE_SYSTEMS: [&str; 3] = ["ext4", "f2fs", "btrfs"];

/// A setting of Home Assistant or of the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its name in tables.
    pub name: &'static str,
    /// The settings inside the app.
    pub app: App,
    /// The fix that the kernel gets; `None` for the kernel's own settings.
    pub fix: Option<&'static str>,
}

/// The settings inside the app. Cells with equal settings can run in one guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct App {
    /// Variables of the app's environment that differ from the shipped app.
    pub environment: &'static [(&'static str, &'static str)],
}

const SHIPPED: App = App { environment: &[] };

/// The settings; the others are compared with the first one.
pub const SETTINGS: [Setting; 4] = [
    Setting { name: "as it comes", app: SHIPPED, fix: None },
    Setting { name: "commit every 30 s", app: App { environment: &[("COMMIT_INTERVAL", "30")] }, fix: None },
    Setting { name: "dirty limits", app: SHIPPED, fix: Some("dirty-limit") },
    Setting {
        name: "log in memory",
        app: App { environment: &[("LOG_FILE", "$RUN/home-assistant.log")] },
        fix: None,
    },
];

/// A card with a file system and a setting.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    pub card: &'static str,
    pub file_system: &'static str,
    pub setting: Setting,
}

impl Cell {
    /// Returns the name of the cell's row in the result.
    pub fn name(&self) -> String {
        format!("{}, {}, {}", self.card, self.file_system, self.setting.name)
    }

    /// Returns all cells of the study.
    pub fn all() -> impl Iterator<Item = Cell> {
        CARDS.into_iter().flat_map(|card| {
            FILE_SYSTEMS.into_iter().flat_map(move |file_system| {
                SETTINGS.into_iter().map(move |setting| Cell { card, file_system, setting })
            })
        })
    }
}

/// The cells that run in one guest: a card with a file system and an app, without and with a fix.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    pub card: &'static str,
    pub file_system: &'static str,
    pub app: App,
    pub fix: Option<&'static str>,
}

impl Share {
    /// Returns the cells of the share, in the order in which `fonio run` lists its setups: a fix follows the setup without it.
    pub fn cells(&self) -> Vec<Cell> {
        let is_in =
            |setting: &Setting| setting.app == self.app && (setting.fix.is_none() || setting.fix == self.fix);
        let mut settings: Vec<Setting> = SETTINGS.into_iter().filter(is_in).collect();
        settings.sort_by_key(|setting| setting.fix.is_some());
        let cell = |setting| Cell { card: self.card, file_system: self.file_system, setting };
        settings.into_iter().map(cell).collect()
    }
}

/// Plans the shares that measure the missing cells, one card after the other. `is_missing` tells whether a cell has no result
/// yet. `fonio run` needs the setup without a fix, so a cell with a fix brings its cell without one.
pub fn shares(is_missing: impl Fn(&Cell) -> bool) -> Vec<Share> {
    let mut shares: Vec<Share> = Vec::new();
    for Cell { card, file_system, setting } in Cell::all().filter(is_missing) {
        let same = |share: &&mut Share| {
            share.card == card && share.file_system == file_system && share.app == setting.app
        };
        match shares.iter_mut().find(same) {
            Some(share) => share.fix = share.fix.or(setting.fix),
            None => shares.push(Share { card, file_system, app: setting.app, fix: setting.fix }),
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_shares_have_each_cell_once() {
        let names: BTreeSet<String> = Cell::all().map(|cell| cell.name()).collect();
        assert_eq!(names.len(), CARDS.len() * FILE_SYSTEMS.len() * SETTINGS.len());
        let shares = shares(|_| true);
        let shared: Vec<String> = shares.iter().flat_map(Share::cells).map(|cell| cell.name()).collect();
        assert_eq!(shared.len(), names.len());
        assert_eq!(shared.into_iter().collect::<BTreeSet<_>>(), names);
        let first: Vec<String> = shares[0].cells().iter().map(Cell::name).collect();
        assert_eq!(first, ["sd_a1, ext4, as it comes", "sd_a1, ext4, dirty limits"]);
    }

    #[test]
    fn finished_cells_are_not_measured_again() {
        let wanted = ["ridata, btrfs, log in memory", "sd_a1, f2fs, dirty limits"];
        let shares = shares(|cell| wanted.contains(&cell.name().as_str()));
        let shared: Vec<String> = shares.iter().flat_map(Share::cells).map(|cell| cell.name()).collect();
        // The fix needs its setup without the fix.
        assert_eq!(shared, ["sd_a1, f2fs, as it comes", wanted[1], wanted[0]]);
        assert!(super::shares(|_| false).is_empty());
    }
}
