//! A naive reader of generated traces: it holds the whole file in memory as a tree, and sorts all events at once.

use std::collections::BTreeMap;
use std::io::Read;

use flate2::read::ZlibDecoder;
use fonio_core::{EventKind, IoWait};

/// A field's number, its integer and its bytes.
type Field = (u64, u64, Vec<u8>);

/// The contents of a trace.
pub struct Contents {
    /// Time, processor, kind and sector of each block event.
    pub events: Vec<(u64, Option<u32>, EventKind, u64)>,
    /// The thread of each wait, its begin and end, and the kernel's account; sorted.
    pub waits: Vec<(u32, u64, u64, IoWait)>,
}

fn number(bytes: &mut &[u8]) -> u64 {
    let mut digits = Vec::new();
    loop {
        let (byte, rest) = bytes.split_first().expect("the trace is whole");
        *bytes = rest;
        digits.push(u64::from(byte % 128));
        if *byte < 128 {
            return digits.into_iter().rev().fold(0, |sum, digit| sum * 128 + digit);
        }
    }
}

fn fields(mut bytes: &[u8]) -> Vec<Field> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let (tag, value) = (number(&mut bytes), number(&mut bytes));
        let mut content = Vec::new();
        if tag % 8 == 2 {
            content = bytes[..value as usize].to_vec();
            bytes = &bytes[value as usize..];
        }
        all.push((tag / 8, value, content));
    }
    all
}

fn get(fields: &[Field], number: u64) -> u64 {
    fields.iter().find(|field| field.0 == number).map_or(0, |field| field.1)
}

fn list(fields: &[Field], wanted: u64) -> Vec<u64> {
    let mut bytes = fields.iter().find(|field| field.0 == wanted).map_or(&[][..], |field| &field.2);
    let mut all = Vec::new();
    while !bytes.is_empty() {
        all.push(number(&mut bytes));
    }
    all
}

/// An event: of the block layer; a switch from a thread in a state to another thread; a wake-up; the account of a wait.
enum Step {
    Block(EventKind, u64),
    Switch(u64, u32),
    Wake(u32),
    Reason(u32, bool),
}

pub fn read(bytes: &[u8]) -> Contents {
    let mut steps: Vec<(u64, u32, Step)> = Vec::new();
    let mut packets: Vec<Vec<Field>> =
        fields(bytes).into_iter().map(|(_, _, packet)| fields(&packet)).collect();
    if let Some(place) = packets.iter().position(|packet| packet[0].0 == 50) {
        let mut unpacked = Vec::new();
        ZlibDecoder::new(&packets[place][0].2[..]).read_to_end(&mut unpacked).expect("it is whole");
        packets.pop();
        packets.extend(fields(&unpacked).into_iter().map(|(_, _, packet)| fields(&packet)));
    }
    for packet in packets {
        let bundle = fields(&packet[0].2);
        let cpu = get(&bundle, 1) as u32;
        let first = steps.len();
        for (_, _, message) in bundle.iter().filter(|field| field.0 == 2) {
            let event = fields(message);
            let content = fields(&event[2].2);
            let step = match event[2].0 {
                4 => Step::Switch(get(&content, 4), get(&content, 6) as u32),
                20 => Step::Wake(get(&content, 2) as u32),
                18 => Step::Reason(get(&content, 1) as u32, get(&content, 3) != 0),
                45 => Step::Block(EventKind::Issue, get(&content, 2)),
                119 => Step::Block(EventKind::BioQueue, get(&content, 2)),
                _ => Step::Block(EventKind::Complete, get(&content, 2)),
            };
            steps.push((get(&event, 1), cpu, step));
        }
        for (_, _, message) in bundle.iter().filter(|field| field.0 == 4) {
            let compact = fields(message);
            let mut time = 0;
            let (states, threads) = (list(&compact, 2), list(&compact, 3));
            for (at, step) in list(&compact, 1).into_iter().enumerate() {
                time += step;
                steps.push((time, cpu, Step::Switch(states[at], threads[at] as u32)));
            }
        }
        steps[first..].sort_by_key(|step| step.0);
    }
    steps.sort_by_key(|step| step.0);
    let mut contents = Contents { events: Vec::new(), waits: Vec::new() };
    let mut running: BTreeMap<u32, u32> = BTreeMap::new();
    for (at, (time, cpu, step)) in steps.iter().enumerate() {
        match step {
            Step::Block(kind, sector) => contents.events.push((*time, Some(*cpu), *kind, *sector)),
            Step::Switch(state, to) => {
                let stopped = running.insert(*cpu, *to).unwrap_or(0);
                if stopped == 0 || state % 4 < 2 || *state == 0x402 {
                    continue;
                }
                // Look ahead: the wait ends when the thread is woken, but it counts only if the thread runs again
                // before it is blocked once more.
                let mut woken = None;
                let mut account = IoWait::Unknown;
                let mut running = running.clone();
                for (later, cpu, step) in &steps[at + 1..] {
                    match step {
                        Step::Wake(tid) if *tid == stopped => woken = woken.or(Some(*later)),
                        Step::Reason(tid, is_io) if *tid == stopped => {
                            account = if *is_io { IoWait::Yes } else { IoWait::No };
                        }
                        Step::Switch(_, to) if *to == stopped => {
                            contents.waits.push((stopped, *time, woken.unwrap_or(*later), account));
                            break;
                        }
                        Step::Switch(_, to) => {
                            let other = running.insert(*cpu, *to);
                            if other == Some(stopped) {
                                break;
                            }
                        }
                        _ => {}
                    }
                }
            }
            Step::Wake(_) | Step::Reason(..) => {}
        }
    }
    contents.waits.sort_unstable();
    contents
}
