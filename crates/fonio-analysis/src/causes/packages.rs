//! Names the Android package to which a file belongs, from the file's path.
//!
//! The folders are those of Android's storage (`frameworks/base/core/java/android/os/Environment.java`). A path that is
//! not below one of them belongs to no package.

use std::collections::BTreeMap;

use fonio_core::ByteCount;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The requests for the files of one Android package.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PackageUse {
    /// The package, such as `com.example`.
    pub package: String,
    /// Files, and kinds of data in them, that were read or written.
    pub files: u64,
    /// Requests.
    pub requests: u64,
    /// Bytes read.
    pub read_bytes: ByteCount,
    /// Bytes written.
    pub write_bytes: ByteCount,
}

/// The maximum number of packages.
const PACKAGES_MAX: usize = 1000;

/// Sums of packages.
#[derive(Debug, Default)]
pub(super) struct Packages(BTreeMap<String, PackageUse>);

impl Packages {
    /// Adds the requests for one file.
    pub(super) fn add(&mut self, path: Option<&str>, requests: u64, read: ByteCount, write: ByteCount) {
        let Some(package) = path.and_then(package_of) else { return };
        if self.0.len() >= PACKAGES_MAX && !self.0.contains_key(package) {
            return;
        }
        let sum = self.0.entry(package.to_owned()).or_default();
        sum.files += 1;
        sum.requests += requests;
        sum.read_bytes += read;
        sum.write_bytes += write;
    }

    /// Returns the packages, those with the most bytes first.
    pub(super) fn finish(self) -> Vec<PackageUse> {
        let named = |(package, sum)| PackageUse { package, ..sum };
        let mut packages: Vec<PackageUse> = self.0.into_iter().map(named).collect();
        packages.sort_by_key(|package| std::cmp::Reverse(package.read_bytes + package.write_bytes));
        packages
    }
}

/// Returns the package to which a file belongs.
pub fn package_of(path: &str) -> Option<&str> {
    let mut parts = path.strip_prefix('/')?.split('/');
    let is_user = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let name = match parts.next()? {
        "data" => match parts.next()? {
            // The data of an app.
            "data" => parts.next()?,
            "user" | "user_de" => of_user(&mut parts, is_user)?,
            // The app itself: `/data/app/~~RANDOM==/PACKAGE-RANDOM==/base.apk`, before Android 11 without the first.
            "app" => {
                let mut folder = parts.next()?;
                if folder.starts_with("~~") {
                    folder = parts.next()?;
                }
                let package = folder.split_once('-')?.0;
                // Other systems have such folders too, so only what Android installs there counts.
                let is_installed = |entry: &str| ["lib", "oat"].contains(&entry) || entry.ends_with(".apk");
                return (parts.next().is_some_and(is_installed) && is_package(package)).then_some(package);
            }
            // The shared storage.
            "media" => of_shared(&mut parts, is_user)?,
            _ => return None,
        },
        "storage" => match parts.next()? {
            "emulated" => of_shared(&mut parts, is_user)?,
            _ => return None,
        },
        "mnt" => match (parts.next()?, parts.next()?) {
            // Storage that the phone has adopted: `/mnt/expand/UUID/…`.
            ("expand", _) => match parts.next()? {
                "user" | "user_de" => of_user(&mut parts, is_user)?,
                "media" => of_shared(&mut parts, is_user)?,
                _ => return None,
            },
            _ => return None,
        },
        _ => return None,
    };
    // The path must go on below the package's folder, and a package's name has at least two parts.
    (parts.next().is_some() && is_package(name)).then_some(name)
}

/// Reads `N/PACKAGE`.
fn of_user<'p>(parts: &mut std::str::Split<'p, char>, is_user: impl Fn(&str) -> bool) -> Option<&'p str> {
    parts.next().filter(|user| is_user(user))?;
    parts.next()
}

/// Reads `N/Android/KIND/PACKAGE`.
fn of_shared<'p>(parts: &mut std::str::Split<'p, char>, is_user: impl Fn(&str) -> bool) -> Option<&'p str> {
    parts.next().filter(|user| is_user(user))?;
    parts.next().filter(|folder| *folder == "Android")?;
    parts.next().filter(|kind| ["data", "media", "obb"].contains(kind))?;
    parts.next()
}

fn is_package(name: &str) -> bool {
    name.contains('.')
        && name.split('.').all(|part| {
            part.starts_with(|first: char| first.is_ascii_alphabetic())
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_packages() {
        for (path, expected) in [
            ("/data/data/com.example/databases/a.db", Some("com.example")),
            ("/data/user/0/com.example.app/files/x", Some("com.example.app")),
            ("/data/user_de/10/com.example/x", Some("com.example")),
            ("/data/app/~~a1b2==/com.example-c3d4==/base.apk", Some("com.example")),
            ("/data/app/com.example-1/base.apk", Some("com.example")),
            ("/data/app/com.example-1/lib/arm64/libexample.so", Some("com.example")),
            ("/data/app/my.service-1.2/config.yaml", None),
            ("/data/media/0/Android/data/com.example/cache/x", Some("com.example")),
            ("/storage/emulated/0/Android/obb/com.example/main.obb", Some("com.example")),
            ("/mnt/expand/1234-abcd/user/0/com.example/x", Some("com.example")),
            ("/data/media/0/DCIM/com.example/x.jpg", None),
            ("/data/data/com.example", None),
            ("/data/data/lost+found/x", None),
            ("/data/user/x/com.example/y", None),
            ("/data/system/packages.xml", None),
            ("/home/me/data/data/com.example/x", None),
            ("/data/app/~~a", None),
            ("data/data/com.example/x", None),
            ("/data/data/com..example/x", None),
            ("", None),
        ] {
            assert_eq!(package_of(path), expected, "{path}");
        }
    }

    #[test]
    fn packages_are_summed() {
        let mut packages = Packages::default();
        packages.add(Some("/data/data/a.b/x"), 1, ByteCount(0), ByteCount(10));
        packages.add(Some("/data/data/c.d/x"), 1, ByteCount(20), ByteCount(0));
        packages.add(Some("/data/user/0/a.b/y"), 2, ByteCount(5), ByteCount(30));
        packages.add(Some("/etc/hosts"), 1, ByteCount(1), ByteCount(1));
        packages.add(None, 1, ByteCount(1), ByteCount(1));
        let found = packages.finish();
        assert_eq!(found.len(), 2);
        let expected = PackageUse {
            package: "a.b".to_owned(),
            files: 2,
            requests: 3,
            read_bytes: ByteCount(5),
            write_bytes: ByteCount(40),
        };
        assert_eq!(found[0], expected);
    }
}
