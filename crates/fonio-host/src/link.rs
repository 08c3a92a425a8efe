//! A shaped link to a server of our own: a network namespace, a pair of virtual interfaces, a token bucket at each end.
//!
//! Real sockets then see the rates of a phone's WiFi. Loss and delay beyond the queue's own are not made: kernels
//! without `netem` are common, and the studies give rates only.

use std::net::Ipv4Addr;
use std::process::Command;

use crate::{Entry, HostError, Ledger, Step, run};

/// The rates of a link, as the phone sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkRates {
    /// To the phone, in bytes a second.
    pub receive: u64,
    /// From the phone, in bytes a second.
    pub transmit: u64,
}

impl LinkRates {
    /// The names of the links that there are.
    pub const NAMES: [&str; 2] = ["wifi", "usb"];

    /// A link of the first study (Kim et al., Table II, megabytes of 10^6 bytes).
    pub fn named(name: &str) -> Option<LinkRates> {
        match name {
            "wifi" => Some(LinkRates { receive: 1_100_000, transmit: 530_000 }),
            "usb" => Some(LinkRates { receive: 8_040_000, transmit: 7_140_000 }),
            _ => None,
        }
    }
}

/// A link. It goes with its ledger.
#[derive(Debug)]
pub struct Link {
    namespace: String,
    server: Ipv4Addr,
    entry: Entry,
}

/// Networks kept for measurements between network devices (RFC 2544), which nothing else uses. A link takes four
/// addresses of it.
const NETWORK: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);
const LINKS_MAX: u32 = 1 << 15;
/// Bytes that pass at once before the rate holds: a few full-size packets, so that short answers are shaped too.
const BURST: &str = "16kb";
/// How long a packet may wait in the queue before it is dropped: a phone's WiFi queues are of this size.
const QUEUE_TIME: &str = "200ms";

impl Link {
    /// Makes a namespace and a link of these rates into it. What listens on [`Link::server`] must be started with
    /// [`Link::command`].
    ///
    /// # Errors
    ///
    /// [`HostError::NotRoot`], or [`HostError::ProgramMissing`] and [`HostError::ProgramFailed`] of `ip` and `tc`.
    pub fn make(ledger: &mut Ledger, rates: LinkRates) -> Result<Link, HostError> {
        if !rustix::process::geteuid().is_root() {
            return Err(HostError::NotRoot { needs: "a shaped network link" });
        }
        let number = std::process::id() % LINKS_MAX;
        let (namespace, inside, outside) =
            (format!("fonio-{number}"), format!("fni{number}"), format!("fno{number}"));
        let base = u32::from(NETWORK) + number * 4;
        let (client, server) = (Ipv4Addr::from(base + 1), Ipv4Addr::from(base + 2));
        let entry = ledger.begin(Step::Namespace { name: namespace.clone() })?;
        if let Err(error) = ip(&["netns", "add", &namespace]) {
            // Somebody else's of the same name stays.
            ledger.end(entry)?;
            return Err(error);
        }
        ip(&["link", "add", &outside, "type", "veth", "peer", "name", &inside, "netns", &namespace])?;
        ip(&["address", "add", &format!("{client}/30"), "dev", &outside])?;
        ip(&["link", "set", &outside, "up"])?;
        let within = ["-n", &namespace];
        ip(&[&within[..], &["address", "add", &format!("{server}/30"), "dev", &inside]].concat())?;
        ip(&[&within[..], &["link", "set", &inside, "up"]].concat())?;
        // Each end shapes what it sends.
        let (transmit, receive) = (rate(rates.transmit), rate(rates.receive));
        run("tc", "iproute2", &shaping(&outside, &transmit))?;
        run("tc", "iproute2", &[&within[..], &shaping(&inside, &receive)].concat())?;
        Ok(Link { namespace, server, entry })
    }

    /// The address at the far end.
    pub fn server(&self) -> Ipv4Addr {
        self.server
    }

    /// A command that runs `program` at the far end.
    ///
    /// It shares our mounts. `ip netns exec` would give it a copy of them, which keeps every device that is mounted now busy
    /// until the program ends, whoever unmounts it.
    pub fn command(&self, program: &std::path::Path) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.namespace)).arg("--").arg(program);
        command
    }

    /// Takes it away. The program at the far end must have ended.
    ///
    /// # Errors
    ///
    /// [`HostError::ProgramFailed`].
    pub fn remove(self, ledger: &mut Ledger) -> Result<(), HostError> {
        ledger.undo(self.entry)
    }
}

fn ip(arguments: &[&str]) -> Result<String, HostError> {
    run("ip", "iproute2", arguments)
}

/// tc wants bits and no unit that could be taken for two.
fn rate(bytes_per_second: u64) -> String {
    format!("{}bit", bytes_per_second * 8)
}

fn shaping<'a>(interface: &'a str, rate: &'a str) -> [&'a str; 12] {
    let root = ["qdisc", "add", "dev", interface, "root", "tbf"];
    let [a, b, c, d, e, f] = root;
    [a, b, c, d, e, f, "rate", rate, "burst", BURST, "latency", QUEUE_TIME]
}

/// Removes a namespace and the link into it.
pub(crate) fn undo(name: &str) -> Result<(), HostError> {
    if !std::path::Path::new("/run/netns").join(name).exists() {
        return Ok(());
    }
    // The kernel removes interfaces of a namespace some time after it; by name they are gone at once. Where it was
    // never made, there is none.
    if let Some(number) = name.strip_prefix("fonio-") {
        let _ = ip(&["link", "delete", &format!("fno{number}")]);
    }
    ip(&["netns", "delete", name]).map(drop)
}
