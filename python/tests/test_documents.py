"""The guide names what exists, and its examples run."""

import pathlib
import re

from inputs import RECORDING, ROOT

import fonio
from fonio import plot

GUIDE = (ROOT / "docs/python.md").read_text(encoding="utf-8")


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
