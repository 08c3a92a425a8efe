//! Tests of the command line as its users run it. One program, because each program is linked with everything.

mod behaviour;
mod bench;
mod cli;
mod emulate;
mod folders;
mod lab;
mod live;
mod mount;
mod run;
mod storebench;
mod watch;
