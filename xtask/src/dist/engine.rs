//! `cargo xtask dist container`: loads the image with podman in a new Debian, and records the host from there, with the
//! privileges that `docs/install.md` names and no others.

use anyhow::Result;
use fonio_lab::{Architecture, SystemOptions};

use super::container::NAME;
use super::package::VERSION;
use super::{Made, check};
use crate::lab::steps::{Steps, all_kept, in_debian};

/// Writes to the disk of the guest, outside of any container, while a script runs.
const LOAD: &str = "systemd-run --quiet --collect --unit=notes sh -c 'while :; do dd if=/dev/zero of=/root/notes.db bs=16k count=1 \
    oflag=sync status=none; sleep 0.05; done'";
/// The options of `podman run` and `docker run`: see `docs/install.md`.
const PRIVILEGES: &str = "--pid=host --cap-add SYS_ADMIN --cap-add SYS_PTRACE --cap-add DAC_READ_SEARCH --cap-add SYSLOG \
    --security-opt apparmor=unconfined --volume /sys/kernel/tracing:/sys/kernel/tracing --volume /:/host:ro";

/// Runs all steps in a guest for each image.
pub fn run(all: &[Made]) -> Result<()> {
    let mut broken = 0;
    for made in all {
        let options = SystemOptions {
            architecture: made.target.debian,
            packages: vec!["podman".to_owned()],
            memory_mib: 1536,
            ..SystemOptions::default()
        };
        broken += in_debian(&format!("The image for {} with podman", made.target), &options, |steps| {
            steps.system.put(&made.container, "/root/image.tar")?;
            all_steps(steps, made.target.debian == Architecture::Armhf);
            Ok(())
        })?;
    }
    all_kept(broken)
}

fn all_steps(steps: &mut Steps<'_, '_>, is_32_bits: bool) {
    let image = format!("{NAME}:{VERSION}");
    let run = format!("podman run --rm --network none {PRIVILEGES} --volume /root:/data");
    let of_32_bits = |wanted| if is_32_bits { check::WATCH_OF_32_BITS } else { wanted };
    for (script, wanted, what) in [
        ("podman load --quiet -i /root/image.tar".to_owned(), image.as_str(), "podman loads the image"),
        (format!("podman run --rm --network none {image} --version"), "fonio ", "the program runs"),
        (format!("podman run --rm --network none {image}"), "", "the status card is printed"),
        (LOAD.to_owned(), "", "a unit of the host writes"),
        (format!("{run} {image} record --for 8s -o recording"), "Recorded", "the host is recorded"),
        (
            format!("podman run --rm --network none --volume /root:/data {image} report recording --all"),
            "notes.service",
            "the report names the unit of the host",
        ),
        (
            format!("podman run --rm --network none --volume /root:/data {image} report recording --all"),
            "/root/notes.db",
            "the report names the file of the host",
        ),
        (
            format!(
                "podman run --detach --name watch --network none {PRIVILEGES} --volume fonio:/var/lib/fonio {image} watch run"
            ),
            "",
            "a container watches the host",
        ),
        (
            "sleep 70; podman exec watch fonio watch report".to_owned(),
            of_32_bits("notes.service"),
            "its report names the unit of the host",
        ),
        (
            "podman exec watch fonio watch report".to_owned(),
            of_32_bits("/root/notes.db"),
            "its report names the file of the host",
        ),
        (
            "podman stop --time 20 watch >/dev/null; test $(podman wait watch) = 0 && podman rm watch >/dev/null && echo ended".to_owned(),
            "ended",
            "it ends in good order",
        ),
        (
            format!(
                "podman run --rm --network none --volume fonio:/var/lib/fonio {image} watch report; podman volume rm fonio"
            ),
            of_32_bits("notes.service"),
            "the history is in its volume",
        ),
        (
            "systemctl stop notes; podman rmi --force $(podman images --quiet) >/dev/null && echo gone"
                .to_owned(),
            "gone",
            "the image is removed",
        ),
    ] {
        steps.step((&script, wanted, what));
    }
}
