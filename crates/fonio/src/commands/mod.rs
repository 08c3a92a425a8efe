//! One file per command.

pub mod bench;
pub mod bench_target;
pub mod check;
pub mod compare;
pub mod concurrency;
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
pub mod layers;
pub mod live;
pub mod manual;
pub mod model;
pub mod mount;
pub mod record;
pub mod report;
pub mod run;
pub mod status;
pub mod sync_policy;
pub mod watch;
