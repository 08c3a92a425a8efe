//! A client of a results service over HTTP, with TLS for `https://` addresses.
//!
//! A server's certificate is checked against the certificate authorities that browsers trust. The list of
//! these authorities is built in, because a board may have no such list, or an outdated one. As with OpenSSL,
//! the environment variable `SSL_CERT_FILE` can name a file with authorities that replace this list.

use std::collections::BTreeSet;
use std::time::Duration;
use std::{fs, io};

use anyhow::{Context, Result, anyhow, bail};
use fonio_core::untrusted::is_foreign;
use serde::Deserialize;
use serde_json::Value;
use ureq::Agent;
use ureq::http::{Response, StatusCode};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};

const TIME_MAX: Duration = Duration::from_secs(30);
const ANSWER_BYTES_MAX: u64 = 4 << 20;
/// The environment variable with the path of a PEM file of authorities; these authorities replace the
/// built-in list.
const AUTHORITIES: &str = "SSL_CERT_FILE";

pub struct Server {
    address: String,
    agent: Agent,
}

/// A service's answer to a request.
struct Reply {
    status: StatusCode,
    /// The time after which the service wants to be asked again.
    retry_after: Option<Duration>,
    /// The JSON of the answer; null for an empty answer, and `None` if the answer is not JSON.
    value: Option<Value>,
}

/// What became of a day that was sent to a fleet.
pub enum SentDay {
    /// The service has stored the day.
    Stored,
    /// The service had the day already.
    Known,
    /// The service cannot store the day now, and may be able to after this time, if it named one.
    Later(Option<Duration>, anyhow::Error),
}

/// The results service's response to a submitted result.
#[derive(Debug, Deserialize)]
pub struct Submitted {
    pub id: String,
    /// The state of the submitted result: `received` or `hidden`.
    pub state: String,
    pub reason: Option<String>,
    /// The secret token for deleting the submitted result.
    pub delete_token: String,
    pub page: String,
}

/// The cumulative distribution of a figure among the submitted results.
#[derive(Debug, Deserialize)]
pub struct Ecdf {
    pub results: u64,
    pub points: Vec<Point>,
}

/// A point of a figure's cumulative distribution.
#[derive(Debug, Deserialize)]
pub struct Point {
    pub value: f64,
    /// The share of results whose value is smaller.
    pub share: f64,
}

impl Server {
    /// Parses the address of a server, without connecting to it.
    pub fn at(address: &str) -> Result<Server> {
        let address = address.trim_end_matches('/');
        let host = ["http://", "https://"].iter().find_map(|scheme| address.strip_prefix(scheme));
        if host.is_none_or(|host| host.is_empty() || host.contains(char::is_whitespace)) {
            bail!("`{address}` is not the address of a server; write https://HOST or http://HOST:PORT");
        }
        let trusted = if address.starts_with("https://") { authorities()? } else { RootCerts::WebPki };
        let config = Agent::config_builder()
            .timeout_global(Some(TIME_MAX))
            .http_status_as_error(false)
            .max_redirects(0)
            .tls_config(TlsConfig::builder().root_certs(trusted).build())
            .user_agent(format!("fonio/{}", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(Server { address: address.to_owned(), agent: Agent::new_with_config(config) })
    }

    /// Returns the server's address, under which delete tokens are stored.
    pub fn address(&self) -> &str {
        &self.address
    }

    pub fn submit(&self, json: &str) -> Result<Submitted> {
        let address = format!("{}/api/v1/results", self.address);
        let sent = self.agent.post(&address).header("Content-Type", "application/json").send(json);
        let answer = self.answer(sent)?;
        serde_json::from_value(answer).with_context(|| self.unexpected())
    }

    pub fn delete(&self, id: &str, token: &str) -> Result<()> {
        let address = format!("{}/api/v1/results/{id}", self.address);
        let sent = self.agent.delete(&address).header("Authorization", format!("Bearer {token}")).call();
        self.answer(sent).map(drop)
    }

    /// Returns the distribution of a figure among the results with this key; `None` if the server has no
    /// results with this key.
    pub fn ecdf(&self, key: &str, figure: &str) -> Result<Option<Ecdf>> {
        let address = format!("{}/api/v1/ecdf?key={key}&figure={figure}", self.address);
        let sent = self.agent.get(&address).call();
        if sent.as_ref().is_ok_and(|answer| answer.status() == 404) {
            return Ok(None);
        }
        let answer = self.answer(sent)?;
        serde_json::from_value(answer).map(Some).with_context(|| self.unexpected())
    }

    /// Returns the days that a fleet has of a device.
    pub fn days(&self, device: &str, token: &str) -> Result<BTreeSet<String>> {
        #[derive(Deserialize)]
        struct Days {
            days: BTreeSet<String>,
        }
        let address = format!("{}/api/v1/fleet/{device}", self.address);
        let sent = self.agent.get(&address).header("Authorization", format!("Bearer {token}")).call();
        let answer = self.answer(sent)?;
        let days: Days = serde_json::from_value(answer).with_context(|| self.unexpected())?;
        Ok(days.days)
    }

    /// Sends the file of a day to a fleet. Returns an error if another try cannot help.
    pub fn send_day(&self, device: &str, day: &str, token: &str, file: &[u8]) -> Result<SentDay> {
        let address = format!("{}/api/v1/fleet/{device}/{day}", self.address);
        let put = self.agent.put(&address).header("Authorization", format!("Bearer {token}"));
        let reply = match self.reply(put.header("Content-Type", "application/gzip").send(file)) {
            Ok(reply) => reply,
            Err(error) => return Ok(SentDay::Later(None, error)),
        };
        match reply.status {
            StatusCode::CREATED => Ok(SentDay::Stored),
            StatusCode::CONFLICT => Ok(SentDay::Known),
            // The disk of the service stays full until its operator has done something.
            status if status.is_server_error() && status != StatusCode::INSUFFICIENT_STORAGE => {
                Ok(SentDay::Later(reply.retry_after, self.refusal(reply)))
            }
            StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => {
                Ok(SentDay::Later(reply.retry_after, self.refusal(reply)))
            }
            _ => Err(self.refusal(reply)),
        }
    }

    fn unexpected(&self) -> String {
        format!("{} does not answer like a results service of fonio", self.address)
    }

    fn answer(&self, sent: Result<Response<ureq::Body>, ureq::Error>) -> Result<Value> {
        let reply = self.reply(sent)?;
        if reply.status.is_success() {
            return reply.value.with_context(|| self.unexpected());
        }
        Err(self.refusal(reply))
    }

    fn reply(&self, sent: Result<Response<ureq::Body>, ureq::Error>) -> Result<Reply> {
        let mut answer = match sent {
            Ok(answer) => answer,
            // The TLS library rejected the connection.
            Err(ureq::Error::Io(error)) if error.kind() == io::ErrorKind::InvalidData => {
                return Err(error).with_context(|| {
                    format!(
                        "no trusted encrypted connection to {}; if its certificate comes from your own authority, give \
                         the authority's certificate with {AUTHORITIES}=FILE; if the server has no TLS, write http://",
                        self.address
                    )
                });
            }
            Err(error) => {
                return Err(error).with_context(|| {
                    format!(
                        "{} cannot be reached; check the address, and whether the service runs",
                        self.address
                    )
                });
            }
        };
        let status = answer.status();
        let text = answer
            .body_mut()
            .with_config()
            .limit(ANSWER_BYTES_MAX)
            .read_to_string()
            .with_context(|| self.unexpected())?;
        let value: Option<Value> =
            if text.is_empty() { Some(Value::Null) } else { serde_json::from_str(&text).ok() };
        let after = answer.headers().get("Retry-After").and_then(|after| after.to_str().ok()?.parse().ok());
        Ok(Reply { status, retry_after: after.map(Duration::from_secs), value })
    }

    /// Returns the error for a refused request.
    fn refusal(&self, reply: Reply) -> anyhow::Error {
        // Extract the error message, shorten it, and keep only characters that a terminal can show safely.
        let Reply { status, value, .. } = reply;
        let said = value.and_then(|value| {
            let error = value.get("error")?.as_str()?.to_owned();
            let places = value.get("problems").and_then(Value::as_array).into_iter().flatten();
            let places: Vec<String> = places
                .filter_map(|place| {
                    Some(format!("{}: {}", place.get("path")?.as_str()?, place.get("sentence")?.as_str()?))
                })
                .collect();
            Some(std::iter::once(error).chain(places).collect::<Vec<_>>().join("; "))
        });
        let said: String =
            said.unwrap_or_default().chars().filter(|letter| !is_foreign(*letter)).take(1000).collect();
        match said.is_empty() {
            true => anyhow!("{} answered {status}", self.address),
            false => anyhow!("{} refused the request ({status}): {said}", self.address),
        }
    }
}

fn authorities() -> Result<RootCerts> {
    let Some(file) = std::env::var_os(AUTHORITIES) else { return Ok(RootCerts::WebPki) };
    let file = std::path::Path::new(&file);
    let about = || format!("{AUTHORITIES} names {}", file.display());
    let text = fs::read(file).with_context(about)?;
    let mut certificates = Vec::new();
    for item in parse_pem(&text) {
        if let PemItem::Certificate(certificate) = item.with_context(about)? {
            certificates.push(certificate);
        }
    }
    if certificates.is_empty() {
        bail!("{}, which contains no PEM certificate", about());
    }
    Ok(RootCerts::new_with_certs(&certificates))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_of_http_or_https() {
        for (address, is_valid) in [
            ("http://127.0.0.1:8080/", true),
            ("http://results.example", true),
            ("https://results.example", true),
            ("results.example", false),
            ("http://", false),
            ("https://a b", false),
            ("ftp://x", false),
        ] {
            match Server::at(address) {
                Ok(_) => assert!(is_valid, "{address}"),
                Err(error) => {
                    assert!(!is_valid, "{address}: {error:#}");
                    assert!(error.to_string().contains("write https://HOST"), "{error:#}");
                }
            }
        }
    }
}
