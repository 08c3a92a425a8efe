//! Implements `fonio mount` and `fonio mount stats`.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use fonio_bfuse::{Mount as Mounted, Options, Report, daemon, report};
use fonio_system::say;

use crate::cli::mount::Mount;
use crate::exit::Exit;
use crate::output;

/// The names under which mount(8) starts this program: for `mount -t fonio` or `-t fuse.fonio`, and for
/// fstab.
const HELPERS: [&str; 2] = ["mount.fonio", "mount.fuse.fonio"];

/// Returns the command-line arguments, with `mount` inserted if mount(8) started this program as its helper.
pub fn as_mount_helper(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.collect();
    let name = arguments.first().map(Path::new).and_then(Path::file_name);
    if name.is_some_and(|name| HELPERS.iter().any(|helper| name == *helper)) {
        arguments.splice(1..1, ["mount", "--as-helper"].map(OsString::from));
        // mount(8) passes mount options with `-o`; this program expects `--mount-options`.
        for word in arguments.iter_mut().filter(|word| *word == "-o") {
            *word = "--mount-options".into();
        }
    }
    arguments
}

pub fn run(arguments: &Mount) -> Result<Exit> {
    if arguments.source == Path::new("stats") {
        return stats(&arguments.dir, arguments.json);
    }
    let mut lists = arguments.options.clone();
    if arguments.as_helper {
        // `mount -f` is a dry run: it does everything except mounting.
        if arguments.foreground {
            return Ok(Exit::Fine);
        }
        // `suid` and `dev` are defaults of mount(8), which passes only options that differ from its defaults.
        lists.insert(0, "suid,dev".to_owned());
    }
    let options = Options::parse(lists.iter().map(String::as_str))?;
    if options.remount {
        Mounted::remount(&arguments.dir, &options)?;
    } else if arguments.foreground {
        serve(arguments, options, |mounted| {
            // Ignore errors: the parent process may have closed the stream, but the file system is mounted.
            let _ = output::text(&format!("{}\n", announcement(mounted)));
        })?;
    } else if arguments.daemon {
        serve(arguments, options, |mounted| {
            let _ = output::text(&format!("{}\n", announcement(mounted)));
            if let Err(error) = daemon::leave_terminal() {
                say!("fonio: {error}");
            }
        })?;
        // systemd ends the mount with SIGTERM, which does not count as a failure.
        return Ok(Exit::Command(0));
    } else {
        let mut child = Command::new(std::env::current_exe().context("cannot find the fonio executable")?);
        child.args(["mount", "--daemon"]).args(lists.iter().flat_map(|list| ["--mount-options", list]));
        child.arg("--").arg(&arguments.source).arg(&arguments.dir);
        match daemon::start_in_background(child)? {
            // As a helper of mount(8), print nothing on success.
            Ok(_) if arguments.as_helper && !arguments.verbose => {}
            Ok(line) => output::text(&format!("{line}\n"))?,
            Err(ended) => match ended.code().and_then(|code| u8::try_from(code).ok()) {
                // The daemon has already printed the error.
                Some(code) => return Ok(Exit::Command(code)),
                None => bail!("{} is not mounted: the daemon ended with {ended}", arguments.dir.display()),
            },
        }
    }
    Ok(Exit::Fine)
}

fn serve(arguments: &Mount, options: Options, when_ready: impl FnOnce(&Mounted)) -> Result<()> {
    Ok(daemon::serve(&arguments.source, &arguments.dir, options, when_ready)?)
}

fn announcement(mounted: &Mounted) -> String {
    let mut line = format!("Mounted at {}, mode {}.", mounted.dir().display(), mounted.mode().name());
    for dir in mounted.detached() {
        line += &format!(" Removed a dead mount at {}.", dir.display());
    }
    line
}

fn stats(dir: &Path, as_json: bool) -> Result<Exit> {
    let found = report(dir)?;
    if as_json {
        return output::json(&found);
    }
    print(&mut output::screen(), &found)?;
    Ok(Exit::Fine)
}

fn print(out: &mut impl Write, found: &Report) -> io::Result<()> {
    let micros = |time: Option<u64>| time.map_or("-".to_owned(), |time| format!("{:.1}", time as f64 / 1e3));
    writeln!(
        out,
        "mode {}, requests of at most {} KiB, daemon {}",
        found.mode,
        found.io_bytes >> 10,
        found.pid
    )?;
    writeln!(
        out,
        "\n{:<18} {:>10} {:>8} {:>12} {:>12}",
        "request", "count", "errors", "median µs <", "p99 µs <"
    )?;
    for request in &found.requests {
        let time = &request.time_ns;
        writeln!(
            out,
            "{:<18} {:>10} {:>8} {:>12} {:>12}",
            request.name,
            time.count,
            request.errors,
            micros(time.median),
            micros(time.p99)
        )?;
    }
    let buffer = &found.buffer;
    writeln!(out, "\nwritten  {} bytes in {} requests", found.write_bytes.sum, found.write_bytes.count)?;
    writeln!(out, "below    {} write calls", found.write_calls_below)?;
    writeln!(
        out,
        "buffer   {} of {} bytes used; {} writes merged into {} calls; {} bypassed it, {} waited, {} bytes \
         failed in SOURCE",
        buffer.fill_bytes,
        buffer.entries * buffer.entry_bytes,
        buffer.writes,
        buffer.flush_bytes.count,
        buffer.through,
        buffer.waits,
        buffer.lost_bytes
    )?;
    writeln!(
        out,
        "early    started write-back of {} bytes of passed-through streams early",
        found.written_behind_bytes
    )?;
    let opened: Vec<String> =
        found.opened.iter().map(|(serving, count)| format!("{serving} {count}")).collect();
    writeln!(out, "opened   {}; {} refused by the kernel", opened.join(", "), found.passthrough_refused)?;
    writeln!(
        out,
        "holds    {} inodes, {} open files, {} threads, {} of {} descriptors; asked the kernel {} times to \
         forget inodes",
        found.inodes, found.open_files, found.threads, found.descriptors, found.descriptors_max, found.prunes
    )?;
    writeln!(
        out,
        "used     {:.2} s CPU, {} context switches",
        (found.cpu_user_ns + found.cpu_system_ns) as f64 / 1e9,
        found.switches_voluntary + found.switches_involuntary
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_8_finds_us_by_the_helpers_name() {
        let said = |words: &[&str]| as_mount_helper(words.iter().map(OsString::from));
        for helper in ["/sbin/mount.fonio", "mount.fuse.fonio"] {
            assert_eq!(
                said(&[helper, "/a", "/b", "-o", "rw"]),
                [helper, "mount", "--as-helper", "/a", "/b", "--mount-options", "rw"]
            );
        }
        assert_eq!(said(&["/usr/bin/fonio", "mount"]), ["/usr/bin/fonio", "mount"]);
    }
}
