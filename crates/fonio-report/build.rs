//! Makes sure that the script and the style of the HTML report are built before they are embedded.

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

/// What the bundle is made from. `web/src` is watched as a directory, so that a new file counts.
const SOURCES: [&str; 5] =
    ["web/src", "web/build.mjs", "web/package.json", "web/package-lock.json", "web/.npmrc"];
const BUILT: [&str; 2] = ["web/dist/report.js", "web/dist/report.css"];

fn main() {
    for path in SOURCES.iter().chain(&BUILT) {
        println!("cargo:rerun-if-changed={path}");
    }
    println!("cargo:rerun-if-changed=build.rs");
    let newest_source = SOURCES.iter().filter_map(|path| newest(Path::new(path))).max();
    let oldest_built = BUILT.iter().map(|path| modified(Path::new(path))).min().flatten();
    if oldest_built.is_some() && oldest_built >= newest_source {
        return;
    }
    // The same step as `cargo xtask assets`; package.json alone knows what it consists of.
    let step = Command::new("npm").args(["run", "--silent", "assets"]).current_dir("web").status();
    match step {
        Ok(status) if status.success() => {
            // Else cargo would find them newer than this run, and run this and compile everything above once more.
            for path in BUILT {
                let aged = File::options().write(true).open(path);
                if let (Ok(file), Some(time)) = (aged, newest_source) {
                    // Where the time cannot be set, that is the price.
                    let _ = file.set_modified(time);
                }
            }
        }
        Ok(status) => fail(&format!("`npm run assets` in crates/fonio-report/web ended with {status}")),
        Err(error) => fail(&format!("`npm` could not be started ({error})")),
    }
}

fn fail(why: &str) -> ! {
    eprintln!(
        "The HTML report's script is not built: {why}.\n\
         Install Node.js 20 or later (`apt-get install nodejs npm`), then run `cargo xtask assets`."
    );
    std::process::exit(1);
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|meta| meta.modified()).ok()
}

/// The last change of a file, or of the files in a directory.
fn newest(path: &Path) -> Option<SystemTime> {
    let inside = path.read_dir().into_iter().flatten().flatten().filter_map(|entry| modified(&entry.path()));
    inside.chain(modified(path)).max()
}
