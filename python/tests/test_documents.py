"""The guide names what exists, and the examples of the guide and of the tutorials run."""

import os
import pathlib
import re
import subprocess
import sys

import pytest
from inputs import RECORDING, ROOT

import fonio
from fonio import plot

GUIDE = (ROOT / "docs/python.md").read_text(encoding="utf-8")
TUTORIALS = sorted((ROOT / "docs/tutorials").glob("*.md"))


def test_every_public_name_is_in_the_guide():
    missing = [name for name in fonio.__all__ if name != "__version__" and f"`{name}" not in GUIDE]
    missing += [name for name in plot.__all__ if f"`{name}" not in GUIDE]
    assert not missing


def test_the_examples_run(tmp_path, monkeypatch):
    blocks = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    assert len(blocks) >= 5
    (tmp_path / "recording").symlink_to(RECORDING)
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks:
        exec(compile(block, str(pathlib.Path("docs/python.md")), "exec"), names)  # noqa: S102


def test_there_is_a_tutorial_for_each_kind_of_user():
    assert [path.stem for path in TUTORIALS] == ["app", "home-server", "parts", "research"]


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_runs(path, program, tmp_path, monkeypatch):
    """Runs the blocks `sh` and `python` of a tutorial in order. The lines of a block `text` must be in the output of
    the block before it; `[…]` stands for any text. Indented commands need root or hardware, and are not run."""
    for folder in ("crates", "docs"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/fonio").symlink_to(pathlib.Path(program).resolve())
    monkeypatch.chdir(tmp_path)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "COLUMNS": "100",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert sum(language != "text" for language, _ in blocks) >= 3
    said = ""
    for language, block in blocks:
        if language == "text":
            parts = [part.strip() for line in block.splitlines() for part in line.split("[…]")]
            missing = [part for part in parts if part not in said]
            assert not missing, f"{missing} is not in:\n{said}"
            continue
        command = {"sh": ["bash", "-euo", "pipefail", "-c"], "python": ["python3", "-c"]}[language]
        if language == "python":
            # The interpreter of the tests has the package.
            command[0] = sys.executable
        done = subprocess.run([*command, block], env=environment, capture_output=True, text=True, timeout=300)
        said = done.stdout + done.stderr
        assert done.returncode == 0, f"{block}\n{said}"
