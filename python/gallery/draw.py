"""Draws the pictures of docs/python.md, from the sample recording of the repository: `cargo xtask python --gallery`."""

import pathlib

import fonio
from fonio import plot

ROOT = pathlib.Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs/python"


def main() -> None:
    recording = fonio.open(ROOT / "docs/sample/webbench-on-ridata")
    PICTURES.mkdir(exist_ok=True)
    total = 0
    for name in plot.__all__:
        figure = getattr(plot, name)(recording)
        path = PICTURES / f"{name}.png"
        # Without metadata, the same picture has the same bytes.
        figure.savefig(path, dpi=90, bbox_inches="tight", metadata={"Software": None})
        total += path.stat().st_size
    print(f"{len(plot.__all__)} pictures with {total / 1024:.0f} KiB in {PICTURES.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
