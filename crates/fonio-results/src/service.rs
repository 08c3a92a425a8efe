//! Defines the state that all requests share: the database threads, the summaries, and the limits.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use axum::http::HeaderMap;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::database::{Connection, DatabaseError, Location, Pool};
use crate::fleet::Fleet;
use crate::forwarded::{self, ProxyHeader};
use crate::limits::{Limiter, Rate};
use crate::store::Scope;
use crate::store::summary::Summary;
use crate::store::{Summaries, Writer, read};
use crate::texts::Accepted;
use crate::{figures, problem::Problem};

/// Settings of the results service.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The location of the stored results.
    pub location: Location,
    /// The number of reader threads.
    pub readers: usize,
    /// Rate limit for requests from one client address.
    pub requests: Rate,
    /// Rate limit for submissions and deletions from one client address.
    pub submissions: Rate,
    /// Maximum number of submissions that are read, written and answered at the same time. The clients of other
    /// submissions are told to try again later.
    pub submissions_at_once: u16,
    /// Whether results with unknown texts wait for review.
    pub reviews: bool,
    /// Addresses of trusted proxies.
    pub proxies: Vec<IpAddr>,
    /// The header in which the trusted proxies name their clients.
    pub proxy_header: ProxyHeader,
    /// The service's public URL without a final slash. If the URL is empty, replies contain only paths.
    pub public_url: String,
    /// The fleet whose devices may send their days.
    pub fleet: Option<Arc<Fleet>>,
}

/// Maximum number of concurrent dumps. A dump reads the complete database.
const DUMPS: usize = 2;

/// Clients that are refused because of overload try again within this number of seconds, each at another second.
const RETRY_SPREAD_S: u64 = 5;

/// A running service, without its sockets.
#[derive(Clone)]
pub struct Service {
    pub(crate) reads: Pool,
    pub(crate) writer: Writer,
    pub(crate) summaries: Summaries,
    pub(crate) figure_ids: Arc<Vec<i64>>,
    pub(crate) dumps: Arc<Semaphore>,
    pub(crate) accepted: Accepted,
    pub(crate) reviews: bool,
    intake: Arc<Semaphore>,
    /// The number of submissions that were refused because too many were in progress.
    refused: Arc<AtomicU64>,
    pub(crate) public_url: Arc<str>,
    pub(crate) fleet: Option<Arc<Fleet>>,
    requests: Arc<Limiter>,
    submissions: Arc<Limiter>,
    proxies: Arc<[IpAddr]>,
    proxy_header: ProxyHeader,
}

impl Service {
    /// Opens the database. The writer thread ends when the service and all its clones are dropped.
    pub fn start(settings: &Settings) -> Result<(Service, JoinHandle<()>), DatabaseError> {
        let summaries = Summaries::default();
        let accepted = Accepted::default();
        let (writer, thread) = Writer::start(&settings.location, summaries.clone(), accepted.clone())?;
        let reads = Pool::start(&settings.location, settings.readers)?;
        let figure_ids = read::figure_ids(settings.location.open_reader()?.as_mut())?;
        let service = Service {
            reads,
            writer,
            summaries,
            figure_ids: Arc::new(figure_ids),
            dumps: Arc::new(Semaphore::new(DUMPS)),
            accepted,
            reviews: settings.reviews,
            intake: Arc::new(Semaphore::new(settings.submissions_at_once.into())),
            refused: Arc::default(),
            public_url: settings.public_url.as_str().into(),
            fleet: settings.fleet.clone(),
            requests: Arc::new(Limiter::new(settings.requests)),
            submissions: Arc::new(Limiter::new(settings.submissions)),
            proxies: settings.proxies.as_slice().into(),
            proxy_header: settings.proxy_header,
        };
        Ok((service, thread))
    }

    /// Runs a query on a reader thread.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&mut dyn Connection, &Lookup) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let lookup = Lookup { summaries: self.summaries.clone(), figure_ids: Arc::clone(&self.figure_ids) };
        // The inner result comes from the query, and the outer result comes from the thread.
        self.reads.run(move |connection| Ok(query(connection, &lookup))).await?
    }

    /// Returns the address of the client, which trusted proxies name in a header.
    pub(crate) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        forwarded::client(peer, &self.proxies, self.proxy_header, headers)
    }

    /// Admits a submission to be read and written, unless too many are in progress. The submission counts until the
    /// returned permit is dropped.
    pub(crate) fn admit_submission(&self) -> Result<OwnedSemaphorePermit, Problem> {
        Arc::clone(&self.intake).try_acquire_owned().map_err(|_| {
            // Spread the next attempts of the clients over some seconds.
            let refused = self.refused.fetch_add(1, Ordering::Relaxed);
            Problem::later_than(
                1 + refused % RETRY_SPREAD_S,
                "the service receives more results than it can store",
            )
        })
    }

    /// Counts a request of a client, and refuses the request if the client exceeds its rate limit.
    pub(crate) fn admit(&self, client: IpAddr, writes: bool) -> Result<(), Problem> {
        let limiter = if writes { &self.submissions } else { &self.requests };
        limiter.take(client, Instant::now()).map_err(Problem::too_many)
    }
}

/// The cached distributions of figures, and the ids of the figures in the database.
pub(crate) struct Lookup {
    summaries: Summaries,
    figure_ids: Arc<Vec<i64>>,
}

impl Lookup {
    /// Returns the scope of a ranked figure's distribution.
    pub(crate) fn scope(&self, device_id: i64, key_id: i64, figure: usize) -> Scope {
        Scope { device_id, key_id, figure_id: self.figure_ids[figure] }
    }

    /// Returns the distribution of a ranked figure, for all devices (0) or for one device.
    pub(crate) fn summary(
        &self,
        connection: &mut dyn Connection,
        device_id: i64,
        key_id: i64,
        figure: usize,
    ) -> Result<Arc<Summary>, DatabaseError> {
        let scope = self.scope(device_id, key_id, figure);
        read::summary(connection, &self.summaries, scope, figures::ranked()[figure].better)
    }
}
