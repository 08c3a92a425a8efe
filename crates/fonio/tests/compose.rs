//! Tests `fonio run --compose` with images that are made of Debian's packages, as debootstrap installs them.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use fonio_lab::{Archive, ProgramRoot, Programs};
use fonio_testing::{Need, has, skip};

use super::{answer, fonio, json, text};

#[track_caller]
fn can_run() -> bool {
    has(&[Need::Root, Need::Fuse, Need::Loop, Need::Mkfs, Need::Namespace, Need::Debian])
}

/// Packs the root directory $1 into the archive $2 as the image redis:7, as `docker save` does.
const PACK: &str = r#"
set -e
mkdir -p "$2.parts"
cd "$2.parts"
tar -C "$1" --exclude=./proc/* --exclude=./sys/* --exclude=./dev/* --exclude=./usr/share --exclude=./var/lib/dpkg \
    --exclude=./var/cache -cf layer.tar .
sum=$(sha256sum layer.tar | cut -d' ' -f1)
printf '{"architecture":"amd64","os":"linux","config":{"Env":["PATH=/usr/sbin:/usr/bin:/sbin:/bin"],"Cmd":["sh"]},
    "rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' "$sum" >config.json
echo '[{"Config":"config.json","RepoTags":["redis:7"],"Layers":["layer.tar"]}]' >manifest.json
tar -cf "$2" manifest.json config.json layer.tar
"#;

/// Makes an image with Redis; `None` if Debian's archive cannot be reached.
fn image(dir: &Path) -> Option<PathBuf> {
    let packages = ["redis-server", "redis-tools"].map(str::to_owned);
    let programs = Programs { packages: &packages, wheels: &[] };
    let root = Archive::open()
        .and_then(|archive| ProgramRoot::of(&archive, programs, &|_| {}, &AtomicBool::new(false)));
    let root = match root {
        Ok(root) => root,
        Err(error) if error.to_string().contains("archive cannot be") => {
            skip(Need::Debian, error.to_string());
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let file = dir.join("redis.tar");
    let packed = Command::new("sh").args(["-c", PACK, "sh"]).args([&root.path, &file]).status().unwrap();
    assert!(packed.success());
    Some(file)
}

/// Returns a folder and the image in it; `None` if the test cannot run here.
#[track_caller]
fn prepared() -> Option<(tempfile::TempDir, String)> {
    if !can_run() {
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let image = image(dir.path())?.display().to_string();
    Some((dir, image))
}

const STACK: &str = r#"
name: shop
services:
  client:
    image: redis:7
    depends_on: { db: { condition: service_healthy } }
    command: redis-benchmark -h db -t set -c 1 -n ${REQUESTS:-40} -q
  init:
    image: redis:7
    command: cp /conf/redis.conf /etc-redis/
    volumes: [./conf:/conf:ro, conf:/etc-redis]
  db:
    image: redis:7
    depends_on: { init: { condition: service_completed_successfully } }
    command: redis-server /etc/redis-own/redis.conf
    restart: always
    volumes: [data:/data, conf:/etc/redis-own]
    healthcheck: { test: redis-cli ping | grep PONG, interval: 1s }
volumes: { data: , conf: }
"#;
const CONF: &str = "appendonly yes\nappendfsync always\ndir /data\nprotected-mode no\n";

/// Writes a Compose file, and a folder that its services mount.
fn stack(dir: &Path, text: &str) -> PathBuf {
    fs::create_dir_all(dir.join("conf")).unwrap();
    fs::write(dir.join("conf/redis.conf"), CONF).unwrap();
    let file = dir.join("docker-compose.yml");
    fs::write(&file, text).unwrap();
    file
}

fn words(file: &Path, out: &Path, more: &[&str]) -> Vec<String> {
    let mut words =
        ["run", "--on", "sd_a1", "--size", "512MiB", "--runs", "1", "--compose"].map(str::to_owned).to_vec();
    words.extend([file.display().to_string(), "-o".to_owned(), out.display().to_string()]);
    words.extend(more.iter().map(|word| (*word).to_owned()));
    words
}

/// Runs the services once on an emulated card.
fn run(file: &Path, more: &[&str]) -> Output {
    let out = file.with_file_name("out");
    let _ = fs::remove_dir_all(&out);
    fonio(&words(file, &out, more))
}

/// Returns the number of mounts and of processes that belong to containers of `name`.
fn left(name: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    lines.filter(|line| text(line).contains(name)).count()
}

#[test]
fn a_service_that_waits_for_another_one_drives_it() {
    let Some((dir, image)) = prepared() else { return };
    let file = stack(dir.path(), STACK);
    let ran = run(&file, &["--image-file", &image, "--ends-with", "client", "--per", "SET=40", "--json"]);
    let series = answer(&ran);
    assert_eq!(series["workload"], "compose:shop");
    let said = text(&ran.stderr);
    assert!(
        said.contains("note: not used: `restart` of db (a service that ends with an error ends the run)"),
        "{said}"
    );
    let packages = series["packages"].to_string();
    assert!(packages.contains("podman 5") && packages.contains("image redis:7 sha256:"), "{packages}");
    let found = &series["variations"][0]["runs"][0];
    let step = &found["steps"][0];
    assert_eq!(
        (step["name"].as_str(), step["units"].as_u64(), step["unit"].as_str()),
        (Some("client"), Some(40), Some("SET"))
    );
    // Redis syncs each of them.
    assert!(found["requests"].as_u64().unwrap() >= 40, "{found}");
    let report = fonio(&["report", found["recording"].as_str().unwrap(), "--json"]);
    let named = text(&report.stdout);
    assert!(named.contains("/run/fonio/data/containers/volumes/data/_data/appendonlydir"), "{named}");
    let unnamed = json(&report)["analysis"]["files"]["unknown_share"].as_f64().unwrap();
    assert!(unnamed < 0.02, "{unnamed}");
    // The mounted folder of this machine stays as it was.
    assert_eq!(fs::read_dir(dir.path().join("conf")).unwrap().count(), 1);
}

#[test]
fn commands_drive_services_from_both_sides() {
    let Some((dir, image)) = prepared() else { return };
    // The client would end at once.
    let file = stack(
        dir.path(),
        &STACK.replace("    command: redis-benchmark", "    profiles: [load]\n    command: redis-benchmark"),
    );
    let inside = ["--image-file", &image, "--per", "SET=40", "--scale", "0.5", "--json", "--exec", "db"];
    let command = ["--", "redis-benchmark", "-t", "set", "-c", "1", "-q", "-n", "$UNITS"];
    let ran = run(&file, &[&inside[..], &command[..]].concat());
    let series = answer(&ran);
    let said = text(&ran.stderr);
    assert!(said.contains("note: client is not started, because it has the profile load"), "{said}");
    let step = &series["variations"][0]["runs"][0]["steps"][0];
    assert_eq!((step["name"].as_str(), step["units"].as_u64()), (Some("in db"), Some(20)));
    assert!(series["variations"][0]["runs"][0]["requests"].as_u64().unwrap() >= 20, "{series}");

    // A program of this machine, in the network of the services, with the files beside this test.
    let script = dir.path().join("drive.py");
    fs::write(
        &script,
        "import socket, sys\nwith socket.create_connection(('127.0.0.1', 6379)) as db:\n    db.sendall(b'SET a 1\\r\\nGET a\\r\\n')\n    \
         said = b''\n    while said.count(b'\\n') < 3: said += db.recv(100)\nsys.exit(said.decode())\n",
    )
    .unwrap();
    let outside = run(&file, &["--image-file", &image, "--", "python3", script.to_str().unwrap()]);
    let said = text(&outside.stderr);
    assert!(
        said.contains(
            "the stack shop: python3: it failed (exit code 1). Its last output:\n+OK\\x0d\n$1\\x0d\n1"
        ),
        "{said}"
    );
}

#[test]
fn what_a_stack_lacks_is_said() {
    let Some((dir, image)) = prepared() else { return };
    let with = |from: &str, to: &str| {
        assert!(STACK.contains(from), "{from}");
        STACK.replacen(from, to, 1)
    };
    let until = ["--ends-with", "client"];
    let given = ["--image-file", &image, "--ends-with", "client"];
    for (text_of_file, more, said) in [
        (
            STACK.to_owned(),
            &[][..],
            "a run of containers needs an end: add --for 30s, --ends-with SERVICE, or a command",
        ),
        (
            STACK.to_owned(),
            &["--ends-with", "cleint"],
            "has no service `cleint`; the nearest name is `client`",
        ),
        (
            STACK.to_owned(),
            &["--ends-with", "db"],
            "client depends on db, so the run cannot end when db ends",
        ),
        (
            STACK.to_owned(),
            &["--for", "1s", "--pace", "0"],
            "containers have no pauses to change; leave out --pace",
        ),
        (STACK.to_owned(), &["--ends-with", "client", "--link", "wifi"], "leave out --link"),
        (
            STACK.to_owned(),
            &["--ends-with", "client", "--scale", "0.5"],
            "--scale changes the units of a command with $UNITS",
        ),
        (STACK.to_owned(), &["--for", "1s", "--in", "lab:6.12"], "run on this machine only: leave out --in"),
        (with("services:", "services: ["), &until, "docker-compose.yml, line 5: this is not YAML"),
        (
            with("image:", "imagine:"),
            &until,
            "line 5: the key `imagine` is not known; the nearest name is `image`",
        ),
        (with("restart: always", "env_file: none.env"), &until, "line 16: cannot read the env_file none.env"),
        (
            with("image: redis:7", "build: ./web"),
            &until,
            "the service client is built from ./web, which fonio does not do: build it with `podman build -t shop-client ./web`",
        ),
        (
            with("image: redis:7", "image: registry.invalid/none:1"),
            &given,
            "save it where it is, with `podman save registry.invalid/none:1 -o none.tar`",
        ),
        (with("image: redis:7", "image: oci-archive:none.tar"), &given, "none.tar: No such file"),
        (STACK.replace("redis:7", "other:1"), &given, "holds redis:7, and the services use other:1"),
        (
            with("cp /conf/redis.conf", "ls /none"),
            &given,
            "the stack shop: init: it failed (exit code 2). Its last output:\n",
        ),
        (
            with("redis-server /etc", "sh -c 'sleep 1; echo no more >&2; exit 5' /etc"),
            &given,
            "the stack shop: db: it ended too early (exit code 5). Its last output:\nno more",
        ),
        (
            with("grep PONG, interval: 1s", "grep PING, interval: 1s, timeout: 1s, retries: 1"),
            &given,
            "db was not healthy within 2 s. Its health check said:\n(nothing)\nThe last lines of db:\n",
        ),
    ] {
        let file = stack(dir.path(), &text_of_file);
        let out = run(&file, more);
        let error = text(&out.stderr);
        assert!(error.contains(said), "{said}:\n{error}");
        assert_eq!(out.status.code(), Some(2), "{error}");
        let told = error.lines().filter(|line| line.starts_with("fonio: ")).count();
        assert_eq!(told, 1, "{error}");
    }
}

#[test]
fn a_killed_stack_leaves_no_container() {
    if !can_run() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let Some(image) = image(dir.path()) else { return };
    let marker = format!("31537{:04}", std::process::id() % 10_000);
    let text = format!("services:\n  one:\n    image: redis:7\n    command: sleep {marker}\n");
    let file = stack(dir.path(), &text);
    for signal in ["-KILL", "-INT"] {
        let out = dir.path().join("out");
        let _ = fs::remove_dir_all(&out);
        let more = ["--image-file", image.to_str().unwrap(), "--for", "100s"];
        let mut child = Command::new(assert_cmd::cargo::cargo_bin!("fonio"))
            .args(words(&file, &out, &more))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let sleeper = format!("sleep\0{marker}\0");
        wait_for(|| left(&sleeper) > 0 && left("conmon") > 0, "the container runs");
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
        child.wait().unwrap();
        wait_for(|| left(&marker) == 0, "no container is left");
        if signal == "-INT" {
            let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
            assert!(!mounts.contains(&format!("/run/fonio/{}-", child.id())), "{mounts}");
        }
    }
}

fn wait_for(mut condition: impl FnMut() -> bool, what: &str) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < Duration::from_secs(180), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
