//! Creates a rate-limited network link to our own server: a network namespace, a pair of virtual interfaces,
//! and a token bucket at each end.
//!
//! So real sockets see the rates of a phone's WiFi. The link adds no loss and only queueing delay, because
//! many kernels lack `netem` and the studies give only rates.

use std::net::Ipv4Addr;
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::error::HostError;
use crate::ledger::{Entry, Ledger, Step};
use crate::program::run;

/// The rates of a network link, seen from the phone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkRates {
    /// Rate of data sent to the phone, in bytes per second.
    pub receive: u64,
    /// Rate of data sent by the phone, in bytes per second.
    pub transmit: u64,
}

impl LinkRates {
    /// The names of the links with known rates.
    pub const NAMES: [&str; 2] = ["wifi", "usb"];

    /// Returns the rates of a named link of the first study (Kim et al., Table II, where 1 MB is 10^6 bytes).
    pub fn named(name: &str) -> Option<LinkRates> {
        match name {
            "wifi" => Some(LinkRates { receive: 1_100_000, transmit: 530_000 }),
            "usb" => Some(LinkRates { receive: 8_040_000, transmit: 7_140_000 }),
            _ => None,
        }
    }
}

/// A link whose two ends are network namespaces without a name. It ends with the last program at its ends, so no ledger
/// needs to remember it.
#[derive(Clone, Copy, Debug)]
pub struct PrivateLink;

impl PrivateLink {
    /// The address of the far end.
    pub const SERVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
    /// The file that names the network namespace of the far end, for a program at the near end and all that it starts
    /// (`nsenter --net=FILE`). The descriptor stays open in these programs.
    pub const FAR: &str = "/proc/self/fd/9";

    /// Returns a script for `sh -c SCRIPT sh PROGRAM ARGUMENTS`: it makes a link with these rates from its own network
    /// namespace, the far end, to a new one, the near end, and replaces itself by the program at the near end. It must run as
    /// root in a network namespace of its own, and needs `ip`, `tc` and `nsenter`.
    #[must_use]
    pub fn script(rates: LinkRates) -> String {
        let (server, far) = (PrivateLink::SERVER, PrivateLink::FAR);
        let client = Ipv4Addr::from(u32::from(server) - 1);
        let (transmit, receive) = (rate(rates.transmit), rate(rates.receive));
        let (near_end, far_end) = (shaping("near", &transmit).join(" "), shaping("far", &receive).join(" "));
        format!(
            "ip link set lo up && exec 9<{OWN} && exec unshare --net -- sh -c '
            set -e
            ip link set lo up
            ip link add near type veth peer name far netns {far}
            ip address add {client}/30 dev near
            ip link set near up
            tc {near_end}
            nsenter --net={far} -- ip address add {server}/30 dev far
            nsenter --net={far} -- ip link set far up
            nsenter --net={far} -- tc {far_end}
            exec \"$@\"' sh \"$@\""
        )
    }
}

/// The network namespace of the process that opens this file.
const OWN: &str = "/proc/self/ns/net";

/// A network link. Undoing its ledger removes the link.
#[derive(Debug)]
pub struct Link {
    namespace: String,
    server: Ipv4Addr,
    entry: Entry,
}

/// A network that RFC 2544 reserves for benchmarks, so no other program should use it. Each link uses four
/// addresses of this network.
const NETWORK: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);
const LINKS_MAX: u32 = 1 << 15;
/// Burst size of the token bucket. The burst is only a few full-size packets, so the rate limit also applies
/// to short responses.
const BURST: &str = "16kb";
/// Maximum time that a packet waits in the queue before it is dropped, similar to a phone's WiFi queue.
const QUEUE_TIME: &str = "200ms";

impl Link {
    /// Creates a namespace and a link to it with these rates. A server that listens on [`Link::server`] must
    /// be started with [`Link::command`]. Fails with [`HostError::NotRoot`], [`HostError::ProgramMissing`] or
    /// [`HostError::ProgramFailed`] (`ip`, `tc`).
    pub fn make(ledger: &mut Ledger, rates: LinkRates) -> Result<Link, HostError> {
        HostError::check_root("a shaped network link")?;
        let number = std::process::id() % LINKS_MAX;
        let namespace = namespace_of(std::process::id());
        let (inside, outside) = (format!("fni{number}"), format!("fno{number}"));
        let base = u32::from(NETWORK) + number * 4;
        let (client, server) = (Ipv4Addr::from(base + 1), Ipv4Addr::from(base + 2));
        // If another process has created a namespace with this name, undoing must not remove that namespace.
        let step = Step::Namespace { name: namespace.clone() };
        let entry = ledger.perform(step, || ip(&["netns", "add", &namespace]).map(drop))?;
        ip(&["link", "add", &outside, "type", "veth", "peer", "name", &inside, "netns", &namespace])?;
        ip(&["address", "add", &format!("{client}/30"), "dev", &outside])?;
        ip(&["link", "set", &outside, "up"])?;
        let within = ["-n", &namespace];
        ip(&[&within[..], &["address", "add", &format!("{server}/30"), "dev", &inside]].concat())?;
        ip(&[&within[..], &["link", "set", &inside, "up"]].concat())?;
        // Each end of the link limits the packets that it sends.
        let (transmit, receive) = (rate(rates.transmit), rate(rates.receive));
        run("tc", "iproute2", &shaping(&outside, &transmit))?;
        run("tc", "iproute2", &[&within[..], &shaping(&inside, &receive)].concat())?;
        Ok(Link { namespace, server, entry })
    }

    /// Returns the address of the far end of the link.
    pub fn server(&self) -> Ipv4Addr {
        self.server
    }

    /// Returns a command that runs `program` at the far end of the link.
    ///
    /// The program shares the mounts of this process. `ip netns exec` would copy the mounts, and the copy
    /// would keep every mounted device busy until the program ends, even after an unmount.
    pub fn command(&self, program: &std::path::Path) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.namespace)).arg("--").arg(program);
        command
    }

    /// Removes the network link. Before this call, the program at the far end must have ended.
    pub fn remove(self, ledger: &mut Ledger) -> Result<(), HostError> {
        ledger.undo(self.entry)
    }
}

/// Returns the name of the namespace that a process creates.
pub(crate) fn namespace_of(pid: u32) -> String {
    format!("fonio-{}", pid % LINKS_MAX)
}

fn ip(arguments: &[&str]) -> Result<String, HostError> {
    run("ip", "iproute2", arguments)
}

/// Formats a rate for tc in bits per second, because the other units of tc are ambiguous.
fn rate(bytes_per_second: u64) -> String {
    format!("{}bit", bytes_per_second * 8)
}

fn shaping<'a>(interface: &'a str, rate: &'a str) -> [&'a str; 12] {
    let root = ["qdisc", "add", "dev", interface, "root", "tbf"];
    let [a, b, c, d, e, f] = root;
    [a, b, c, d, e, f, "rate", rate, "burst", BURST, "latency", QUEUE_TIME]
}

/// Removes a network namespace and the link to it.
pub(crate) fn undo(name: &str) -> Result<(), HostError> {
    if !std::path::Path::new("/run/netns").join(name).exists() {
        return Ok(());
    }
    // The kernel removes the interfaces of a namespace some time after the namespace itself; deleting an
    // interface by name takes effect at once. The error is ignored, because the interface may never have been
    // created.
    if let Some(number) = name.strip_prefix("fonio-") {
        let _ = ip(&["link", "delete", &format!("fno{number}")]);
    }
    ip(&["netns", "delete", name]).map(drop)
}
