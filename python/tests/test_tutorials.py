"""Runs the tutorials, whose cells check their own answers, and compares the notebooks with them."""

import json
import runpy

import matplotlib
import pytest
from inputs import ROOT
from matplotlib import pyplot

TUTORIALS = sorted((ROOT / "python/tutorials").glob("*.py"))
NOTEBOOKS = ROOT / "docs/python/notebooks"


def test_there_are_tutorials():
    assert len(TUTORIALS) >= 4


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_runs(path, tmp_path, monkeypatch):
    matplotlib.use("agg")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(path))
    pyplot.close("all")


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_notebook_has_the_cells_of_its_tutorial(path):
    """The outputs are not compared. `cargo xtask python --notebooks` writes the notebooks."""
    gallery = runpy.run_path(str(ROOT / "python/gallery/notebooks.py"))
    notebook = json.loads((NOTEBOOKS / f"{path.stem}.ipynb").read_text(encoding="utf-8"))
    ours = [(cell["cell_type"], "".join(cell["source"])) for cell in notebook["cells"]]
    assert ours == gallery["cells"](path.read_text(encoding="utf-8"))
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    assert outputs and all(str(ROOT) not in json.dumps(output) for output in outputs)


def test_each_notebook_has_a_tutorial():
    assert sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb")) == [path.stem for path in TUTORIALS]
