"""Runs the tutorials, whose cells check their own answers."""

import pathlib
import runpy

import matplotlib
import pytest

TUTORIALS = sorted((pathlib.Path(__file__).parents[1] / "tutorials").glob("*.py"))


def test_there_are_tutorials():
    assert len(TUTORIALS) >= 4


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_runs(path, tmp_path, monkeypatch):
    matplotlib.use("agg")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(path))
