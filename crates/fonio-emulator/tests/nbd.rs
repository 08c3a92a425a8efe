//! Tests the NBD server with qemu's client.

use crate::bed;

use std::path::Path;
use std::process::{Command, Output};

use fonio_emulator::{Emulated, Kind, Log};
use fonio_testing::skip_without;

fn start(dir: &Path, log: Option<&Path>) -> (Emulated, String) {
    let mut options = bed::options(&dir.join("state"), 64);
    let socket = dir.join("socket");
    options.nbd = Some(socket.clone());
    options.serve.log = log.map(Path::to_owned);
    let emulated = Emulated::start(&options, bed::server()).expect("start");
    (emulated, format!("nbd+unix:///?socket={}", socket.display()))
}

fn qemu_io(address: &str, commands: &[&str]) -> Output {
    let mut qemu_io = Command::new("qemu-io");
    qemu_io.args(["-f", "raw", "-t", "none", "-d", "unmap"]);
    for command in commands {
        qemu_io.args(["-c", command]);
    }
    qemu_io.arg(address).output().expect("qemu-io")
}

#[test]
fn qemu_reads_what_it_wrote() {
    skip_without!(Qemu);
    let dir = tempfile::tempdir().expect("dir");
    let log = dir.path().join("log");
    let (emulated, address) = start(dir.path(), Some(&log));
    let info = Command::new("qemu-img").args(["info", "--output=json", &address]).output().expect("qemu-img");
    let said = String::from_utf8_lossy(&info.stdout);
    assert!(said.contains("\"virtual-size\": 67108864"), "{said} {info:?}");
    let out = qemu_io(
        &address,
        &[
            "write -P 0x5a 4k 64k",
            "write -f -P 0xa5 1M 4k",
            "flush",
            "read -P 0x5a 4k 64k",
            "read -P 0xa5 1M 4k",
            "discard 4k 4k",
            "read -P 0 4k 4k",
            "write -z 8k 4k",
            "read -P 0 8k 4k",
            "read -P 0x5a 12k 4k",
            "aio_write -P 1 32M 1M",
            "aio_write -P 2 40M 1M",
            "aio_flush",
            "read -P 1 32M 1M",
            "read -P 2 40M 1M",
        ],
    );
    let said = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && !said.contains("failed") && !said.contains("error"), "{said}");
    let report = emulated.stop().expect("stop");
    assert!(report.host_written.0 >= (2 << 20) + (68 << 10), "{report:?}");
    let log = Log::open(&log).expect("log");
    let count = |kind| log.records.iter().filter(|record| record.kind == kind).count();
    assert!(count(Kind::Flush) >= 1 && count(Kind::Discard) >= 1);
    assert!(log.records.iter().any(|record| record.kind == Kind::Write && record.fua));
    assert!(!dir.path().join("socket").exists(), "the socket outlives the server");
}

#[test]
fn a_client_that_speaks_something_else_harms_nobody() {
    use std::io::{Read, Write};
    skip_without!(Qemu);
    let dir = tempfile::tempdir().expect("dir");
    let (emulated, address) = start(dir.path(), None);
    let mut stream = std::os::unix::net::UnixStream::connect(dir.path().join("socket")).expect("connect");
    stream.write_all(&[0xff; 100]).expect("write");
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert_eq!(rest.get(..8), Some(b"NBDMAGIC".as_slice()));
    let out = qemu_io(&address, &["write -P 3 0 4k", "read -P 3 0 4k", "read 64M 4k"]);
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(said.contains("wrote 4096/4096") && said.contains("read 4096/4096"), "{said}");
    emulated.stop().expect("stop");
}
