//! The path of a home server: MariaDB, Mosquitto, Home Assistant's recorder and a nightly rsync on one emulated card,
//! in a complete Debian guest.
//!
//! The truth is measured without fonio, by the time that MariaDB needs for an order: without the copy, with the copy,
//! and with the copy's I/O class set to idle by hand.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use fonio_lab::{Archive, System, SystemOptions};
use rustix::process::{Pid, Signal, kill_process};

use super::quiet::same;
use super::typed::{Person, Said};
use super::{Answer, Outcome, Walk, Walked, wrong};
use crate::{process, tools};

const CARD: &str = "sd_a1";
const PACKAGES: [&str; 5] = ["mosquitto", "mosquitto-clients", "mariadb-server", "rsync", "python3"];
/// Home Assistant as PyPI has it. The other packages are those that it would install at its first start; `josepy` 2
/// does not fit to it.
const PYTHON_PACKAGES: [&str; 7] = [
    "homeassistant==2025.3.4",
    "home-assistant-frontend==20250306.0",
    "SQLAlchemy==2.0.38",
    "fnv-hash-fast==1.2.6",
    "psutil-home-assistant==0.0.1",
    "paho-mqtt==2.1.0",
    "josepy<2",
];
const IMAGE: &str = "home-assistant-2025.3.4.img";
/// The files in the guest's `/root`.
const FILES: [(&str, &str); 7] = [
    ("setup.sh", include_str!("home/setup.sh")),
    ("orders.py", include_str!("home/orders.py")),
    ("sensors.sh", include_str!("home/sensors.sh")),
    ("nightly.sh", include_str!("home/nightly.sh")),
    ("latency.sh", include_str!("home/latency.sh")),
    ("configuration.yaml", include_str!("home/configuration.yaml")),
    ("core.config_entries", include_str!("home/core.config_entries")),
];
/// The copy is the cause if an order takes at least this multiple of its time without the copy.
const DELAYED_FROM: f64 = 2.0;
/// A fix by hand helps if an order takes at most this share of its time.
const HELPS_TO: f64 = 0.8;
const COPY: &str = "nightly.service";
/// The files that a kept fix may change, and the class of the copy.
const STATE: &str = "find /etc /var/lib/fonio -type f ! -path '/var/lib/fonio/checks/*' \
    ! -path /var/lib/fonio/trials.json -print0 | sort -z | xargs -0r sha256sum; \
    systemctl show nightly -p IOSchedulingClass; cat /sys/block/sda/queue/scheduler";
const SET_CLASS: &str =
    "for pid in $(cat /sys/fs/cgroup/system.slice/nightly.service/cgroup.procs); do ionice -c";

pub fn walk(walk: &Walk<'_>) -> Result<Outcome> {
    tools::ensure(&[tools::SYSTEM_GUEST])?;
    let image = match home_assistant(&walk.folder("needs")?) {
        Ok(image) => image,
        Err(error) => return Ok(Outcome::Skipped(format!("Home Assistant cannot be had: {error:#}"))),
    };
    let stop = process::outlive_signals()?;
    let place = tempfile::tempdir()?;
    let card = Card::serve(walk.fonio, &place.path().join("card"))?;
    let archive = Archive::open()?;
    let options = SystemOptions {
        packages: PACKAGES.map(str::to_owned).to_vec(),
        memory_mib: 2048,
        served: vec![card.socket.clone()],
        images: vec![image],
        ..SystemOptions::default()
    };
    let mut system = System::start(&archive, &options, &|text| eprintln!("{text}"), &stop)?;
    let stripped = fonio_lab::stripped(walk.fonio, &place.path().join("fonio"))?;
    system.put(&stripped, "/usr/local/bin/fonio")?;
    for (name, text) in FILES {
        let file = place.path().join(name);
        fs::write(&file, text)?;
        system.put(&file, &format!("/root/{name}"))?;
    }
    let outcome = in_guest(&mut system)?;
    system.stop()?;
    Ok(Outcome::Walked(outcome))
}

fn in_guest(system: &mut System<'_>) -> Result<Walked> {
    let kernel = system.release().to_owned();
    let mut run = |line: &str| {
        let out = system.run(&["sh", "-c", &format!("exec 2>&1\ncd /root\n{line}")])?;
        Ok(Said { code: i32::from(out.code), text: String::from_utf8_lossy(&out.stdout).into_owned() })
    };
    let ready = run("chmod 755 /usr/local/bin/fonio; sh setup.sh")?;
    ensure!(ready.code == 0, "the home server does not start: {}", ready.text);
    let truth = Truth::measure(&mut run)?;
    println!(
        "  an order takes {:.0} ms; {:.0} ms during the copy; {:.0} ms if its I/O class is idle",
        truth.alone, truth.during, truth.idle
    );
    let before = run(STATE)?;
    let mut person = Person::new(&mut run);
    let cure = person.types("fonio cure --yes")?;
    let is_kept = cure.flowing().contains("Kept. `fonio fix undo");
    let fixed = is_kept.then(|| person.passed());
    let fix = truth.fix(&cure);
    if is_kept {
        person.types("fonio fix undo")?;
    }
    let (ended, typed, words) = (person.passed(), person.typed, person.words);
    drop(person);
    let after = run(STATE)?;
    ensure!(before.code == 0 && before.text.contains("IOSchedulingClass"), "no state: {}", before.text);
    Ok(Walked {
        ended,
        fixed,
        typed,
        words,
        verdict: Some(truth.verdict(&cure)),
        fix: Some(fix),
        as_before: same(&before.text, &after.text),
        shown: format!(
            "by hand, an order takes {:.0} ms, {:.0} ms during the copy, {:.0} ms with its I/O class idle (a guest, \
             Linux {kernel})",
            truth.alone, truth.during, truth.idle
        ),
    })
}

/// The mean time of an order in milliseconds, measured without fonio.
struct Truth {
    alone: f64,
    during: f64,
    idle: f64,
}

impl Truth {
    /// Measures, and leaves the copy running in its usual class.
    fn measure(run: &mut impl FnMut(&str) -> Result<Said>) -> Result<Truth> {
        let mut mean = |first: &str| -> Result<f64> {
            let said = run(&format!("{first}; sleep 15; sh latency.sh 40"))?;
            said.text.trim().parse().with_context(|| format!("no time of an order: {}", said.text))
        };
        let alone = mean("true")?;
        let during = mean("systemctl start nightly")?;
        let idle = mean(&format!("{SET_CLASS} 3 -p $pid; done"))?;
        mean(&format!("{SET_CLASS} 0 -p $pid; done"))?;
        Ok(Truth { alone, during, idle })
    }

    fn verdict(&self, cure: &Said) -> Answer {
        let text = cure.flowing();
        let names_copy = text.contains(&format!("came from rsync ({COPY})"));
        match self.during >= DELAYED_FROM * self.alone {
            true if names_copy => Ok(()),
            true => wrong("the copy delays the orders, and the cause does not name it"),
            false if names_copy => wrong("the copy does not delay the orders much, and the cause names it"),
            false => Ok(()),
        }
    }

    fn fix(&self, cure: &Said) -> Answer {
        let text = cure.flowing();
        let helps = self.idle <= HELPS_TO * self.during;
        let is_kept = text.contains("Kept. `fonio fix undo");
        match (is_kept, helps) {
            (true, true) => Ok(()),
            (true, false) => wrong("a fix was kept that does not help by hand"),
            (false, true) => wrong("no fix was kept, and the I/O class idle helps by hand"),
            (false, false) => wrong("no fix was kept; the one on offer does not help by hand either"),
        }
    }
}

/// Installs Home Assistant from PyPI, and makes an image with its packages for the guest's Python.
fn home_assistant(needs: &Path) -> Result<PathBuf> {
    let image = needs.join(IMAGE);
    if image.exists() {
        return Ok(image);
    }
    println!("  Installing Home Assistant in {}", needs.display());
    let packages = needs.join("packages");
    let mut pip = Command::new("python3.13");
    pip.args(["-m", "pip", "install", "--quiet", "--upgrade", "--target"]).arg(&packages);
    process::output(pip.args(PYTHON_PACKAGES).stdin(Stdio::null()))
        .context("install Python 3.13, the version of Debian 13")?;
    let made = needs.join("image.part");
    fs::File::create(&made)?.set_len(1200 << 20)?;
    let mut mke2fs = Command::new("mke2fs");
    mke2fs.args(["-q", "-F", "-t", "ext4", "-O", "^has_journal", "-d"]).arg(&packages).arg(&made);
    process::output(&mut mke2fs)?;
    fs::rename(&made, &image)?;
    Ok(image)
}

/// A server of an emulated card. It ends when this value is dropped.
struct Card {
    server: Child,
    socket: PathBuf,
}

impl Card {
    fn serve(fonio: &Path, socket: &Path) -> Result<Card> {
        let mut command = Command::new(fonio);
        command.args(["device", "emulate", CARD, "--size", "2GiB", "--nbd"]).arg(socket);
        let server =
            command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().context("cannot start fonio")?;
        let mut card = Card { server, socket: socket.to_owned() };
        let began = Instant::now();
        while !socket.exists() {
            ensure!(card.server.try_wait()?.is_none(), "the emulated card ended at once");
            ensure!(began.elapsed() < Duration::from_secs(60), "the emulated card does not start");
            process::check_signals()?;
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(card)
    }
}

impl Drop for Card {
    fn drop(&mut self) {
        let pid = Pid::from_child(&self.server);
        // It may have ended already.
        let _ = kill_process(pid, Signal::TERM);
        let _ = self.server.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_compared_with_the_truth() {
        let said = |text: &str| Said { code: 0, text: text.to_owned() };
        let named = "39.7 % of the outstanding I/O on sda came from rsync\n (nightly.service).";
        let kept = format!("{named} Kept. `fonio fix undo io-class` undoes it.");
        for (truth, text, verdict, fix) in [
            ((20.0, 100.0, 40.0), kept.as_str(), true, true),
            ((20.0, 100.0, 95.0), kept.as_str(), true, false),
            ((20.0, 100.0, 40.0), named, true, false),
            ((20.0, 100.0, 40.0), "from mariadbd (mariadb.service)", false, false),
            ((20.0, 25.0, 24.0), named, false, false),
        ] {
            let (alone, during, idle) = truth;
            let truth = Truth { alone, during, idle };
            assert_eq!(truth.verdict(&said(text)).is_ok(), verdict, "{text}");
            assert_eq!(truth.fix(&said(text)).is_ok(), fix, "{text}");
        }
    }

    #[test]
    fn the_scripts_are_valid_shell() {
        for (name, text) in FILES.iter().filter(|(name, _)| name.ends_with(".sh")) {
            let out = Command::new("sh").args(["-n", "-c", text]).output().expect("sh");
            assert!(out.status.success(), "{name}: {}", String::from_utf8_lossy(&out.stderr));
        }
    }
}
