//! Mounts a directory with this crate alone: `mount SOURCE DIR [OPTIONS]`. The program runs in the foreground
//! until the directory is unmounted, or until SIGTERM or Ctrl-C. After mounting, the program prints the mode.

use std::path::Path;
use std::process::ExitCode;

use fonio_bfuse::{Options, daemon};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mount: {error}");
            let mut cause = error.source();
            while let Some(next) = cause {
                eprintln!("  because: {next}");
                cause = next.source();
            }
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let [source, dir, lists @ ..] = words else { return Err("usage: mount SOURCE DIR [OPTIONS]".into()) };
    let options = Options::parse(lists.iter().map(String::as_str))?;
    daemon::serve(Path::new(source), Path::new(dir), options, |mount| println!("{}", mount.mode().name()))?;
    Ok(())
}
