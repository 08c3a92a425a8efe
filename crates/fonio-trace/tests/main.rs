//! Tests of the readers and the assembler on real traces. All tests are one program, because each program is
//! linked with all dependencies.

mod assembler_traces;
mod ftrace_text;
mod large_inputs;
mod recognise;
mod waits;
