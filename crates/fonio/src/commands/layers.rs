//! `fonio bench layers`.

use std::cell::RefCell;
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result};
use fonio_bench::layers::{Held, Layers, Machine, Plan, measure};
use fonio_host::{Entry, Ledger, ProcessId, Queue, Step};

use crate::cli::{BenchLayers, Colour};
use crate::exit::Exit;
use crate::output;
use crate::signals;

/// From the study's baseline to what `fonio mount` takes by itself.
const MODES: [&str; 5] = ["mode=stock", "mode=extended", "mode=buffered", "mode=writeback", "mode=auto"];

/// Measures each layer and says where most is lost.
pub fn run(arguments: &BenchLayers, colour: Colour) -> Result<Exit> {
    let plan = Plan {
        // The ledger is read by processes that work elsewhere.
        dir: std::fs::canonicalize(&arguments.dir)
            .with_context(|| format!("cannot find {}", arguments.dir.display()))?,
        bytes: arguments.size,
        rounds: usize::from(arguments.rounds),
        destroy: arguments.device.clone().zip(arguments.erase.clone()),
        modes: MODES.map(str::to_owned).into(),
    };
    let recovered = Ledger::recover(&Ledger::default_dir())?;
    for sentence in recovered.undone {
        eprintln!("Cleaned up after an interrupted run: {sentence}.");
    }
    let ledger = Rc::new(RefCell::new(Ledger::open(&Ledger::default_dir())?));
    let stop = signals::watch()?;
    let live = io::stderr().is_terminal();
    let found = measure(
        &plan,
        &mut Machine {
            folder: &mut |path| folder(path, &ledger),
            mount: &mut |source, dir, options| {
                let served = mount(source, dir, options, &ledger);
                served.map(|served| Box::new(served) as Held).map_err(|error| format!("{error:#}"))
            },
            without_scheduler: &mut |device| without_scheduler(device, &ledger),
            progress: &mut |what| {
                if live {
                    eprint!("\r\x1b[K{what} …");
                }
                !stop.load(Ordering::Relaxed)
            },
        },
    );
    if live {
        eprint!("\r\x1b[K");
    }
    let found = found?;
    let mut out = io::stdout().lock();
    if arguments.json {
        serde_json::to_writer_pretty(&mut out, &found)?;
        writeln!(out)?;
    } else {
        show(&found, output::wants_colour(colour), &mut out)?;
    }
    Ok(Exit::Fine)
}

/// Something that the ledger undoes, until this is dropped.
struct Noted {
    entry: Entry,
    ledger: Rc<RefCell<Ledger>>,
}

impl Drop for Noted {
    fn drop(&mut self) {
        if let Err(error) = self.ledger.borrow_mut().undo(self.entry) {
            eprintln!("fonio: {:#}", anyhow::Error::from(error));
        }
    }
}

fn folder(path: &Path, ledger: &Rc<RefCell<Ledger>>) -> io::Result<Held> {
    let entry = ledger.borrow_mut().begin(Step::Tree { path: path.to_owned() }).map_err(io::Error::other)?;
    if let Err(error) = std::fs::create_dir(path) {
        // What is there already is not ours to remove.
        ledger.borrow_mut().end(entry).map_err(io::Error::other)?;
        return Err(error);
    }
    Ok(Box::new(Noted { entry, ledger: Rc::clone(ledger) }))
}

/// A mount in a process of its own, which ends with it.
struct Served {
    child: Child,
    /// Its process, last, and its mount.
    noted: Vec<Noted>,
}

impl Drop for Served {
    fn drop(&mut self) {
        // Asked to end, it unmounts.
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
        while self.noted.pop().is_some() {}
    }
}

fn mount(source: &Path, dir: &Path, options: &str, ledger: &Rc<RefCell<Ledger>>) -> Result<Served> {
    let note = |step| -> Result<Noted> {
        Ok(Noted { entry: ledger.borrow_mut().begin(step)?, ledger: Rc::clone(ledger) })
    };
    let shown = source.to_str().context("the folder's name is not UTF-8")?.to_owned();
    let mounted = note(Step::Mount { dir: dir.to_owned(), source: shown })?;
    let program = std::env::current_exe().context("cannot find our own program")?;
    let mut child = Command::new(program)
        .args(["mount", "--foreground", "-o", options])
        .args([source, dir])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start the fonio executable")?;
    let (output, mut errors) = (child.stdout.take(), child.stderr.take());
    let mut served = Served { child, noted: vec![mounted] };
    if let Some(id) = ProcessId::of(served.child.id()) {
        served.noted.push(note(Step::Process { id, leads_group: false })?);
    }
    let mut line = String::new();
    if let Some(said) = output {
        BufReader::new(said).read_line(&mut line)?;
    }
    if line.is_empty() {
        let mut why = String::new();
        if let Some(errors) = &mut errors {
            errors.read_to_string(&mut why)?;
        }
        let why: Vec<&str> = why.trim().trim_start_matches("fonio: ").lines().map(str::trim).collect();
        anyhow::bail!("{}", why.join("; "));
    }
    // What it says later is about this measurement.
    std::thread::spawn(move || errors.map(|mut errors| io::copy(&mut errors, &mut io::stderr())));
    Ok(served)
}

fn without_scheduler(device: &str, ledger: &Rc<RefCell<Ledger>>) -> Result<Held, String> {
    let entry = Queue::of(device)
        .borrow_scheduler("none", &mut ledger.borrow_mut())
        .map_err(|error| format!("the scheduler cannot be switched: {error}"))?;
    Ok(Box::new(Noted { entry, ledger: Rc::clone(ledger) }))
}

fn show(found: &Layers, colour: bool, out: &mut impl Write) -> io::Result<()> {
    let (bold, dim, plain) = if colour { ("\x1b[1m", "\x1b[2m", "\x1b[0m") } else { ("", "", "") };
    let rate = |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"));
    writeln!(out, "{bold}{}{plain}\n", found.verdict)?;
    writeln!(out, "{dim}{:<32} {:>12} {:>12}{plain}", "layer", "write MB/s", "read MB/s")?;
    for layer in &found.layers {
        writeln!(
            out,
            "{:<32} {:>12} {:>12}  {}",
            layer.name,
            rate(layer.write_mb_s),
            rate(layer.read_mb_s),
            layer.note.as_deref().unwrap_or_default()
        )?;
    }
    writeln!(
        out,
        "\n{dim}{} in requests of 512 KiB, medians of {}; kernel {}{plain}",
        output::bytes(fonio_core::ByteCount(found.bytes)),
        found.rounds,
        found.place.kernel
    )
}
