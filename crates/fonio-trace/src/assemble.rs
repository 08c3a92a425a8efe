//! Converts a reader's events into rows. Every foreign trace is converted by this function.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use fonio_core::meta::{Device, Lost, SCHEMA_VERSION};
use fonio_core::{Batch, DeviceId, Meta, RowSink, TraceReader};

use crate::assembler::{Assembler, AssemblerOptions};
use crate::span::TraceSpan;
use crate::waits::{Tap, Waits};

/// Reads `reader` to its end, assembles its events, and pushes the rows into `sink`.
///
/// Requests and bios are pushed in completion order, with calls of [`RowSink::settled`] between them. A sink
/// that needs the order of the tables must sort the rows. If the trace shows waits of threads, no rows settle before
/// its end, so a sink that sorts gets all waits before the first request. The returned [`Meta`] lacks facts that can be found
/// only on the recorded machine. The writer must also fill in `rows`. Fails if the reader's stream or the
/// sink fails. Damage in the input only causes diagnostics.
pub fn assemble(
    reader: &mut dyn TraceReader,
    options: AssemblerOptions,
    sink: &mut dyn RowSink,
) -> io::Result<Meta> {
    let mut assembler = Assembler::new(options);
    let mut batch = Batch::default();
    let mut seen = Seen::default();
    let mut calls = 0;
    let mut waits = Waits::new(reader.may_show_waits());
    loop {
        let more = reader.next_batch(&mut batch)?;
        let fresh = seen.span.ends().is_none();
        seen.batch(&mut batch);
        if let (true, Some((began, _))) = (fresh, seen.span.ends()) {
            sink.began(began)?;
        }
        for row in &batch.threads {
            sink.thread(row)?;
        }
        for row in &batch.files {
            sink.file(row)?;
        }
        for row in &batch.marks {
            sink.mark(row)?;
        }
        for row in &mut batch.calls {
            row.call_id = calls;
            calls += 1;
            sink.call(row)?;
        }
        for row in &batch.samples {
            sink.sample(row)?;
        }
        for row in &batch.diagnostics {
            sink.diagnostic(row)?;
        }
        waits.events(&batch);
        assembler.batch(&batch, &mut Tap { waits: &mut waits, next: sink })?;
        waits.batch(&mut batch, sink)?;
        if !more {
            break;
        }
    }
    waits.finish(sink)?;
    let assembly = assembler.finish(&mut Tap { waits: &mut waits, next: sink })?;
    seen.span.outliers().iter().try_for_each(|diagnostic| sink.diagnostic(diagnostic))?;
    let names: BTreeMap<DeviceId, String> = reader.device_names().into_iter().collect();
    let device = |id| Device { id, name: names.get(&id).cloned(), ..Device::default() };
    Ok(Meta {
        schema_version: SCHEMA_VERSION,
        writer: concat!("fonio ", env!("CARGO_PKG_VERSION")).to_owned(),
        source: reader.source(),
        clock: reader.clock(),
        began: seen.span.ends().map(|(began, _)| began),
        ended: seen.span.ends().map(|(_, ended)| ended),
        devices: seen.devices.into_iter().map(device).collect(),
        lost: seen.lost,
        assembly,
        ..Meta::default()
    })
}

/// The properties of the trace, collected from its batches.
#[derive(Default)]
struct Seen {
    span: TraceSpan,
    devices: BTreeSet<DeviceId>,
    lost: Lost,
}

impl Seen {
    fn batch(&mut self, batch: &mut Batch) {
        self.span.batch(batch);
        let mut previous = None;
        for event in &batch.events {
            // Nearly all events are on the previous event's device.
            if previous != Some(event.device) {
                previous = Some(event.device);
                self.devices.insert(event.device);
            }
        }
        self.devices.extend(batch.requests.iter().map(|request| request.device));
        batch.lost.iter().for_each(|gap| self.lost.add(*gap));
    }
}
