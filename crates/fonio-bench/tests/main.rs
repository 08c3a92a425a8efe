//! Tests of the benchmark with the real fio and with emulated devices, in one program to link only once.

mod blind_fit;
mod real_fio;
