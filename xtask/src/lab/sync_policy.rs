//! `cargo xtask lab test sync-policy`: the fix and its units in a complete Debian, over a clean reboot and a
//! power cut.

use std::process::Command;

use anyhow::{Result, ensure};
use fonio_lab::{Archive, System, SystemOptions};

use crate::lab::system::{ok, text};
use crate::process;

/// A unit that keeps an ordered database and a cache open, and programs into which nothing can be preloaded.
const PREPARE: &str = r#"systemctl is-system-running --wait >/dev/null
set -e
chmod 755 /usr/bin/fonio
mkdir -p /etc/fonio /srv/app
cat >/srv/app/app.py <<END
import sqlite3, time
notes = sqlite3.connect('/srv/app/notes.db', isolation_level=None)
cache = sqlite3.connect('/srv/app/cache.db', isolation_level=None)
for db in (notes, cache):
    db.execute('PRAGMA journal_mode=WAL')
    db.execute('PRAGMA synchronous=FULL')
    db.execute('CREATE TABLE IF NOT EXISTS t (x)')
while True:
    for db in (notes, cache):
        db.execute('INSERT INTO t VALUES (1)')
    time.sleep(0.2)
END
cat >/etc/systemd/system/app.service <<END
[Service]
ExecStart=/usr/bin/python3 /srv/app/app.py
[Install]
WantedBy=multi-user.target
END
cp /usr/bin/python3 /usr/local/bin/suid && chmod 4755 /usr/local/bin/suid
for other in suid static; do
    printf '[Service]\nExecStart=/usr/local/bin/%s -c 1\n' $other >/etc/systemd/system/$other.service
done
systemctl daemon-reload
systemctl enable --quiet --now app.service
sleep 2
"#;

const POLICY: &str = "cat >/etc/fonio/sync-policy.toml <<END
[[database]]
path = \"/srv/app/notes.db\"
class = \"ordered\"

[[database]]
path = \"/srv/app/cache.db\"
class = \"cache\"
END";

const ROWS: &str = "for db in notes cache; do sqlite3 /srv/app/$db.db 'SELECT count(*) FROM t'; done";
const FILES: &str = "for file in $(find /etc /run/systemd/system -type f 2>/dev/null | grep -v -e ^/etc/machine-id -e ^/etc/resolv.conf -e ^/etc/fonio | sort); do sha256sum $file; done";

pub fn run() -> Result<()> {
    let library = process::build_sync_library()?;
    process::run(process::cargo().args(["build", "--package", "fonio"]))?;
    let folder = tempfile::tempdir()?;
    // A program without a dynamic linker, for the refusal.
    let source = folder.path().join("static.c");
    std::fs::write(&source, "int main(void){return 0;}\n")?;
    let program = folder.path().join("static");
    process::run(Command::new("cc").arg("-static").arg(&source).arg("-o").arg(&program))?;
    let unit = process::root().join("crates/fonio-sqlite-sync/fonio-sync-policy.service");
    let stop = process::outlive_signals()?;
    let archive = Archive::open()?;
    let options = SystemOptions {
        packages: ["sqlite3", "python3"].map(str::to_owned).to_vec(),
        ..SystemOptions::default()
    };
    let mut system = System::start(&archive, &options, &|text| eprintln!("{text}"), &stop)?;
    println!("In Debian with Linux {}:", system.release());
    ok(&mut system, "mkdir -p /usr/lib/fonio")?;
    system.put(&process::target().join("debug/fonio"), "/usr/bin/fonio")?;
    system.put(&library, "/usr/lib/fonio/libfonio_sqlite_sync.so")?;
    system.put(&unit, "/usr/lib/systemd/system/fonio-sync-policy.service")?;
    system.put(&program, "/usr/local/bin/static")?;
    ok(&mut system, "chmod 755 /usr/local/bin/static")?;
    ok(&mut system, PREPARE)?;
    let mut steps = Steps { system: &mut system, broken: 0 };
    steps.all()?;
    let broken = steps.broken;
    system.stop()?;
    ensure!(broken == 0, "{broken} steps were not as promised");
    println!("\nEvery step was as promised.");
    Ok(())
}

struct Steps<'a, 'b> {
    system: &'a mut System<'b>,
    broken: u32,
}

impl Steps<'_, '_> {
    /// Runs a line, prints the line and its output; returns the exit code and the output.
    fn run(&mut self, line: &str) -> Result<(u8, String)> {
        process::check_signals()?;
        println!("\n$ {line}");
        let out = self.system.run(&["sh", "-c", &format!("{line} 2>&1")])?;
        let said = String::from_utf8_lossy(&out.stdout).into_owned();
        print!("{said}");
        Ok((out.code, said))
    }

    fn check(&mut self, what: &str, holds: bool) {
        self.broken += u32::from(!holds);
        println!("  [{}] {what}", if holds { "yes" } else { "NO *" });
    }

    /// The rows of both databases, without the library.
    fn rows(&mut self) -> Result<[u64; 2]> {
        let said = text(self.system, ROWS)?;
        let rows: Vec<u64> = said.lines().filter_map(|line| line.parse().ok()).collect();
        ensure!(rows.len() == 2, "not two numbers of rows: {said}");
        println!("  notes has {} rows, cache has {}", rows[0], rows[1]);
        Ok([rows[0], rows[1]])
    }

    fn all(&mut self) -> Result<()> {
        let before = text(self.system, FILES)?;
        let (code, said) = self.run("fonio fix apply sync-policy app.service")?;
        self.check("without a policy it is refused", code != 0 && said.contains("cannot read the policy"));
        ok(self.system, POLICY)?;
        for (unit, why) in [("suid", "is a set-user-ID program"), ("static", "is linked statically")] {
            let (code, said) = self.run(&format!("fonio fix apply sync-policy {unit}.service"))?;
            self.check("it is refused with the reason", code != 0 && said.contains(why));
        }
        let now = text(self.system, FILES)?;
        self.check("nothing was written", now == before);
        self.run("fonio sync-policy check")?;
        let (code, _) = self.run("fonio fix apply sync-policy app.service --keep")?;
        self.check("it is kept", code == 0);
        self.run("systemctl cat app.service | sed -n '/fonio/,$p'")?;
        ok(self.system, "systemctl restart app.service && sleep 3")?;
        let maps = "grep -l libfonio_sqlite_sync /proc/$(systemctl show -P MainPID app.service)/maps";
        let has_library = text(self.system, maps).is_ok();
        self.check("the program has the library", has_library);
        let marker = "cat /srv/app/cache.db-fonio-boot /proc/sys/kernel/random/boot_id | uniq | wc -l";
        let different = text(self.system, marker)?;
        self.check("the cache is marked with this boot", different == "1");
        ok(self.system, "systemctl kill -s KILL app.service; sleep 1")?;
        let killed = self.rows()?;
        ok(self.system, "systemctl reset-failed app.service; systemctl restart app.service; sleep 3")?;
        let after = self.rows()?;
        self.check("after kill -9 nothing is lost", after[0] >= killed[0] && after[1] >= killed[1]);
        println!("\n$ reboot");
        self.system.reboot()?;
        ok(self.system, "systemctl is-system-running --wait; sleep 2")?;
        self.run(
            "journalctl -b -1 -u fonio-sync-policy -o cat; journalctl -b -u fonio-sync-policy -u app -o cat",
        )?;
        let rebooted = self.rows()?;
        self.check(
            "after a clean reboot nothing is lost",
            rebooted[0] >= after[0] && rebooted[1] >= after[1],
        );
        println!("\n(power cut)");
        self.system.cut();
        self.system.power_on()?;
        ok(self.system, "systemctl is-system-running --wait; sleep 2")?;
        let (_, said) = self.run("journalctl -b -u fonio-sync-policy -u app -o cat")?;
        self.check("the unit says that it removed the cache", said.contains("removed /srv/app/cache.db"));
        let cut = self.rows()?;
        // The rows of one window: there are five a second.
        self.check("the ordered database has all but the last rows", cut[0] + 10 >= rebooted[0]);
        self.check("the cache is new", cut[1] < rebooted[1]);
        let (code, _) = self.run("fonio fix undo")?;
        self.check("it is undone", code == 0);
        let now = text(self.system, FILES)?;
        self.check("the files are byte for byte as before", now == before);
        ok(self.system, "systemctl restart app.service; sleep 2")?;
        let has_library = text(self.system, maps).is_ok();
        self.check("the program has no library", !has_library);
        Ok(())
    }
}
