use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::read_head;
use crate::content::Content;
use crate::error::WorkloadError;

/// Timeout of a network operation, longer than any stall of a shaped link.
const TIMEOUT: Duration = Duration::from_secs(120);

/// An HTTP client with one connection, which is opened on first use.
#[derive(Debug)]
pub(crate) struct Client {
    address: SocketAddr,
    stream: Option<BufReader<TcpStream>>,
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Client { address, stream: None }
    }

    /// Fetches an object of `bytes` bytes into `body`, with `send` bytes in the request body.
    pub(crate) fn fetch(
        &mut self,
        content: Content,
        seed: u64,
        bytes: u64,
        send: u64,
        body: &mut Vec<u8>,
    ) -> Result<(), WorkloadError> {
        let address = self.address;
        let failed = |operation| move |source| WorkloadError::Http { address, operation, source };
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None => {
                let stream = TcpStream::connect(address).map_err(failed("connect"))?;
                stream
                    .set_nodelay(true)
                    .and_then(|()| stream.set_read_timeout(Some(TIMEOUT)))
                    .and_then(|()| stream.set_write_timeout(Some(TIMEOUT)))
                    .map_err(failed("set up the socket"))?;
                self.stream.insert(BufReader::with_capacity(64 * 1024, stream))
            }
        };
        let kind = Content::NAMES.into_iter().find(|(known, _)| *known == content);
        let (_, kind) = kind.expect("each kind of content has a name");
        let method = if send > 0 { "POST" } else { "GET" };
        let mut request = format!(
            "{method} /{kind}/{seed}/{bytes} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {send}\r\n\r\n"
        )
        .into_bytes();
        let head_bytes = request.len();
        request.resize(head_bytes + send as usize, 0);
        Content::Random.fill(seed, 0, &mut request[head_bytes..]);
        stream.get_mut().write_all(&request).map_err(failed("send the request"))?;

        let head = read_head(stream).map_err(failed("read the response"))?;
        let (first, announced) = head.ok_or_else(|| WorkloadError::HttpAnswer {
            address,
            problem: "the server closed the connection without a response".to_owned(),
        })?;
        if !first.starts_with("HTTP/1.1 200 ") || announced != bytes {
            return Err(WorkloadError::HttpAnswer {
                address,
                problem: format!(
                    "requested {bytes} bytes, got `{first}` with {announced}; check that this is fonio's server"
                ),
            });
        }
        body.resize(bytes as usize, 0);
        stream.read_exact(body).map_err(failed("read the object"))
    }
}
