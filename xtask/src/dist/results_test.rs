//! `cargo xtask dist results test`: the package and the image of the results service in a new Debian, with a result that is
//! measured there.

use std::path::Path;

use anyhow::Result;
use fonio_lab::SystemOptions;

use super::target::Target;
use crate::lab::steps::{Step, all_kept, in_debian, ok};
use crate::process;

/// The files that the guest gets.
pub struct Files<'a> {
    /// The package of the service.
    pub package: &'a Path,
    /// The static program of the service.
    pub program: &'a Path,
    /// The static program fonio.
    pub fonio: &'a Path,
}

const STEPS: [Step<'_>; 17] = [
    ("dpkg -i /root/fonio-results.deb", "Setting up fonio-results", "the package is installed"),
    ("systemctl is-active fonio-results || true", "inactive", "it waits for the administrator"),
    (
        "systemctl enable --now fonio-results && sleep 2 && curl -sS http://127.0.0.1:8080/",
        "</html>",
        "the unit serves its pages",
    ),
    (
        "test $(ps -o uid= -p $(systemctl show -P MainPID fonio-results)) -ge 61184 && echo dynamic",
        "dynamic",
        "it has a user of its own",
    ),
    ("systemd-analyze security --no-pager fonio-results | tail -1", " OK", "systemd calls its exposure OK"),
    (
        "/root/fonio storebench /root --quick --for 60s --output /root/r.json 2>&1",
        "r.json",
        "storebench measures the guest's disk",
    ),
    (
        "/root/fonio storebench submit --server http://127.0.0.1:8080 --yes /root/r.json 2>&1 | tee /root/said",
        "Hidden, because",
        "the result is sent; a virtual disk is hidden",
    ),
    (
        "kill -9 $(systemctl show -P MainPID fonio-results); sleep 8; curl -sS $(grep -o 'http://.*results/.*' /root/said)",
        "virtual",
        "after kill -9, systemd starts it with the result",
    ),
    (
        "grep -o 'fonio storebench delete .*' /root/said | sed 's|^|/root/|' | sh",
        "Deleted: ",
        "the result is deleted with its token",
    ),
    (
        "curl -sS -o /dev/null -w '%{http_code}' $(grep -o 'http://.*results/.*' /root/said)",
        "404",
        "its page is gone",
    ),
    (
        "systemctl disable --now fonio-results 2>&1; systemctl show -P Result fonio-results",
        "success",
        "the unit ends in good order",
    ),
    (
        "podman build --quiet --file /root/Containerfile --tag fonio-results /root/context",
        "",
        "podman builds the image",
    ),
    (IN_CONTAINER, "</html>", "the container serves its pages"),
    (
        "/root/fonio storebench submit --server http://127.0.0.1:8081 --yes /root/r.json 2>&1 | tee /root/said",
        "Hidden, because",
        "the container takes the result",
    ),
    (
        "podman stop --time 30 results >/dev/null; test $(podman wait results) = 0 && podman rm results >/dev/null && echo ended",
        "ended",
        "the container ends in good order",
    ),
    (RESULT_IN_NEW_CONTAINER, "virtual", "a new container has the result in its volume"),
    (
        "dpkg --purge fonio-results >/dev/null 2>&1; test ! -e /usr/bin/fonio-results && ls /var/lib/private/fonio-results",
        "results.sqlite",
        "the package is removed, and the data stay",
    ),
];

/// The privileges are those that `packages/results/Containerfile` names.
const IN_CONTAINER: &str = "podman run --detach --name results --read-only --cap-drop=all --publish 127.0.0.1:8081:8080 \
    --volume fonio-results:/data fonio-results && sleep 2 && curl -sS http://127.0.0.1:8081/";
const RESULT_IN_NEW_CONTAINER: &str = "podman run --detach --name results --read-only --cap-drop=all --publish 127.0.0.1:8081:8080 \
    --volume fonio-results:/data fonio-results && sleep 2 && curl -sS $(grep -o 'http://.*results/.*' /root/said)";

/// Runs all steps in a guest.
pub fn run(target: Target, files: &Files<'_>) -> Result<()> {
    let options = SystemOptions {
        architecture: target.debian,
        packages: ["podman", "netavark", "nftables", "curl", "fio"].map(str::to_owned).to_vec(),
        memory_mib: 1536,
        ..SystemOptions::default()
    };
    let title = format!("The results service for {target} with systemd and podman");
    let broken = in_debian(&title, &options, |steps| {
        ok(steps.system, "mkdir -p /root/context/data")?;
        steps.system.put(files.package, "/root/fonio-results.deb")?;
        steps.system.put(files.fonio, "/root/fonio")?;
        steps.system.put(files.program, "/root/context/fonio-results")?;
        steps.system.put(&process::root().join("packages/results/Containerfile"), "/root/Containerfile")?;
        STEPS.into_iter().for_each(|step| steps.step(step));
        Ok(())
    })?;
    all_kept(broken)
}
