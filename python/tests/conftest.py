"""The inputs of the tests: files of the repository, and the program `fonio` that `$FONIO` names."""

import os
import pathlib
import shutil

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRACES = ROOT / "crates/fonio-trace/tests/data"

RECORDING = ROOT / "docs/sample/webbench-on-ridata"
STALL = ROOT / "crates/fonio-watch/src/data/version-1.stall"
BLKTRACE = TRACES / "takeoverjp-sample.blktrace.0"
FTRACE = TRACES / "ftrace-6.18.txt"
INPUTS = [RECORDING, STALL, BLKTRACE, FTRACE, TRACES / "biosnoop.txt", TRACES / "mqsim-tpcc-200.trace"]


@pytest.fixture(scope="session")
def program():
    """The path of the program fonio of the same build."""
    found = shutil.which(os.environ.get("FONIO", "fonio"))
    if found is None:
        pytest.skip("$FONIO does not name the program fonio, and it is not in PATH")
    return found
