//! One file per command.

pub mod bench;
pub mod bench_target;
pub mod check;
pub mod compare;
pub mod cure;
pub mod device;
pub mod emulate;
pub mod export;
pub mod fit;
pub mod fix;
pub mod folder;
pub mod import;
pub mod kernel;
pub mod lab;
pub mod launch;
pub mod manual;
pub mod model;
pub mod mount;
pub mod record;
pub mod replay;
pub mod report;
pub mod run;
pub mod status;
pub mod storebench;
pub mod sync_policy;
pub mod watch;
