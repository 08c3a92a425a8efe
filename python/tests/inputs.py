"""The inputs of the tests: files of the repository."""

import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRACES = ROOT / "crates/fonio-trace/tests/data"

RECORDING = ROOT / "docs/sample/webbench-on-ridata"
STALL = ROOT / "crates/fonio-watch/src/data/version-1.stall"
BLKTRACE = TRACES / "takeoverjp-sample.blktrace.0"
FTRACE = TRACES / "ftrace-6.18.txt"
INPUTS = [RECORDING, STALL, BLKTRACE, FTRACE, TRACES / "biosnoop.txt", TRACES / "mqsim-tpcc-200.trace"]
