"""The configuration of Sphinx. `build.py` calls Sphinx with it."""

import __future__

import pathlib
import sys
import tomllib
import types

ROOT = pathlib.Path(__file__).resolve().parents[2]
manifest = tomllib.loads((ROOT / "Cargo.toml").read_text("utf-8"))["workspace"]["package"]


def package() -> types.ModuleType:
    """Imports the package `fonio` from the repository, with its type stub in place of the native module."""
    folder = ROOT / "python"
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    name, stub = "fonio._fonio", folder / "fonio/_fonio.pyi"
    if name not in sys.modules:
        module = sys.modules[name] = types.ModuleType(name)
        module.__dict__.update(__file__=str(stub), __version__=manifest["version"])
        # A stub can name types before it defines them.
        flags = __future__.annotations.compiler_flag
        exec(compile(stub.read_text("utf-8"), str(stub), "exec", flags), module.__dict__)  # noqa: S102
    import fonio

    return fonio


project = "fonio"
author = "The fonio developers"
copyright = "The fonio developers"
release = version = manifest["version"]

package()

extensions = ["myst_parser", "sphinx.ext.autodoc"]
source_suffix = {".md": "markdown"}
root_doc = "index"
exclude_patterns = [".doctrees"]

myst_heading_anchors = 4
# Commands in documents are indented, and have no language.
highlight_language = "text"
suppress_warnings = ["misc.highlighting_failure"]

default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_mock_imports = ["altair", "duckdb", "matplotlib", "numpy", "pandas", "polars", "pyarrow"]

html_theme = "furo"
html_title = f"fonio {release}"
html_static_path = [str(pathlib.Path(__file__).parent / "static")]
html_css_files = ["fonio.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {
    "source_repository": f"{manifest['repository']}/",
    "footer_icons": [],
    "top_of_page_buttons": [],
}
