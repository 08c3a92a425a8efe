//! One file per command.

pub mod check;
pub mod compare;
pub mod export;
pub mod import;
pub mod manual;
pub mod record;
pub mod report;
pub mod status;
