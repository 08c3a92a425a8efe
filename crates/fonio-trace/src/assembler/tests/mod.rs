//! The assembler's rules as events and rows, and the comparison of the assembler with its oracle.

mod flush;
mod oracle;
mod pairing;
mod repeat;
mod stacking;
mod text;
