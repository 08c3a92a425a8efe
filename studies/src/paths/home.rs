//! The path of a home server: MariaDB, Mosquitto, Home Assistant's recorder and a nightly rsync on one emulated card,
//! in a complete Debian guest with the scheduler that Debian chooses. The watch runs before the fix and after the reboot.
//!
//! The truth is measured without fonio, by the time for which the three services waited for storage (the kernel's
//! pressure stall information): without the copy, with the copy, and, after all fixes are undone, in turns with the
//! kept fix set by hand. The guest's processor is emulated, so the times of transactions also contain much time of the
//! processor; the pressure does not.

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
const FILES: [(&str, &str); 8] = [
    ("setup.sh", include_str!("home/setup.sh")),
    ("orders.py", include_str!("home/orders.py")),
    ("sensors.sh", include_str!("home/sensors.sh")),
    ("nightly.sh", include_str!("home/nightly.sh")),
    ("ready.sh", include_str!("home/ready.sh")),
    ("pressure.sh", include_str!("home/pressure.sh")),
    ("configuration.yaml", include_str!("home/configuration.yaml")),
    ("core.config_entries", include_str!("home/core.config_entries")),
];
/// The copy is the cause if the services wait at least this multiple of their time without the copy.
const DELAYED_FROM: f64 = 2.0;
/// A fix by hand helps if the services wait at most this share of their time.
const HELPS_TO: f64 = 0.8;
const COPY: &str = "nightly.service";
/// The files that a kept fix may change, the class of the copy, the scheduler and the limits for dirty pages.
const STATE: &str = "find /etc /var/lib/fonio -type f ! -path '/var/lib/fonio/checks/*' ! -path '/var/lib/fonio/watch/*' \
    ! -path /var/lib/fonio/trials.json -print0 | sort -z | xargs -0r sha256sum; \
    systemctl show nightly -p IOSchedulingClass; cat /sys/block/sda/queue/scheduler; sysctl -a -r '^vm.dirty'";
/// The line that makes the tried setting by hand, and the line that takes it back, with the first word of the fix's
/// name.
const BY_HAND: [(&str, &str, &str); 4] = [
    ("io-rate", "sh rate.sh $(cat rate)", "sh rate.sh infinity"),
    ("bfq", "echo bfq >/sys/block/sda/queue/scheduler", "echo mq-deadline >/sys/block/sda/queue/scheduler"),
    (
        "dirty-limit",
        "sysctl -q -w vm.dirty_bytes=16777216 vm.dirty_background_bytes=8388608",
        "sysctl -q -w vm.dirty_ratio=20 vm.dirty_background_ratio=10",
    ),
    ("io-class", "sh class.sh 3", "sh class.sh 0"),
];
const CLASS: &str = "for pid in $(cat /sys/fs/cgroup/system.slice/nightly.service/cgroup.procs); do ionice -c $1 -p $pid; done\n";
/// Limits the reads and writes of the copy on the card as the kept fix did, without a reboot.
const RATE: &str = "systemctl set-property --runtime nightly IOReadBandwidthMax=\"/dev/sda $1\" IOWriteBandwidthMax=\"/dev/sda $1\"";
/// Rounds of measurements with and without the fix by hand, and the seconds before and in each.
const ROUNDS: usize = 3;
const SETTLE_S: u32 = 20;
const MEASURE_S: u32 = 30;
/// The time for the watch before the fix and after the reboot.
const WATCHED: Duration = Duration::from_secs(620);

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
    let ready = run(system, "chmod 755 /usr/local/bin/fonio; sh setup.sh")?;
    ensure!(ready.code == 0, "the home server does not start: {}", ready.text);
    let alone = pressure(system, "true")?;
    println!("  the services wait for storage {alone:.0} ms in a second");
    let watch = run(system, "fonio watch install || { journalctl --no-pager -u fonio-watch; exit 1; }")?;
    ensure!(watch.code == 0, "the watch does not start: {}", watch.text);
    println!("  {}", watch.text.trim());
    let since = Instant::now();
    let during = pressure(system, "systemctl start nightly; sleep 60")?;
    println!("  {during:.0} ms during the copy");
    wait_until(since, WATCHED)?;
    let before = run(system, STATE)?;
    ensure!(before.code == 0 && before.text.contains("IOSchedulingClass"), "no state: {}", before.text);
    let mut person = Person::new(|line: &str| run(system, line));
    let cure = person.types("fonio cure --yes")?;
    let is_kept = cure.flowing().contains(KEPT);
    let fixed = is_kept.then(|| person.passed());
    let (mut ended, mut typed, mut words) = (person.passed(), person.typed, person.words);
    drop(person);
    let mut gain = None;
    if is_kept {
        system.reboot()?;
        let ready = run(system, "sh ready.sh")?;
        ensure!(ready.code == 0, "the home server does not start again: {}", ready.text);
        println!("  rebooted");
        wait_until(Instant::now(), WATCHED)?;
        gain = Some(Gain::read(&run(system, "fonio watch status --json")?.text)?);
        let mut person = Person::new(|line: &str| run(system, line));
        person.types("fonio watch status")?;
        person.types("fonio fix undo")?;
        (ended, typed, words) = (ended + person.passed(), typed + person.typed, words + person.words);
    }
    let after = run(system, STATE)?;
    let by_hand = by_hand(system, &cure)?;
    let truth = Truth { alone, during, by_hand };
    let watched = gain.as_ref().map_or_else(String::new, Gain::sentence);
    Ok(Walked {
        ended,
        fixed,
        typed,
        words,
        verdict: Some(truth.verdict(&cure)),
        fix: Some(truth.fix(&cure, gain.as_ref())),
        as_before: same(&before.text, &after.text),
        shown: format!("{}{watched} (a guest, Linux {kernel})", truth.sentence()),
    })
}

/// Runs a line in the guest's `/root`.
fn run(system: &mut System<'_>, line: &str) -> Result<Said> {
    let out = system.run(&["sh", "-c", &format!("exec 2>&1\ncd /root\n{line}")])?;
    Ok(Said { code: i32::from(out.code), text: String::from_utf8_lossy(&out.stdout).into_owned() })
}

fn wait_until(since: Instant, time: Duration) -> Result<()> {
    while since.elapsed() < time {
        process::check_signals()?;
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

/// Returns for how many milliseconds in a second the services wait for storage, some time after the line has run.
fn pressure(system: &mut System<'_>, first: &str) -> Result<f64> {
    let said = run(system, &format!("{first}; sleep {SETTLE_S}; sh pressure.sh {MEASURE_S}"))?;
    said.text.trim().parse().with_context(|| format!("no pressure: {}", said.text))
}

/// Measures without the fix and with it, set by hand, in turns. Returns the name of the fix and the two means.
fn by_hand(system: &mut System<'_>, cure: &Said) -> Result<(&'static str, f64, f64)> {
    let text = cure.flowing();
    let kept = |fix: &str| text.split(KEPT).nth(1).is_some_and(|rest| rest.trim_start().starts_with(fix));
    let (name, set, unset) = BY_HAND.into_iter().find(|(name, ..)| kept(name)).unwrap_or(BY_HAND[0]);
    let rate = limit(&text).unwrap_or_default();
    run(system, &format!("printf '{CLASS}' >class.sh; printf '%s' '{RATE}' >rate.sh; echo {rate} >rate"))?;
    let mut sums = [0.0; 2];
    for round in 0..ROUNDS {
        for line in [unset, set] {
            let at = usize::from(line == set);
            let found = pressure(system, line)?;
            println!("  round {}, by hand: {line}: {found:.0} ms", round + 1);
            sums[at] += found / ROUNDS as f64;
        }
    }
    run(system, unset)?;
    Ok((name, sums[0], sums[1]))
}

/// Returns the first limit in the text of a cure, in bytes per second.
fn limit(text: &str) -> Option<u64> {
    let number = text.split("io-rate=").nth(1)?.split("MiB").next()?;
    Some(number.parse::<u64>().ok()? << 20)
}

/// The words before the name of the kept fix.
const KEPT: &str = "Kept. `fonio fix undo";

/// What the services waited for storage, in milliseconds in a second, measured without fonio.
struct Truth {
    alone: f64,
    during: f64,
    /// The name of a fix, and what the services waited without it and with it.
    by_hand: (&'static str, f64, f64),
}

impl Truth {
    fn verdict(&self, cure: &Said) -> Answer {
        let text = cure.flowing();
        let names_copy = text.contains(&format!("came from rsync ({COPY})"));
        match self.during >= DELAYED_FROM * self.alone {
            true if names_copy => Ok(()),
            true => wrong("the copy delays the services, and the cause does not name it"),
            false if names_copy => wrong("the copy does not delay the services much, and the cause names it"),
            false => Ok(()),
        }
    }

    fn fix(&self, cure: &Said, gain: Option<&Gain>) -> Answer {
        let (name, without, with) = self.by_hand;
        let helps = with <= HELPS_TO * without;
        let is_kept = cure.flowing().contains(KEPT);
        match (is_kept, helps) {
            (true, true) if gain.is_some_and(|gain| gain.since < gain.before) => Ok(()),
            (true, true) => wrong("the fix helps by hand, and the watch reports no gain"),
            (true, false) => wrong("a fix was kept that does not help by hand"),
            (false, true) => wrong(&format!("no fix was kept, and {name} helps by hand")),
            (false, false) => wrong(&format!("no fix was kept; {name} does not help by hand either")),
        }
    }

    fn sentence(&self) -> String {
        let (name, without, with) = self.by_hand;
        format!(
            "the services wait for storage {:.0} ms in a second, {:.0} ms during the copy; by hand, {name}: {without:.0} → \
             {with:.0} ms",
            self.alone, self.during
        )
    }
}

/// What the watch reports of a kept fix: the seconds for which programs were blocked in an hour.
struct Gain {
    before: f64,
    since: f64,
}

impl Gain {
    fn read(status: &str) -> Result<Gain> {
        let status: serde_json::Value = serde_json::from_str(status).context("the watch's status")?;
        let kept = &status["kept"][0];
        let figure = |span: &str| {
            let found = kept[span]["blocked_s_per_hour"].as_f64();
            found.with_context(|| format!("the watch does not know the time {span}: {kept}"))
        };
        Ok(Gain { before: figure("before")?, since: figure("since")? })
    }

    fn sentence(&self) -> String {
        format!("; the watch: programs blocked {:.0} → {:.0} s an hour", self.before, self.since)
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
        let kept = format!("{named} Kept. `fonio fix undo bfq` undoes it.");
        let better = Gain { before: 60.0, since: 20.0 };
        for (alone, during, with, text, gain, verdict, fix) in [
            (20.0, 100.0, 40.0, kept.as_str(), Some(&better), true, true),
            (20.0, 100.0, 40.0, kept.as_str(), None, true, false),
            (20.0, 100.0, 95.0, kept.as_str(), Some(&better), true, false),
            (20.0, 100.0, 40.0, named, None, true, false),
            (20.0, 100.0, 40.0, "from mariadbd (mariadb.service)", None, false, false),
            (20.0, 25.0, 24.0, named, None, false, false),
        ] {
            let truth = Truth { alone, during, by_hand: ("bfq", during, with) };
            assert_eq!(truth.verdict(&said(text)).is_ok(), verdict, "{text}");
            assert_eq!(truth.fix(&said(text), gain).is_ok(), fix, "{text}");
        }
    }

    #[test]
    fn the_limit_is_read() {
        assert_eq!(limit("1. fonio fix apply io-rate=5MiB nightly.service"), Some(5 << 20));
        assert_eq!(limit("1. fonio fix apply bfq /dev/sda"), None);
    }

    #[test]
    fn the_gain_is_read_from_the_status() {
        let status = r#"{"kept": [{"fix": "bfq", "before": {"blocked_s_per_hour": 60.5}, "since": {"blocked_s_per_hour": 2.0}}]}"#;
        let gain = Gain::read(status).expect("it has both");
        assert_eq!(gain.sentence(), "; the watch: programs blocked 60 → 2 s an hour");
        let unknown = r#"{"kept": [{"fix": "bfq", "before": null, "since": {"blocked_s_per_hour": 2.0}}]}"#;
        assert!(Gain::read(unknown).is_err() && Gain::read("{}").is_err());
    }

    #[test]
    fn the_scripts_are_valid_shell() {
        for (name, text) in FILES.iter().filter(|(name, _)| name.ends_with(".sh")) {
            let out = Command::new("sh").args(["-n", "-c", text]).output().expect("sh");
            assert!(out.status.success(), "{name}: {}", String::from_utf8_lossy(&out.stderr));
        }
    }
}
