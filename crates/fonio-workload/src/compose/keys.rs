//! The keys of a Compose file: which are used, which change nothing here, and which are refused.

/// What fonio does with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// The key is read.
    Read,
    /// fonio ignores the key, and tells the user this reason.
    LeftOut(&'static str),
    /// The stack would not be the user's stack without the key.
    Refused(&'static str),
}

use Use::{LeftOut, Read, Refused};

/// The keys of a file.
pub(super) const FILE: &[(&str, Use)] = &[
    ("configs", Refused("put the file into `volumes` of the service")),
    ("include", Refused("write the services into one file, as `docker compose config` prints them")),
    ("models", Refused("fonio runs containers only")),
    ("name", Read),
    ("networks", LeftOut("all services share one network")),
    ("secrets", Refused("put the file into `volumes` of the service")),
    ("services", Read),
    // Compose itself does not use it any more.
    ("version", Read),
    ("volumes", Read),
];

const LIMITS: &str = "no limits; --cpu and --memory limit the whole stack";
const RESOLVED: &str = "no network outside";
const PLAIN: &str = "it changes nothing here";

/// The keys of a service.
pub(super) const SERVICE: &[(&str, Use)] = &[
    ("annotations", LeftOut(PLAIN)),
    ("attach", LeftOut(PLAIN)),
    ("blkio_config", LeftOut(LIMITS)),
    ("build", Read),
    ("cap_add", Read),
    ("cap_drop", Read),
    ("cgroup", LeftOut(LIMITS)),
    ("cgroup_parent", LeftOut(LIMITS)),
    ("command", Read),
    ("configs", Refused("put the file into `volumes`")),
    ("container_name", Read),
    ("cpu_count", LeftOut(LIMITS)),
    ("cpu_percent", LeftOut(LIMITS)),
    ("cpu_period", LeftOut(LIMITS)),
    ("cpu_quota", LeftOut(LIMITS)),
    ("cpu_rt_period", LeftOut(LIMITS)),
    ("cpu_rt_runtime", LeftOut(LIMITS)),
    ("cpu_shares", LeftOut(LIMITS)),
    ("cpus", LeftOut(LIMITS)),
    ("cpuset", LeftOut(LIMITS)),
    ("credential_spec", Refused("it is for Windows")),
    ("depends_on", Read),
    ("deploy", Read),
    ("develop", LeftOut(PLAIN)),
    ("device_cgroup_rules", Refused("the stack gets no devices of this machine")),
    ("devices", Refused("the stack gets no devices of this machine")),
    ("dns", LeftOut(RESOLVED)),
    ("dns_opt", LeftOut(RESOLVED)),
    ("dns_search", LeftOut(RESOLVED)),
    ("domainname", LeftOut(RESOLVED)),
    ("entrypoint", Read),
    ("env_file", Read),
    ("environment", Read),
    ("expose", LeftOut("every port is open for the other services")),
    ("extends", Refused("write the service out, as `docker compose config` prints it")),
    ("external_links", Refused("the stack reaches only its own services")),
    ("extra_hosts", Read),
    ("gpus", Refused("the stack gets no devices of this machine")),
    ("group_add", Read),
    ("healthcheck", Read),
    ("hostname", Read),
    ("image", Read),
    ("init", Read),
    ("ipc", Refused("each container has its own")),
    ("isolation", LeftOut(PLAIN)),
    ("label_file", LeftOut(PLAIN)),
    ("labels", LeftOut(PLAIN)),
    ("links", Read),
    ("logging", LeftOut("Podman writes the output of a container to a file on the device")),
    ("mac_address", LeftOut(RESOLVED)),
    ("mem_limit", LeftOut(LIMITS)),
    ("mem_reservation", LeftOut(LIMITS)),
    ("mem_swappiness", LeftOut(LIMITS)),
    ("memswap_limit", LeftOut(LIMITS)),
    ("models", Refused("fonio runs containers only")),
    ("network_mode", Read),
    ("networks", Read),
    ("oom_kill_disable", LeftOut(LIMITS)),
    ("oom_score_adj", LeftOut(LIMITS)),
    ("pid", Refused("each container has its own")),
    ("pids_limit", LeftOut(LIMITS)),
    ("platform", Read),
    ("ports", LeftOut("each container listens on its own ports, at 127.0.0.1 of the stack's network")),
    ("post_start", Refused("make it a service that others depend on")),
    ("pre_stop", LeftOut("the containers are killed after the measurement")),
    ("privileged", Read),
    ("profiles", Read),
    ("provider", Refused("fonio runs containers only")),
    ("pull_policy", LeftOut("an image is pulled once")),
    ("read_only", Read),
    ("restart", LeftOut("a service that ends with an error ends the run")),
    ("runtime", Refused("crun runs the containers")),
    ("scale", Read),
    ("secrets", Refused("put the file into `volumes`")),
    ("security_opt", LeftOut("crun's defaults")),
    ("shm_size", Read),
    ("stdin_open", LeftOut("no terminal")),
    ("stop_grace_period", LeftOut("the containers are killed after the measurement")),
    ("stop_signal", LeftOut("the containers are killed after the measurement")),
    ("storage_opt", LeftOut("Podman's overlay on the device")),
    ("sysctls", Refused("the kernel is this machine's: set them there")),
    ("tmpfs", Read),
    ("tty", LeftOut("no terminal")),
    ("ulimits", Read),
    ("use_api_socket", Refused("the stack gets no container engine")),
    ("user", Read),
    ("userns_mode", LeftOut("containers run as root of this machine")),
    ("uts", LeftOut(PLAIN)),
    ("volumes", Read),
    ("volumes_from", Refused("name the volumes in both services")),
    ("working_dir", Read),
];

/// The keys of a health check.
pub(super) const HEALTH: &[(&str, Use)] = &[
    ("disable", Read),
    ("interval", Read),
    ("retries", Read),
    ("start_interval", LeftOut("the checks at the start have pauses of at most a second")),
    ("start_period", Read),
    ("test", Read),
    ("timeout", Read),
];

/// The keys of a volume of a service in its long form.
pub(super) const MOUNT: &[(&str, Use)] = &[
    ("bind", Read),
    ("consistency", LeftOut(PLAIN)),
    ("read_only", Read),
    ("source", Read),
    ("target", Read),
    ("tmpfs", Read),
    ("type", Read),
    ("volume", Read),
];

/// The keys of a volume at the top of a file.
pub(super) const VOLUME: &[(&str, Use)] = &[
    ("driver", Read),
    ("driver_opts", Refused("the volume is a folder on the device")),
    ("external", LeftOut("the volume begins empty")),
    ("labels", LeftOut(PLAIN)),
    ("name", LeftOut(PLAIN)),
];

/// The keys of a service in `depends_on`.
pub(super) const DEPENDENCY: &[(&str, Use)] =
    &[("condition", Read), ("required", Read), ("restart", LeftOut(PLAIN))];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sorted() {
        for table in [FILE, SERVICE, HEALTH, MOUNT, VOLUME, DEPENDENCY] {
            assert!(table.is_sorted_by_key(|(key, _)| *key), "{table:?}");
        }
    }
}
