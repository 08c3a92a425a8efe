//! Tests the test bed as root, on a real kernel.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::num::NonZeroU32;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fonio_core::ByteCount;
use fonio_host::{
    Confined, CpuLimit, CpuShare, Filesystem, HostError, Ledger, Limits, Link, LinkRates, LoopDevice,
    LoopOptions, OpenWatch, Queue, Setting, Settings, Undone, borrow_scheduler, borrow_setting, mount,
    mount_tmpfs, mounts_under, trim, trim_plan,
};
use fonio_system::ProcessId;
use fonio_testing::{Need, has, skip, skip_part, skip_without};

#[track_caller]
fn can() -> bool {
    has(&[Need::Root, Need::Loop])
}

/// Returns whether the loop device no longer has its backing file in `dir`. Another test may already reuse
/// the device's number.
fn is_free(node: &Path, dir: &Path) -> bool {
    let loop_device = Path::new("/sys/block").join(node.file_name().expect("name"));
    let below = fs::read_to_string(loop_device.join("loop/backing_file")).unwrap_or_default();
    !Path::new(&below).starts_with(dir)
}

fn image(dir: &Path, mib: u64) -> std::path::PathBuf {
    let path = dir.join("image");
    File::create(&path).and_then(|file| file.set_len(mib << 20)).expect("image");
    path
}

#[test]
fn a_file_system_comes_and_goes_with_the_ledger() {
    if !can() || !has(&[Need::Mkfs]) {
        return;
    }
    let dir = tempfile::tempdir().expect("dir");
    let state = dir.path().join("state");
    for filesystem in Filesystem::ALL {
        if let Err(error) = filesystem.check_kernel() {
            skip_part(Need::Filesystems, error);
            continue;
        }
        let mut ledger = Ledger::open(&state).expect("ledger");
        let backing = image(dir.path(), 512);
        let device = LoopDevice::attach(&mut ledger, &backing, &LoopOptions::default()).expect("loop");
        let node = device.path().to_owned();
        match filesystem.make(&node) {
            Err(error @ (HostError::ProgramMissing { .. } | HostError::FileMissing { .. })) => {
                skip_part(Need::Filesystems, error);
                continue;
            }
            made => made.expect("mkfs"),
        }
        let (mounted, _) = mount(&mut ledger, &node, filesystem, None, "").expect("mount");
        fs::write(mounted.join("file"), b"content").expect("write");
        let links = std::os::unix::fs::symlink("file", mounted.join("link")).is_ok();
        assert_eq!(links, filesystem.has_unix_files(), "{filesystem}");
        let busy = fonio_host::check_empty(&node, fonio_host::Confirmation::NamedTwice);
        assert!(matches!(busy, Err(HostError::InUse { .. })));
        ledger.close().expect("everything can be undone");
        assert!(!mounted.exists());
        assert!(is_free(&node, dir.path()));
        assert_eq!(fs::read_dir(&state).expect("state").count(), 0);
        assert!(mounts_under(dir.path()).expect("mounts").is_empty());
    }
}

#[test]
fn a_depth_of_four_is_a_depth_of_four() {
    if !can() {
        return;
    }
    let dir = tempfile::tempdir().expect("dir");
    let mut ledger = Ledger::open(&dir.path().join("state")).expect("ledger");
    let backing = image(dir.path(), 8);
    let device = LoopDevice::attach(&mut ledger, &backing, &LoopOptions::default()).expect("loop");
    let queue = device.queue();
    let scheduler = "mq-deadline";
    match queue.set_depth(4, scheduler) {
        Err(error @ HostError::NoScheduler { .. }) => return skip(Need::Scheduler, error),
        set => set.expect("depth"),
    }
    assert!(queue.set_request_max_kib(512).expect("size") == 512);
    let shown = fs::read_to_string(format!("/sys/block/{}/queue/scheduler", device.name())).expect("sysfs");
    assert!(shown.contains(&format!("[{scheduler}]")), "{shown}");
    device.detach(&mut ledger).expect("detach");
}

#[test]
fn a_borrowed_scheduler_comes_back_and_a_refused_one_is_forgotten() {
    if !can() {
        return;
    }
    let dir = tempfile::tempdir().expect("dir");
    let mut devices = Ledger::open(&dir.path().join("devices")).expect("ledger");
    let backing = image(dir.path(), 8);
    let device = LoopDevice::attach(&mut devices, &backing, &LoopOptions::default()).expect("loop");
    let queue = device.queue();
    let in_force = || queue.schedulers().expect("sysfs").0;
    queue.set_scheduler("none").expect("every device supports the scheduler none");
    let Err(HostError::NoScheduler { offered, .. }) = queue.set_scheduler("no-such") else {
        panic!("no scheduler has this name")
    };
    let Some(other) = offered.iter().find(|name| *name != "none") else {
        return skip(Need::Scheduler, "this kernel has only the scheduler none");
    };
    let mut ledger = Ledger::open(&dir.path().join("settings")).expect("ledger");
    borrow_scheduler(device.path(), other, &mut ledger).expect("it is offered");
    assert_eq!(in_force(), *other);
    ledger.close().expect("it can be undone");
    assert_eq!(in_force(), "none");
    let mut ledger = Ledger::open(&dir.path().join("settings")).expect("ledger");
    assert!(borrow_scheduler(device.path(), "no-such", &mut ledger).is_err());
    queue.set_scheduler(other).expect("it is offered");
    ledger.close().expect("there is nothing to undo");
    assert_eq!(in_force(), *other, "closing the ledger changed a scheduler that was not borrowed");
    drop(device);
    devices.close().expect("everything can be undone");
}

/// Tests recovery after a killed process has left a ledger and a mounted file system on a loop device.
#[test]
fn what_a_killed_process_left_is_undone_at_the_next_start() {
    if !can() || !has(&[Need::Mkfs]) {
        return;
    }
    if let Some(state) = std::env::var_os("FONIO_TEST_STATE") {
        return be_killed(Path::new(&state));
    }
    let dir = tempfile::tempdir().expect("dir");
    let state = dir.path().join("state");
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "what_a_killed_process_left_is_undone_at_the_next_start", "--nocapture"])
        .env("FONIO_TEST_STATE", &state)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("child");
    let mut said = String::new();
    let mut stderr = std::io::BufReader::new(child.stderr.take().expect("stderr"));
    std::io::BufRead::read_line(&mut stderr, &mut said).expect("line");
    let (node, mounted) = said.trim().split_once(' ').expect("device and mount");
    assert!(Path::new(mounted).join("file").exists());
    assert!(Ledger::recover(&state).expect("recover").undone.is_empty(), "its owner still runs");
    child.kill().expect("kill");
    child.wait().expect("wait");
    let recovery = Ledger::recover(&state).expect("recover");
    assert!(recovery.failed.is_empty(), "{recovery:?}");
    assert!(is_free(Path::new(node), dir.path()));
    assert!(mounts_under(dir.path()).expect("mounts").is_empty());
    assert_eq!(fs::read_dir(&state).expect("state").count(), 0, "{recovery:?}");
}

/// A device that another program has open is tried once, named with this program, and removed when the program
/// has ended.
#[test]
fn a_device_in_use_is_named_and_removed_later() {
    if !can() {
        return;
    }
    let dir = tempfile::tempdir().expect("dir");
    let (own, state) = (dir.path().join("own"), dir.path().join("state"));
    let mut ledger = Ledger::open(&own).expect("ledger");
    let backing = image(dir.path(), 16);
    let device = LoopDevice::attach(&mut ledger, &backing, &LoopOptions::default()).expect("loop");
    // The ledger of a process that has ended.
    fs::create_dir(&state).expect("mkdir");
    fs::set_permissions(&state, std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("chmod");
    let number: u32 = device
        .path()
        .to_str()
        .and_then(|path| path.strip_prefix("/dev/loop"))
        .expect("name")
        .parse()
        .expect("number");
    let step = fonio_host::Step::Loop { number, backing };
    let begin =
        format!("{{\"begin\":{{\"at\":0,\"step\":{}}}}}", serde_json::to_string(&step).expect("JSON"));
    let text = format!("{{\"owner\":{{\"pid\":4194303,\"started_ticks\":1}}}}\n{begin}\n");
    fs::write(state.join("4194303-0.ledger"), text).expect("write");

    let open = File::open(device.path()).expect("open");
    let mut user = Command::new("sleep").arg("600").stdin(open).spawn().expect("sleep");
    let first = Ledger::recover(&state).expect("recover");
    let named = format!("process {} (sleep) has the device open", user.id());
    assert!(first.failed.len() == 1 && first.failed[0].contains(&named), "{first:?}");
    let second = Ledger::recover(&state).expect("recover");
    assert!(
        second.failed.is_empty() && second.left.len() == 1 && second.left[0].contains(&named),
        "{second:?}"
    );
    user.kill().expect("kill");
    user.wait().expect("wait");
    let third = Ledger::recover(&state).expect("recover");
    assert_eq!(third.undone, [device.path().display().to_string()], "{third:?}");
    assert_eq!(fs::read_dir(&state).expect("state").count(), 0);
    ledger.close().expect("nothing is left");
}

/// A line that did not fit does not damage the ledger: later lines, such as the end of a step, are complete.
#[test]
fn a_full_file_system_does_not_damage_a_ledger() {
    if !has(&[Need::Root]) {
        return;
    }
    let dir = tempfile::tempdir().expect("dir");
    rustix::mount::mount("tmpfs", dir.path(), "tmpfs", rustix::mount::MountFlags::empty(), Some(c"size=32k"))
        .expect("tmpfs");
    let state = dir.path().join("state");
    let mut ledger = Ledger::open(&state).expect("ledger");
    let begin = |ledger: &mut Ledger, at: usize| {
        // Lines of different lengths end at different places of a page.
        let path = ledger.own_path(&format!("{}-{at}", "x".repeat(at % 97)));
        ledger.begin(fonio_host::Step::File { path })
    };
    let entries: Vec<_> = (0..4000).map_while(|at| begin(&mut ledger, at).ok()).collect();
    assert!(entries.len() > 100 && entries.len() < 4000, "{} steps fit", entries.len());
    for at in 4000..4100 {
        let _ = begin(&mut ledger, at);
    }
    let recovery = Ledger::recover(&state).expect("each line is complete");
    assert!(recovery.failed.is_empty() && recovery.undone.is_empty(), "its owner runs: {recovery:?}");
    ledger.close().expect("nothing is left");
    assert_eq!(fs::read_dir(&state).expect("state").count(), 0);
    rustix::mount::unmount(dir.path(), rustix::mount::UnmountFlags::empty()).expect("unmounted");
}

fn be_killed(state: &Path) {
    let mut ledger = Ledger::open(state).expect("ledger");
    let backing = ledger.own_path("image");
    ledger.begin(fonio_host::Step::File { path: backing.clone() }).expect("begin");
    File::create(&backing).and_then(|file| file.set_len(16 << 20)).expect("image");
    let device = LoopDevice::attach(&mut ledger, &backing, &LoopOptions::default()).expect("loop");
    Filesystem::Ext4.make(device.path()).expect("mkfs");
    let (mounted, _) = mount(&mut ledger, device.path(), Filesystem::Ext4, None, "").expect("mount");
    fs::write(mounted.join("file"), b"content").expect("write");
    assert!(ProcessId::own().runs());
    eprintln!("{} {}", device.path().display(), mounted.display());
    std::io::stderr().flush().expect("flush");
    loop {
        std::thread::park();
    }
}

#[test]
fn memory_is_mounted_and_gone_again() {
    if !can() {
        return;
    }
    let state = tempfile::tempdir().expect("dir");
    let mut ledger = Ledger::open(state.path()).expect("ledger");
    let (dir, _) = mount_tmpfs(&mut ledger, 1 << 20).expect("tmpfs");
    fs::write(dir.join("file"), vec![1; 100_000]).expect("fits");
    assert!(fs::write(dir.join("large"), vec![1; 2 << 20]).is_err(), "its size holds");
    ledger.close().expect("undone");
    assert!(!dir.exists());
}

#[test]
fn a_link_carries_bytes_and_goes() {
    skip_without!(Root);
    let state = tempfile::tempdir().expect("dir");
    let mut ledger = Ledger::open(state.path()).expect("ledger");
    let rates = LinkRates::named("usb").expect("it is there");
    let link = match Link::make(&mut ledger, rates) {
        Ok(link) => link,
        Err(error @ (HostError::ProgramMissing { .. } | HostError::ProgramFailed { .. })) => {
            return skip(Need::Namespace, error);
        }
        Err(error) => panic!("{error}"),
    };
    // Every Debian system has Perl.
    let script = "use IO::Socket::INET; my $s = IO::Socket::INET->new(Listen => 1, LocalPort => 9, ReuseAddr => 1); \
        my $c = $s->accept; print $c 'x' x 300000;";
    let mut server = link.command(Path::new("perl")).args(["-e", script]).spawn().expect("perl");
    let address = (link.server(), 9);
    let connected = (0..100).find_map(|_| {
        std::thread::sleep(Duration::from_millis(20));
        TcpStream::connect(address).ok()
    });
    let mounts_of = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/mnt")).expect("it runs");
    assert_eq!(mounts_of(&server.id().to_string()), mounts_of("self"), "the mount namespaces differ");
    let mut received = Vec::new();
    connected.expect("the server listens").read_to_end(&mut received).expect("bytes");
    server.wait().expect("it ends");
    assert_eq!(received.len(), 300_000);
    link.remove(&mut ledger).expect("removed");
    ledger.close().expect("undone");
    let left = format!("/run/netns/fonio-{}", std::process::id() % (1 << 15));
    assert!(!Path::new(&left).exists());
}

fn own_ext4(dir: &Path, ledger: &mut Ledger, options: &str) -> (LoopDevice, std::path::PathBuf) {
    let device = LoopDevice::attach(ledger, &image(dir, 32), &LoopOptions::default()).expect("loop");
    Filesystem::Ext4.make(device.path()).expect("mkfs");
    let (mounted, _) = mount(ledger, device.path(), Filesystem::Ext4, None, options).expect("mount");
    (device, mounted)
}

/// Returns the options of the mount at `dir` and of its file system, as shown by the kernel.
fn options(dir: &Path) -> (String, String) {
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    let line = mounts.lines().find(|line| line.contains(&format!(" {} ", dir.display()))).expect("a mount");
    let fields: Vec<&str> = line.split(' ').collect();
    let dash = fields.iter().position(|field| *field == "-").expect("a dash");
    (fields[5].to_owned(), fields[dash + 3].to_owned())
}

#[test]
fn settings_are_set_and_brought_back() {
    if !can() || !has(&[Need::Mkfs]) {
        return;
    }
    let dir = tempfile::tempdir().expect("dir");
    let state = dir.path().join("state");
    let mut ledger = Ledger::open(&state).expect("ledger");
    let (device, mounted) = own_ext4(dir.path(), &mut ledger, "nosuid,nodev,commit=7");
    let file = mounted.join("file");
    fs::write(&file, b"x").expect("write");
    let before = options(&mounted);
    let mut settings = Settings::open(&state).expect("settings");

    let mut planned = Vec::new();
    for (setting, path, old, new) in [
        ("noatime", &file, "relatime", "noatime"),
        ("commit-30s", &file, "7", "30"),
        ("lazytime", &file, "nolazytime", "lazytime"),
        ("mq-deadline", &device.path().to_owned(), "none", "mq-deadline"),
    ] {
        let setting = Setting::parse(setting).expect("a setting");
        let change = match setting.plan(path) {
            Err(error @ HostError::NoScheduler { .. }) => {
                skip_part(Need::Scheduler, error);
                continue;
            }
            planned => planned.expect("a plan"),
        };
        assert_eq!((change.old.as_str(), change.new.as_str()), (old, new));
        settings.apply(&change).expect("apply");
        // Planning the same setting again fails, because its value is already in force.
        assert!(matches!(setting.plan(path), Err(HostError::NotSettable { .. })));
        planned.push(change);
    }
    let during = options(&mounted);
    assert_eq!(during.0, before.0.replace("relatime", "noatime"));
    let without_lazy: Vec<&str> = during.1.split(',').filter(|option| *option != "lazytime").collect();
    assert_eq!(without_lazy.join(","), before.1.replace("commit=7", "commit=30"));

    // Another process can restore all settings from the record.
    drop(settings);
    let mut settings = Settings::open(&state).expect("settings");
    assert_eq!(settings.applied(), planned);
    for change in &planned {
        assert_eq!(settings.undo(change).expect("undo"), Undone::Restored);
    }
    assert_eq!(options(&mounted), before);
    assert!(settings.applied().is_empty());

    // A ledger restores every kind of setting, even after its process was killed.
    let mut borrowed = 0;
    let mut own = Ledger::open(&state).expect("ledger");
    let machine = || {
        ["dirty_bytes", "dirty_ratio", "swappiness"]
            .map(|name| fs::read_to_string(format!("/proc/sys/vm/{name}")).expect("procfs"))
    };
    let (queue, was_machine) = (Queue::of(&device.name()), machine());
    let was_queue = queue.schedulers().expect("a queue");
    for setting in [
        "noatime",
        "commit-30s",
        "lazytime",
        "read-ahead=1MiB",
        "request-size=64KiB",
        "dirty-limit=1GiB",
        "mq-deadline",
    ] {
        let setting = Setting::parse(setting).expect("a setting");
        match borrow_setting(&setting, &file, &mut own) {
            Err(error @ HostError::NoScheduler { .. }) => skip_part(Need::Scheduler, error),
            entry => drop(entry.expect("borrowed")),
        }
        borrowed += 1;
    }
    assert_eq!(borrowed, 7);
    assert!(options(&mounted) != before && machine() != was_machine);
    own.close().expect("all is restored");
    assert_eq!((options(&mounted), machine()), (before, was_machine));
    assert_eq!(queue.schedulers().expect("a queue"), was_queue);

    // If another program has changed a setting after fonio's change, undoing does not change the setting.
    let change = Setting::parse("commit-30s").expect("a setting").plan(&file).expect("a plan");
    settings.apply(&change).expect("apply");
    let remounted = Command::new("mount").args(["-o", "remount,commit=11"]).arg(&mounted).status();
    assert!(remounted.expect("mount").success());
    assert_eq!(settings.undo(&change).expect("undo"), Undone::ChangedSince("11".to_owned()));
    assert_eq!(settings.applied().len(), 1);
}

#[test]
fn a_file_system_is_trimmed_once_it_has_free_space() {
    if !can() || !has(&[Need::Mkfs]) {
        return;
    }
    let dir = tempfile::tempdir().expect("dir");
    let mut ledger = Ledger::open(&dir.path().join("state")).expect("ledger");
    let (_device, mounted) = own_ext4(dir.path(), &mut ledger, "");
    let planned = match trim_plan(&mounted) {
        Err(error @ HostError::NotSettable { .. }) => {
            // The file system of the loop device's backing file does not support holes in files.
            assert!(error.to_string().contains("cannot discard"), "{error}");
            skip_part(Need::Loop, error);
            return;
        }
        planned => planned.expect("a plan"),
    };
    let trimmed = trim(&mounted).expect("trimmed");
    assert_eq!((&trimmed.dir, trimmed.filesystem.as_str()), (&planned.dir, "ext4"));
    assert!(trimmed.bytes.0 > 0 && planned.bytes.0 > 0);
    // A second trim reports nothing, because ext4 does not report the same ranges twice.
    assert_eq!(trim(&mounted).expect("trimmed").bytes.0, 0);
    let refused = trim_plan("/proc".as_ref()).expect_err("refused").to_string();
    assert_eq!(refused, "fstrim cannot be set on /proc: the file system proc is not on a device");
}

#[test]
fn a_confined_process_gets_its_share_and_the_group_goes() {
    if !can() {
        return;
    }
    let state = tempfile::tempdir().expect("dir");
    let mut ledger = Ledger::open(&state.path().join("state")).expect("ledger");
    let share: CpuShare = "0.2".parse().expect("a share");
    let limits = Limits { cpu: Some(share.into()), memory: None };
    let group = match Confined::make(&mut ledger, limits) {
        Err(error @ HostError::NoLimit { .. }) => return skip(Need::Cgroup, error),
        group => group.expect("a group"),
    };
    let spins = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("sh");
    let child = Spinning(spins);
    group.add(child.0.id()).expect("add");
    std::thread::sleep(Duration::from_millis(200));
    let ran = || -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/schedstat", child.0.id())).expect("schedstat");
        text.split_whitespace().next().and_then(|ran| ran.parse().ok()).expect("a number")
    };
    let group_dir = group.dirs().next().expect("there is one").to_owned();
    let counted = |name: &str| -> u64 {
        let text = fs::read_to_string(group_dir.join("cpu.stat")).expect("a group has it");
        let count = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        count.unwrap_or_else(|| panic!("{name} in {text}"))
    };
    let now = || (ran(), counted("nr_periods"), counted("nr_throttled"), std::time::Instant::now());
    let before = now();
    std::thread::sleep(Duration::from_secs(1));
    let after = now();
    let used = (after.0 - before.0) as f64 / (after.3 - before.3).as_nanos() as f64;
    // Under any load, the process gets at most its share; allow 1.5 times the share for late timer ticks.
    assert!(used <= 0.3, "{used}");
    // In the periods in which the limit throttled the process, the process gets at least its share. In the
    // other periods, other processes may have used the processor.
    let held_back = (after.2 - before.2) as f64 / (after.1 - before.1) as f64;
    assert!(
        held_back > 0.0 && used >= 0.75 * 0.2 * held_back,
        "used {used} of a processor, held back in a share of {held_back} of the periods"
    );
    assert!(group_dir.exists());
    // The control group still has a process.
    drop(ledger);
    assert!(!group_dir.exists());
}

#[test]
fn a_confined_process_sees_its_cores_and_its_share_can_change() {
    if !can() {
        return;
    }
    let state = tempfile::tempdir().expect("dir");
    let mut ledger = Ledger::open(&state.path().join("state")).expect("ledger");
    let limit = |share: &str, cores| CpuLimit {
        share: Some(share.parse().expect("a share")),
        cores: NonZeroU32::new(cores),
    };
    let limits = |limit| Limits { cpu: Some(limit), memory: None };
    let group = match Confined::make(&mut ledger, limits(limit("0.2", 1))) {
        Err(error @ HostError::NoLimit { .. }) => return skip(Need::Cgroup, error),
        group => group.expect("a group"),
    };
    // The process counts its processors after it has entered the group.
    let mut child = Command::new("sh")
        .args(["-c", "read go; nproc"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("sh");
    group.add_for_processor(child.id()).expect("add");
    child.stdin.take().expect("piped").write_all(b"go\n").expect("written");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "1");

    let quota = || -> Vec<String> {
        let files = ["cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us"];
        let texts = group.dirs().flat_map(|dir| files.map(|file| fs::read_to_string(dir.join(file))));
        texts
            .flatten()
            .flat_map(|text| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
            .collect()
    };
    assert_eq!(quota(), ["1000", "5000"]);
    for (share, period) in [("0.5", "2000"), ("0.1", "10000")] {
        group.set_cpu(limit(share, 1)).expect("a new share");
        assert_eq!(quota(), ["1000", period]);
    }
    let too_many = Confined::make(&mut ledger, limits(limit("0.2", 100_000))).expect_err("refused");
    assert!(matches!(too_many, HostError::Cores { wanted: 100_000, .. }), "{too_many}");
}

#[test]
fn confined_processes_hold_no_more_memory_than_they_may() {
    if !can() {
        return;
    }
    let state = tempfile::tempdir().expect("dir");
    let mut ledger = Ledger::open(&state.path().join("state")).expect("ledger");
    let limits = Limits { cpu: None, memory: Some(ByteCount(32 << 20)) };
    let group = match Confined::make(&mut ledger, limits) {
        Err(error @ HostError::NoLimit { .. }) => return skip(Need::Cgroup, error),
        group => group.expect("a group"),
    };
    // `tail` of a file without a newline keeps the whole file in memory.
    let run = |bytes: &str| {
        let line = format!("read _; head -c {bytes} /dev/zero | tail >/dev/null");
        let mut shell = Command::new("sh").args(["-c", &line]).stdin(Stdio::piped()).spawn().expect("sh");
        group.add(shell.id()).expect("add");
        writeln!(shell.stdin.take().expect("it is piped")).expect("it reads a line");
        shell.wait().expect("sh").success()
    };
    assert!(run("1000000"), "a megabyte fits");
    assert_eq!(group.kills(), 0);
    assert!(!run("100000000"), "100 MB do not");
    assert!(group.kills() > 0);
    group.remove(&mut ledger).expect("remove");
    let too_little = Limits { cpu: None, memory: Some(ByteCount(1 << 20)) };
    let refused = Confined::make(&mut ledger, too_little).expect_err("it is too little");
    assert_eq!(refused.to_string(), "1MiB of memory is too little: write at least 16MiB");
}

/// An endless process, killed when the test ends, even if the test fails.
struct Spinning(Child);

impl Drop for Spinning {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn opened_files_are_seen_with_who_opened_them() {
    if !can() {
        return;
    }
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("dir");
    let file = dir.path().join("file");
    fs::write(&file, b"x").expect("write");
    let watch = match OpenWatch::begin() {
        Err(error @ HostError::System { .. }) => return skip(Need::Fanotify, error),
        watch => watch.expect("watch"),
    };
    let mut child = Command::new("cat").arg(&file).stdout(Stdio::null()).spawn().expect("cat");
    let pid = child.id();
    child.wait().expect("wait");
    let opened = watch.finish().expect("finish");
    let path = fs::canonicalize(&file).expect("path");
    assert!(opened.iter().any(|opened| opened.pid == pid && opened.path == path), "{opened:?}");
    // Expect that the child opened the program itself and its libraries.
    let of_child = opened.iter().filter(|opened| opened.pid == pid).count();
    assert!(of_child >= 2, "{of_child}");
}
