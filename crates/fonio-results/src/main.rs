//! The program `fonio-results`, which serves results and backs up their database.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::{Args, Parser, Subcommand};
use fonio_results::database::Location;
use fonio_results::fleet::Fleet;
use fonio_results::forwarded::ProxyHeader;
use fonio_results::limits::Rate;
use fonio_results::review::{self, Decided};
use fonio_results::serve;
use fonio_results::service::{Service, Settings};
use fonio_results::store::Verdict;
use tokio::signal::unix::{SignalKind, signal};

/// Receive, rank and show results of `fonio storebench`, and receive the days of devices of a fleet.
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve pages and the API until SIGTERM. Example: fonio-results serve --data /var/lib/fonio-results --listen 127.0.0.1:8080
    Serve(Serve),
    /// Review results with texts that the service does not know. Example: fonio-results review list --data /var/lib/fonio-results
    Review {
        #[command(subcommand)]
        action: Review,
    },
    /// Copy the database into a new file; the service can keep running. Example: fonio-results backup --data
    /// /var/lib/fonio-results copy.sqlite
    Backup {
        #[command(flatten)]
        place: Place,
        /// The new file.
        file: PathBuf,
    },
}

#[derive(Subcommand)]
enum Review {
    /// List the results that wait for review, with their unknown texts. Example: fonio-results review list --data results
    List {
        #[command(flatten)]
        place: Place,
    },
    /// Print the document of a result that waits for review. Example: fonio-results review show --data results ID
    Show {
        #[command(flatten)]
        place: Place,
        /// The id of the result.
        id: String,
    },
    /// Publish a result, and accept its texts in all results. Example: fonio-results review publish --data results ID
    Publish {
        #[command(flatten)]
        place: Place,
        /// Do not accept the texts in other results.
        #[arg(long)]
        once: bool,
        /// The id of the result.
        id: String,
    },
    /// Delete a result that waits for review. Example: fonio-results review reject --data results ID
    Reject {
        #[command(flatten)]
        place: Place,
        /// The id of the result.
        id: String,
    },
    /// Hold a published result back, so that it waits for review. Example: fonio-results review withhold --data results ID
    Withhold {
        #[command(flatten)]
        place: Place,
        /// The id of the result.
        id: String,
    },
}

#[derive(Args)]
struct Place {
    /// The folder of the SQLite database; it must exist.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// A PostgreSQL database, instead of --data: postgres://USER:PASSWORD@HOST:PORT/NAME. The connection is
    /// not encrypted.
    #[arg(long, value_name = "URL", env = "FONIO_RESULTS_DATABASE", hide_env_values = true)]
    database: Option<String>,
}

#[derive(Args)]
struct Serve {
    #[command(flatten)]
    place: Place,
    /// The address and port; port 0 chooses a free port. The service prints the port.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// The public address of the service, such as https://results.example.org. Without this address, replies
    /// contain only paths.
    #[arg(long, value_name = "URL", default_value = "")]
    public_url: String,
    /// The address of a trusted proxy, which names its clients in a header. Can be given several times.
    #[arg(long, value_name = "ADDR")]
    proxy: Vec<IpAddr>,
    /// The header of the trusted proxies: x-forwarded-for, or forwarded (RFC 7239).
    #[arg(long, value_name = "NAME", default_value = "x-forwarded-for", value_parser = ["x-forwarded-for", "forwarded"])]
    proxy_header: String,
    /// Requests per second that one address may send; a burst may have four times as many.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    requests_per_second: u32,
    /// Submissions and deletions per minute that one address may send; all of them may come in one burst.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    submissions_per_minute: u32,
    /// Submissions that are read and written at the same time; further clients are told to try again later. At
    /// 1,000 submissions a second, the last one of 256 waits a quarter of a second.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..=1000))]
    submissions_at_once: u16,
    /// Publish all texts without review. Only for a service that nobody else can reach.
    #[arg(long)]
    no_review: bool,
    /// Also receive the days of devices (`fonio watch send`) in this folder, which must exist: the folder of a fleet.
    #[arg(long, value_name = "DIR", requires = "fleet_tokens")]
    fleet: Option<PathBuf>,
    /// The file with the tokens of the fleet's devices: one in a line, and after it the last day on which it is valid,
    /// if there is one. Only the owner of the file may read it.
    #[arg(long, value_name = "FILE", requires = "fleet")]
    fleet_tokens: Option<PathBuf>,
    /// Threads that read the database.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=64))]
    readers: u8,
}

impl Place {
    fn location(self) -> Result<Location> {
        match (self.data, self.database) {
            (_, Some(url)) if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
                Ok(Location::Server(url))
            }
            (_, Some(_)) => bail!(
                "--database needs an address such as postgres://USER@HOST:5432/NAME; for SQLite, use --data"
            ),
            (Some(folder), None) => Ok(Location::Folder(folder)),
            (None, None) => bail!("give a folder with --data, or a PostgreSQL database with --database"),
        }
    }
}

fn main() -> ExitCode {
    let run = match Cli::parse().command {
        Command::Serve(arguments) => run(arguments),
        Command::Review { action } => review(action),
        Command::Backup { place, file } => {
            place.location().and_then(|location| Ok(location.back_up(&file)?)).map(|()| {
                println!("Backup: {}", file.display());
            })
        }
    };
    match run {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fonio-results: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn review(action: Review) -> Result<()> {
    let out = &mut std::io::stdout().lock();
    let (place, id, verdict, done) = match action {
        Review::List { place } => return Ok(review::list(&place.location()?, out)?),
        Review::Show { place, id } => {
            if !review::show(&place.location()?, &id, out)? {
                bail!("no result with the id {id} waits for review; see fonio-results review list");
            }
            return Ok(());
        }
        Review::Publish { place, once: false, id } => (place, id, Verdict::Publish, "Published"),
        Review::Publish { place, once: true, id } => (place, id, Verdict::PublishOnce, "Published"),
        Review::Reject { place, id } => (place, id, Verdict::Reject, "Deleted"),
        Review::Withhold { place, id } => (place, id, Verdict::Withhold, "Held back"),
    };
    match review::decide(&place.location()?, &id, verdict)? {
        Decided::Done => writeln!(out, "{done}: {id}")?,
        Decided::Pending => bail!(
            "the decision is stored, but the service has not carried it out yet; see its log for the reason"
        ),
        Decided::Unknown if verdict == Verdict::Withhold => bail!("no published result has the id {id}"),
        Decided::Unknown => {
            bail!("no result with the id {id} waits for review; see fonio-results review list")
        }
    }
    Ok(())
}

fn run(arguments: Serve) -> Result<()> {
    let submissions = f64::from(arguments.submissions_per_minute);
    let requests = f64::from(arguments.requests_per_second);
    let fleet = arguments.fleet.as_deref().zip(arguments.fleet_tokens.as_deref());
    let fleet = fleet.map(|(folder, tokens)| Fleet::open(folder, tokens)).transpose()?;
    let settings = Settings {
        location: arguments.place.location()?,
        readers: usize::from(arguments.readers),
        requests: Rate { per_s: requests, burst: 4.0 * requests },
        submissions: Rate { per_s: submissions / 60.0, burst: submissions },
        reviews: !arguments.no_review,
        submissions_at_once: arguments.submissions_at_once,
        proxies: arguments.proxy.iter().map(IpAddr::to_canonical).collect(),
        proxy_header: match arguments.proxy_header.as_str() {
            "forwarded" => ProxyHeader::Forwarded,
            _ => ProxyHeader::XForwardedFor,
        },
        public_url: arguments.public_url.trim_end_matches('/').to_owned(),
        fleet: fleet.map(Arc::new),
    };
    // Start the database threads outside the runtime, because they must not run inside it.
    let (service, writer) = Service::start(&settings)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start threads")?;
    let ended = runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let listener = serve::listen(arguments.listen).await.map_err(anyhow::Error::msg)?;
        println!(
            "Results are served on http://{}/ from {}",
            listener.local_addr()?,
            settings.location.shown()
        );
        let stop = async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        serve::serve(listener, serve::router(service), serve::Times::default(), stop).await;
        anyhow::Ok(())
    });
    // This ends the handlers and drops the last sender of the writer thread's queue. The writer thread then
    // finishes the accepted submissions.
    drop(runtime);
    if writer.join().is_err() {
        bail!("the thread that writes to the database has panicked");
    }
    ended
}
