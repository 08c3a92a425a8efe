//! `cargo xtask dist container`: loads the image with podman in a new Debian and records the host from a
//! container, with only the privileges listed in `docs/install.md`.

use anyhow::Result;
use fonio_lab::SystemOptions;

use super::container::NAME;
use super::package::VERSION;
use super::{Made, check};
use crate::lab::steps::{all_kept, in_debian};

/// The options for `podman run` and `docker run` that are listed in `docs/install.md`.
const PRIVILEGES: &str = "--pid=host --cap-add SYS_ADMIN --cap-add SYS_PTRACE --cap-add DAC_READ_SEARCH --cap-add SYSLOG \
    --security-opt apparmor=unconfined --volume /sys/kernel/tracing:/sys/kernel/tracing --volume /:/host:ro";

/// Runs all steps in a guest, once for each container image.
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
            let prefix = format!("image={NAME}:{VERSION}; privileges='{PRIVILEGES}'; ");
            check::run_steps(steps, include_str!("container.steps"), &prefix, made.target.debian);
            Ok(())
        })?;
    }
    all_kept(broken)
}
