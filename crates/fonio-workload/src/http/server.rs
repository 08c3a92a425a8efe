use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::read_head;
use crate::content::Content;

const OBJECT_BYTES_MAX: u64 = 1 << 30;

/// Number of bytes generated and sent at a time: a multiple of 8, as [`Content::fill`] requires.
const PIECE_BYTES: usize = 64 * 1024;

/// A server of generated objects, with one thread per connection. Dropping this value stops the server. A
/// connection stays open until its client closes it.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts a server on `address`; with port 0, the kernel chooses a port. Fails if the server cannot
    /// listen on the address.
    pub fn start(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let ended = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&ended);
        let thread =
            thread::Builder::new().name("objects".to_owned()).spawn(move || accept(&listener, &flag))?;
        Ok(Server { address, ended, thread: Some(thread) })
    }

    /// Returns the address on which the server listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves requests until the process ends. A separate process in another network namespace calls this
    /// function. Fails if the server cannot listen on the address.
    pub fn run(address: SocketAddr) -> io::Result<()> {
        accept(&TcpListener::bind(address)?, &AtomicBool::new(false));
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        // Connect once to wake `accept`, which waits for a connection.
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_secs(1));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn accept(listener: &TcpListener, ended: &AtomicBool) {
    for stream in listener.incoming() {
        if ended.load(Ordering::Acquire) {
            return;
        }
        match stream {
            Ok(stream) => {
                // Ignore errors: they mean that the client disconnected early.
                let _ = thread::Builder::new().name("objects".to_owned()).spawn(move || serve(stream));
            }
            // Accepting can fail if no file descriptor is free. Other connections may close soon and free
            // descriptors.
            Err(_) => thread::sleep(Duration::from_millis(10)),
        }
    }
}

fn serve(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut piece = vec![0; PIECE_BYTES];
    while let Some((first, body_bytes)) = read_head(&mut reader)? {
        io::copy(&mut Read::take(&mut reader, body_bytes), &mut io::sink())?;
        let Some((content, seed, bytes)) = object(&first) else {
            stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")?;
            return stream.shutdown(std::net::Shutdown::Both);
        };
        // Send the header and the first chunk in one call, like other HTTP servers.
        let mut head = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n").into_bytes();
        let mut sent = 0;
        while !head.is_empty() || sent < bytes {
            let len = (bytes - sent).min(PIECE_BYTES as u64) as usize;
            content.fill(seed, sent, &mut piece[..len]);
            if head.is_empty() {
                stream.write_all(&piece[..len])?;
            } else {
                head.extend_from_slice(&piece[..len]);
                stream.write_all(&head)?;
                head.clear();
            }
            sent += len as u64;
        }
    }
    Ok(())
}

fn object(first: &str) -> Option<(Content, u64, u64)> {
    let mut words = first.split(' ');
    if !matches!(words.next()?, "GET" | "POST") {
        return None;
    }
    let mut parts = words.next()?.strip_prefix('/')?.split('/');
    let kind = parts.next()?;
    let (content, _) = Content::NAMES.into_iter().find(|(_, name)| *name == kind)?;
    let seed = parts.next()?.parse().ok()?;
    let bytes = parts.next()?.parse().ok().filter(|&bytes| bytes <= OBJECT_BYTES_MAX)?;
    parts.next().is_none().then_some((content, seed, bytes))
}
