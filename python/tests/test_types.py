"""The annotations of the installed package agree with its code."""

import pathlib
import subprocess
import sys

SETTINGS = pathlib.Path(__file__).parents[1] / "pyproject.toml"


def test_the_annotations_are_consistent(tmp_path):
    words = [sys.executable, "-m", "mypy", "--config-file", SETTINGS, "--cache-dir", tmp_path, "--package", "fonio"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no issues found in" in done.stdout
