"""Runs the program `fonio`, for work that the package does not do itself."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from typing import Any

from fonio import _fonio
from fonio.recording import Recording, open


def _program(program: str | os.PathLike[str] | None) -> str:
    named = program or os.environ.get("FONIO")
    found = shutil.which(os.fspath(named or "fonio"))
    if found is None:
        wanted = f"{os.fspath(named)} is not a program" if named else "the program fonio is not in PATH"
        raise _fonio.FonioError(f"{wanted}; install it (docs/install.md), or name it with program=…")
    return found


def _run(words: list[str]) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    # 3: the measurement is not valid; its recording or report says why.
    if done.returncode in (2, 125, 126, 127):
        said = done.stderr.strip() or f"exit code {done.returncode}"
        raise _fonio.FonioError(f"`{' '.join(words)}` failed: {said}")
    return done


def record(
    command: Sequence[str] | str | None = None,
    *,
    out: str | os.PathLike[str],
    time_s: float | None = None,
    options: Sequence[str] = (),
    program: str | os.PathLike[str] | None = None,
) -> Recording:
    """Records the machine's I/O with `fonio record`, while a command runs or for a time, and opens the recording.

    `command` is a list of words, or a line for the shell. `out` is the folder of the recording. `options` are further
    options of `fonio record` (`docs/cli.md`). `program` is the path of `fonio`; by default `$FONIO`, or the one in
    PATH. Recording needs the privileges of `fonio record`. Raises `FonioError` with the program's message if it fails.
    """
    if command is None and time_s is None:
        raise ValueError("give a command or a time_s, because a recording needs an end")
    words = [_program(program), "record", "--output", os.fspath(out), *options]
    if time_s is not None:
        words += ["--for", f"{round(time_s * 1000)}ms"]
    _run(words + _command(command))
    return open(out)


def launch(
    command: Sequence[str] | str,
    *,
    options: Sequence[str] = (),
    program: str | os.PathLike[str] | None = None,
) -> dict[str, Any]:
    """Measures how the launch time of a command divides into processor, storage and other waits, with `fonio launch`.

    Returns the document of `fonio launch --json` (`docs/runs-reference.md`).
    The arguments are those of `record`.
    """
    done = _run([_program(program), "launch", "--json", *options, *_command(command)])
    return json.loads(done.stdout)


def _command(command: Sequence[str] | str | None) -> list[str]:
    if command is None:
        return []
    return ["--", *(["sh", "-c", command] if isinstance(command, str) else command)]
