//! `cargo xtask lab test sync-policy`: checks the fix `sync-policy` and its units in a complete Debian,
//! across a clean reboot and a power cut.

use std::process::Command;

use anyhow::{Result, bail};
use fonio_lab::SystemOptions;

use crate::lab::steps::{Steps, in_debian, ok, text};
use crate::process;

/// A script that creates a unit that keeps an ordered database and a cache open, and programs that cannot
/// preload a library.
const PREPARE: &str = include_str!("sync_policy_prepare.sh");

const POLICY: &str = include_str!("sync_policy_rules.sh");

const ROWS: &str = "for db in notes cache; do sqlite3 /srv/app/$db.db 'SELECT count(*) FROM t'; done";
const FILES: &str = "for file in $(find /etc /run/systemd/system -type f 2>/dev/null | grep -v -e ^/etc/machine-id -e ^/etc/resolv.conf -e ^/etc/fonio | sort); do sha256sum $file; done";

/// Runs all checks in one guest. Returns the number of broken promises.
pub fn run() -> Result<u32> {
    let library = process::build_sync_library()?;
    let fonio = process::build_fonio_for_tests()?;
    let folder = tempfile::tempdir()?;
    // The fix must reject a program without a dynamic linker.
    let source = folder.path().join("static.c");
    std::fs::write(&source, "int main(void){return 0;}\n")?;
    let program = folder.path().join("static");
    process::run(Command::new("cc").arg("-static").arg(&source).arg("-o").arg(&program))?;
    let unit = process::root().join("crates/fonio-sqlite-sync/fonio-sync-policy.service");
    let options = SystemOptions {
        packages: ["sqlite3", "python3"].map(str::to_owned).to_vec(),
        ..SystemOptions::default()
    };
    in_debian("A sync policy", &options, |steps| {
        ok(steps.system, "mkdir -p /usr/lib/fonio")?;
        for (file, place) in [
            (&fonio, "/usr/bin/fonio"),
            (&library, "/usr/lib/fonio/libfonio_sqlite_sync.so"),
            (&unit, "/usr/lib/systemd/system/fonio-sync-policy.service"),
            (&program, "/usr/local/bin/static"),
        ] {
            steps.system.put(file, place)?;
        }
        ok(steps.system, "chmod 755 /usr/local/bin/static")?;
        ok(steps.system, PREPARE)?;
        all(steps)
    })
}

/// Returns the number of rows in each of the two databases. They are read without the library.
fn rows(steps: &mut Steps<'_, '_>) -> Result<[u64; 2]> {
    let said = text(steps.system, ROWS)?;
    let rows: Vec<u64> = said.lines().filter_map(|line| line.parse().ok()).collect();
    let [notes, cache] = rows[..] else { bail!("expected two row counts: {said}") };
    println!("  notes has {notes} rows, cache has {cache}");
    Ok([notes, cache])
}

fn all(steps: &mut Steps<'_, '_>) -> Result<()> {
    let before = text(steps.system, FILES)?;
    let (code, said) = steps.line("fonio fix apply sync-policy app.service")?;
    let is_refused = code != 0 && said.contains("cannot read the policy");
    steps.promise("without a policy, the fix is refused", is_refused, "");
    ok(steps.system, POLICY)?;
    for (unit, why) in [("suid", "is a set-user-ID program"), ("static", "is statically linked")] {
        let (code, said) = steps.line(&format!("fonio fix apply sync-policy {unit}.service"))?;
        steps.promise("the fix is refused with the reason", code != 0 && said.contains(why), "");
    }
    let now = text(steps.system, FILES)?;
    steps.promise("nothing was written", now == before, &now);
    steps.line("fonio sync-policy check")?;
    let (code, _) = steps.line("fonio fix apply sync-policy app.service --keep")?;
    steps.promise("it is kept", code == 0, "");
    steps.line("systemctl cat app.service | sed -n '/fonio/,$p'")?;
    ok(steps.system, "systemctl restart app.service && sleep 3")?;
    let maps = "grep -l libfonio_sqlite_sync /proc/$(systemctl show -P MainPID app.service)/maps";
    let has_library = text(steps.system, maps).is_ok();
    steps.promise("the program has loaded the library", has_library, "");
    let marker = "cat /srv/app/cache.db-fonio-boot /proc/sys/kernel/random/boot_id | uniq | wc -l";
    steps.step((marker, "1", "the cache is marked with this boot"));
    ok(steps.system, "systemctl kill -s KILL app.service; sleep 1")?;
    let killed = rows(steps)?;
    ok(steps.system, "systemctl reset-failed app.service; systemctl restart app.service; sleep 3")?;
    let after = rows(steps)?;
    steps.promise("after kill -9 nothing is lost", after[0] >= killed[0] && after[1] >= killed[1], "");
    steps.reboot()?;
    steps.line(
        "journalctl -b -1 -u fonio-sync-policy -o cat; journalctl -b -u fonio-sync-policy -u app -o cat",
    )?;
    let rebooted = rows(steps)?;
    let is_complete = rebooted[0] >= after[0] && rebooted[1] >= after[1];
    steps.promise("after a clean reboot nothing is lost", is_complete, "");
    println!("\n(power cut)");
    steps.system.cut();
    steps.system.power_on()?;
    ok(steps.system, "systemctl is-system-running --wait; sleep 2")?;
    let (_, said) = steps.line("journalctl -b -u fonio-sync-policy -u app -o cat")?;
    let is_told = said.contains("removed /srv/app/cache.db");
    steps.promise("the unit says that it removed the cache", is_told, "");
    let cut = rows(steps)?;
    // At most the rows of one window may be missing. There are five rows per second.
    steps.promise("the ordered database lacks only the last rows", cut[0] + 10 >= rebooted[0], "");
    steps.promise("the cache is new", cut[1] < rebooted[1], "");
    let (code, _) = steps.line("fonio fix undo")?;
    steps.promise("it is undone", code == 0, "");
    let now = text(steps.system, FILES)?;
    steps.promise("the files are identical to before", now == before, &now);
    ok(steps.system, "systemctl restart app.service; sleep 2")?;
    let has_library = text(steps.system, maps).is_ok();
    steps.promise("the program has not loaded the library", !has_library, "");
    Ok(())
}
