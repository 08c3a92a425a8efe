//! Lists equations (1) and (2) of the third study, and says why they are not computed.

use anyhow::Result;

use super::measured::Kind;
use super::published::Published;
use super::row::Row;
use super::runs::Runs;

const WHY_STORAGE: &str = "not computed: iostat's rates are the bytes divided by the length of the interval, so the \
    quotient is that length, whatever the storage does; fonio measures for how long a launch is \
    blocked on storage";
const WHY_NETWORK: &str = "not computed: it needs the result of equation (1), and `time` does not say for how long a \
    program waits for I/O; its real time without user and system time also contains waits for a processor, a lock or a timer";

/// Returns the row of equation (1).
pub(super) fn storage(_: &Published, _: &mut Runs) -> Result<Vec<Row>> {
    let told = "the bytes read and written, divided by the sum of both rates";
    Ok(vec![Row::cannot(Kind::RealProgram, "storage delay", told, WHY_STORAGE)])
}

/// Returns the row of equation (2).
pub(super) fn network(_: &Published, _: &mut Runs) -> Result<Vec<Row>> {
    let told = "the time of waiting for I/O, minus the storage delay";
    Ok(vec![Row::cannot(Kind::RealProgram, "network delay", told, WHY_NETWORK)])
}
