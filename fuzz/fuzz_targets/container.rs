//! Looks up the name of a control group in arbitrary files of container engines and Android, and checks for
//! panics, endless loops and much memory. The first byte of the input selects the file.
#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use fonio_fuzz::{memory, seeds};
use fonio_machine::Units;
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

const ID: &str = "579635db3532e954d07927bdc32bd435bd082f03a0696ded072f04d762a18775";

/// Each file of a container engine, with a valid text and the control group that leads to it.
const FILES: [(&str, &str, &str); 7] = [
    (
        "var/lib/docker/containers/ID/config.v2.json",
        include_str!("../../crates/fonio-machine/src/units/data/docker.config.v2.json"),
        "/docker/ID",
    ),
    ("etc/docker/daemon.json", "{\"data-root\":\"/mnt/docker\"}", "/docker/ID"),
    (
        "var/lib/containers/storage/overlay-containers/containers.json",
        include_str!("../../crates/fonio-machine/src/units/data/podman.containers.json"),
        "/machine.slice/libpod-ID.scope/container",
    ),
    (
        "etc/containers/storage.conf",
        "[storage]\ngraphroot = \"/mnt/pods\"\n",
        "/machine.slice/libpod-ID.scope/container",
    ),
    (
        "run/containerd/io.containerd.runtime.v2.task/default/ID/config.json",
        include_str!("../../crates/fonio-machine/src/units/data/kubernetes.config.json"),
        "/system.slice/nerdctl-ID.scope",
    ),
    (
        "etc/passwd",
        "ana:x:1000:1000::/home/ana:/bin/sh\n",
        "/user.slice/user-1000.slice/user@1000.service/user.slice/docker-ID.scope",
    ),
    (
        "data/system/packages.list",
        include_str!("../../crates/fonio-machine/src/units/data/packages.list"),
        "/uid_10123",
    ),
];

/// A folder with the folders of all files. `cargo xtask fuzz` removes it.
static ROOT: LazyLock<TempDir> = LazyLock::new(|| {
    let root = tempfile::tempdir().expect("a temporary folder");
    for (path, ..) in FILES {
        let path = root.path().join(path.replace("ID", ID));
        fs::create_dir_all(path.parent().expect("it has a folder")).expect("a new folder");
    }
    root
});

fn path_of(file: &str) -> PathBuf {
    ROOT.path().join(file.replace("ID", ID))
}

fuzz_target!(
    init: {
        memory::begin();
        seeds::write(|random| {
            let valid = FILES.iter().zip(b'0'..).map(|((_, text, _), choice)| (choice, (*text).to_owned()));
            let all = seeds::spliced(valid.collect(), 200, random, |a: &(u8, String), b: &(u8, String), random| {
                let json = (serde_json::from_str(&a.1), serde_json::from_str(&b.1));
                let text = match json {
                    (Ok(one), Ok(other)) => seeds::splice_json(&one, &other, random).to_string(),
                    _ => seeds::splice_text(&a.1, &b.1, random),
                };
                (a.0, text)
            });
            all.into_iter().map(|(choice, text)| [&[choice], text.as_bytes()].concat()).collect()
        });
    },
    |input: &[u8]| {
        let Some((&choice, text)) = input.split_first() else { return };
        let (file, _, cgroup) = FILES[usize::from(choice.wrapping_sub(b'0')) % FILES.len()];
        let path = path_of(file);
        fs::write(&path, text).expect("the disk has space");
        let name = memory::bounded(|| Units::below(ROOT.path()).of(Some(&cgroup.replace("ID", ID)), Some(10_123)));
        // A name comes from the file, or from the control group.
        assert!(name.is_none_or(|name| name.len() <= 3 * text.len() + 200), "the name is too long");
        fs::remove_file(path).expect("it was written");
    }
);
