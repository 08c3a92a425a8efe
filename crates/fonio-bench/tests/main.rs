//! Tests of the benchmark with the real fio and with emulated devices. One program, because each program is linked with everything.

mod blind_fit;
mod real_fio;
