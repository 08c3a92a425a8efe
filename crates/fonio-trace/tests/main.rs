//! Tests of the readers and the assembler on real traces. One program, because each program is linked with everything.

mod assembler_traces;
mod ftrace_text;
mod large_inputs;
mod recognise;
