//! The assembler's rules as events and rows; the assembler against its oracle.

mod flush;
mod oracle;
mod pairing;
mod repeat;
mod stacking;
mod text;
