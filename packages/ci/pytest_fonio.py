"""Adds `pytest --fonio=ARGUMENTS`, which runs the tests under `fonio ci ARGUMENTS` (docs/ci.md)."""
import os, shlex, sys

def pytest_addoption(parser):
    parser.addoption("--fonio", metavar="ARGUMENTS", help="run the tests under `fonio ci` with these arguments")

def pytest_cmdline_main(config):
    arguments = config.getoption("--fonio")
    if arguments is not None and "FONIO_CI" not in os.environ:
        command = [sys.executable, "-m", "pytest", *config.invocation_params.args]
        os.execvpe("fonio", ["fonio", "ci", *shlex.split(arguments), "--", *command], {**os.environ, "FONIO_CI": "1"})
