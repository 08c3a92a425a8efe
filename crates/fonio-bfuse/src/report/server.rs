//! Serves the statistics of a mount on sockets.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use fonio_core::prometheus::CONTENT_TYPE;
use fonio_system::{MountPoint, Text, TextServer, TrustedFolder, state};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::pipe::{PipeFlags, pipe_with};

use super::{Report, prometheus};
use crate::error::MountError;
use crate::filesystem::FileSystem;
use crate::our_mounts;
use crate::statistics::BufferStatistics;

const PATIENCE: Duration = Duration::from_secs(2);

/// Returns the path of a mount's socket. The file name contains the mount's device number, which is unique
/// while the mount exists.
pub(super) fn socket_of(mount: &MountPoint) -> PathBuf {
    state::folder().join(format!("mount-{}.socket", mount.device))
}

/// Returns whether the daemon of a mount accepts connections. Does not connect if other users can change the
/// folder of the sockets, because a connection to another user's socket can block.
pub(crate) fn is_served(mount: &MountPoint) -> bool {
    has_own_folder() && UnixStream::connect(socket_of(mount)).is_ok()
}

fn has_own_folder() -> bool {
    TrustedFolder::open(&state::folder()).is_ok_and(|folder| folder.is_some())
}

/// Removes the sockets of mounts that no longer exist, for example after `kill -9`.
pub(crate) fn sweep() {
    if !has_own_folder() {
        return;
    }
    let standing: Vec<PathBuf> = our_mounts::all().iter().map(socket_of).collect();
    for entry in std::fs::read_dir(state::folder()).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name();
        let is_mounts =
            name.to_str().is_some_and(|name| name.starts_with("mount-") && name.ends_with(".socket"));
        // The daemon of a new mount may not be listening yet.
        if !is_mounts || standing.contains(&path) {
            continue;
        }
        // Keep the sockets of daemons in other mount namespaces, because this process does not see the mounts
        // of these daemons.
        if UnixStream::connect(&path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
            // Another process may have removed the socket already.
            let _ = std::fs::remove_file(&path);
        }
    }
}

/// The server of a mount's statistics. Dropping this value stops the server.
#[derive(Debug)]
pub(crate) struct Server {
    /// Serves the metrics to Prometheus, if an address was given.
    _metrics: Option<TextServer>,
    socket: PathBuf,
    stop: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens on the socket of the mount, and for Prometheus if an address is given. Fails if the server
    /// cannot listen at the socket or at the address.
    pub(crate) fn start(
        mount: &MountPoint,
        file_system: &Arc<FileSystem>,
        buffer: &Arc<BufferStatistics>,
        prometheus: Option<SocketAddr>,
    ) -> Result<Self, MountError> {
        let socket = socket_of(mount);
        let folder = state::folder();
        state::make(&folder).map_err(MountError::system("create the folder", &folder))?;
        // A killed daemon whose mount had the same device number may have left this socket.
        let _ = std::fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket).map_err(MountError::system("listen at", &socket))?;
        let metrics = prometheus.map(|address| serve_metrics(address, file_system, buffer)).transpose()?;
        let (stopped, stop) =
            pipe_with(PipeFlags::CLOEXEC).map_err(MountError::system("create a pipe for", &socket))?;
        let (file_system, buffer) = (Arc::clone(file_system), Arc::clone(buffer));
        let thread = std::thread::Builder::new()
            .name("fonio-report".to_owned())
            .spawn(move || answer(&listener, &stopped, || Report::of(&file_system, &buffer)))
            .map_err(MountError::system("start a thread for", &socket))?;
        Ok(Self { _metrics: metrics, socket, stop, thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = rustix::io::write(&self.stop, b"x");
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = std::fs::remove_file(&self.socket);
    }
}

fn serve_metrics(
    address: SocketAddr,
    file_system: &Arc<FileSystem>,
    buffer: &Arc<BufferStatistics>,
) -> Result<TextServer, MountError> {
    let (file_system, buffer) = (Arc::clone(file_system), Arc::clone(buffer));
    let metrics = move |_: &str| {
        let text = prometheus::text(&Report::of(&file_system, &buffer));
        Some(Text { kind: CONTENT_TYPE, text })
    };
    TextServer::start(address, metrics)
        .map_err(MountError::system("listen for Prometheus at", address.to_string()))
}

fn answer(listener: &UnixListener, stopped: &OwnedFd, report: impl Fn() -> Report) {
    loop {
        let mut waited = [PollFd::new(stopped, PollFlags::IN), PollFd::new(listener, PollFlags::IN)];
        if poll(&mut waited, None).is_err() {
            continue;
        }
        let [stop, client] = waited.map(|one| !one.revents().is_empty());
        if stop {
            return;
        }
        // If `accept` fails, the client has already disconnected.
        if client {
            let _ = listener.accept().and_then(|(stream, _)| answer_json(stream, &report()));
        }
    }
}

fn answer_json(mut stream: UnixStream, report: &Report) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(&serde_json::to_vec(report)?)
}
