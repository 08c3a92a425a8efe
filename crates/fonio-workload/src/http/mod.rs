//! A subset of HTTP/1.1 for fetching objects: a server that generates every requested object, and a client
//! with a persistent connection. The bytes pass through a real socket, so a shaped link limits the app.
//!
//! A request is `GET /random/SEED/BYTES`, or `POST` to the same path with a body; `text` and `deflated` are the other
//! kinds of [`Content`](crate::definition::Content).

mod client;
mod server;

pub(crate) use client::Client;
pub use server::Server;

use std::io::{self, BufRead};

const HEAD_BYTES_MAX: u64 = 16 * 1024;

/// Reads a header, and returns its first line and the body length; `None` if the connection has ended.
fn read_head(stream: &mut impl BufRead) -> io::Result<Option<(String, u64)>> {
    let mut head = io::Read::take(stream, HEAD_BYTES_MAX);
    let mut line = String::new();
    if head.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let first = line.trim_end().to_owned();
    let mut body_bytes = 0;
    loop {
        line.clear();
        if head.read_line(&mut line)? == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the header is truncated or too long"));
        }
        let field = line.trim_end();
        if field.is_empty() {
            return Ok(Some((first, body_bytes)));
        }
        if let Some((name, value)) = field.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            body_bytes = value
                .trim()
                .parse()
                .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "content-length is not a number"))?;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;
    use crate::definition::Content;

    #[test]
    fn objects_arrive_as_they_were_asked_for() {
        let server = Server::start("127.0.0.1:0".parse().unwrap()).unwrap();
        let mut client = Client::new(server.address());
        let mut body = Vec::new();
        for (content, bytes, send) in [
            (Content::Random, 0, 0),
            (Content::Random, 1, 0),
            (Content::Text, 100_000, 0),
            (Content::Deflated, 3 << 20, 0),
            (Content::Random, 70_001, 200_000),
        ] {
            client.fetch(content, 42, bytes, send, &mut body).unwrap();
            assert_eq!(body, content.bytes(42, bytes as usize), "{content:?}, {bytes} bytes");
        }
    }

    #[test]
    fn connections_run_beside_each_other() {
        let server = Server::start("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = server.address();
        std::thread::scope(|scope| {
            for seed in 0..8 {
                scope.spawn(move || {
                    let mut client = Client::new(address);
                    let mut body = Vec::new();
                    for _ in 0..20 {
                        client.fetch(Content::Random, seed, 10_000, 0, &mut body).unwrap();
                        assert_eq!(body, Content::Random.bytes(seed, 10_000));
                    }
                });
            }
        });
    }

    #[test]
    fn a_server_survives_nonsense_and_ends() {
        let server = Server::start("127.0.0.1:0".parse().unwrap()).unwrap();
        for nonsense in [
            "",
            "\r\n\r\n",
            "GET /random/1\r\n\r\n",
            "GET /random/1/x\r\n\r\n",
            "PUT /a/1/1\r\n\r\n",
            "GET /random/1/99999999999999\r\n\r\n",
        ] {
            let mut stream = TcpStream::connect(server.address()).unwrap();
            stream.write_all(nonsense.as_bytes()).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{nonsense:?}: {answer}");
        }
        let address = server.address();
        drop(server);
        let mut client = Client::new(address);
        assert!(client.fetch(Content::Random, 1, 10, 0, &mut Vec::new()).is_err());
    }
}
