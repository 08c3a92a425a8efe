"""Runs the tutorials, and writes them as notebooks with their outputs: `cargo xtask python --notebooks`.

A tutorial is a script whose cells begin with `# %%` or `# %% [markdown]`. The cells run in order in this interpreter; a
notebook gets what they print, and their figures of matplotlib. A test compares the cells with the scripts.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import pathlib
import tempfile
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
TUTORIALS = ROOT / "python/tutorials"
NOTEBOOKS = ROOT / "docs/python/notebooks"
# The size of a picture in a notebook, in bytes.
PICTURE_MAX = 100_000


def cells(script: str) -> list[tuple[str, str]]:
    """Returns the cells of a script: `markdown` or `code`, and the text."""
    found: list[tuple[str, list[str]]] = []
    for line in script.splitlines():
        if line.startswith("# %%"):
            found.append(("markdown" if line == "# %% [markdown]" else "code", []))
        elif found:
            kind, lines = found[-1]
            lines.append(line.removeprefix("#").removeprefix(" ") if kind == "markdown" else line)
        elif line:
            raise ValueError(f"a tutorial begins with a cell, not with {line!r}")
    return [(kind, "\n".join(lines).strip("\n")) for kind, lines in found]


def _pictures() -> list[dict[str, Any]]:
    """Returns the open figures as outputs, and closes them."""
    from matplotlib import pyplot

    outputs = []
    for number in pyplot.get_fignums():
        picture = io.BytesIO()
        # Without metadata, the same picture has the same bytes.
        pyplot.figure(number).savefig(picture, dpi=70, bbox_inches="tight", metadata={"Software": None})
        if len(picture.getvalue()) > PICTURE_MAX:
            raise ValueError(f"a picture has {len(picture.getvalue())} bytes; draw less, at most {PICTURE_MAX}")
        text = base64.b64encode(picture.getvalue()).decode()
        outputs.append({"output_type": "display_data", "data": {"image/png": text}, "metadata": {}})
    pyplot.close("all")
    return outputs


def notebook(path: pathlib.Path) -> dict[str, Any]:
    """Runs a tutorial, and returns it as a notebook."""
    names: dict[str, Any] = {"__name__": "__main__", "__file__": str(path)}
    made: list[dict[str, Any]] = []
    for number, (kind, text) in enumerate(cells(path.read_text(encoding="utf-8"))):
        cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": lines(text)}
        if kind == "code":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(text, f"{path.name}, cell {number}", "exec"), names)
            outputs = _pictures()
            if printed.getvalue():
                # The folder of the repository differs between machines.
                shown = printed.getvalue().replace(f"{ROOT}/", "")
                outputs.insert(0, {"output_type": "stream", "name": "stdout", "text": lines(shown)})
            cell |= {"execution_count": None, "outputs": outputs}
        made.append(cell)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def lines(text: str) -> list[str]:
    """Returns the lines of a text as notebooks store them."""
    return text.splitlines(keepends=True)


def main() -> None:
    """Writes all notebooks."""
    import matplotlib

    matplotlib.use("agg")
    NOTEBOOKS.mkdir(parents=True, exist_ok=True)
    before = os.getcwd()
    for path in sorted(TUTORIALS.glob("*.py")):
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            made = notebook(path)
            os.chdir(before)
        target = NOTEBOOKS / f"{path.stem}.ipynb"
        target.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{target.relative_to(ROOT)}: {target.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
