"""Builds the site: gathers the pages of the repository in a folder, and runs Sphinx, which treats warnings as errors.

    python docs/site/build.py SCRATCH OUTPUT

The documents of the repository are the only source. `docs/index.md` lists the pages of each part; a page that it does
not list is an error. Links to other files of the repository become links to the forge, if the files exist.
"""

import pathlib
import re
import shutil
import sys
import tomllib

from sphinx.cmd.build import main as sphinx

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
# The documents outside of `docs`, with their pages.
PROJECT = {
    "GLOSSARY.md": "glossary.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "ARCHITECTURE.md": "architecture.md",
}
# The page that is generated from the Python package.
GENERATED = "python-reference.md"
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\]|!\[[^\]]*\]\([^)]*\))*)\]\(([^()\s]+)\)")


def sources() -> dict[pathlib.Path, str]:
    """Returns the documents with the names of their pages."""
    found = {path: path.relative_to(DOCS).as_posix() for path in sorted(DOCS.rglob("*.md"))}
    found = {path: page for path, page in found.items() if not page.startswith("site/")}
    return found | {ROOT / name: page for name, page in PROJECT.items()}


def main(scratch: pathlib.Path, output: pathlib.Path) -> int:
    pages = sources()
    shutil.rmtree(scratch, ignore_errors=True)
    forge = tomllib.loads((ROOT / "Cargo.toml").read_text("utf-8"))["workspace"]["package"]["repository"]
    problems: list[str] = []
    for path, page in pages.items():
        text = path.read_text("utf-8")
        text = with_links(text, path, page, pages, scratch, forge, problems)
        if page == "index.md":
            # The forge shows no generated page.
            text = text.replace("(python.md#reference)", f"({GENERATED})")
            text = with_contents(text, pages, problems)
        target = scratch / page
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
    (scratch / GENERATED).write_text(python_reference(), "utf-8")
    if problems:
        print("\n".join(problems), file=sys.stderr)
        return 1
    shutil.rmtree(output, ignore_errors=True)
    configuration = str(pathlib.Path(__file__).parent)
    # -W and --keep-going: warnings are errors, and all of them are shown.
    arguments = ["-c", configuration, "-b", "dirhtml", "-d", str(scratch / ".doctrees"), "-q", "-W", "--keep-going"]
    code = sphinx([*arguments, str(scratch), str(output)])
    if code == 0:
        print(f"{len(pages) + 1} pages in {output}")
    return code


def with_links(text, path, page, pages, scratch, forge, problems):
    """Returns the text with links that work in the site. Copies the pictures that it shows."""
    above = "../" * page.count("/")

    def place(match: re.Match[str]) -> str:
        mark, label, link = match.groups()
        label = LINK.sub(place, label)
        target, _, anchor = link.partition("#")
        if not target or re.match(r"[a-z]+:", target):
            return f"{mark}[{label}]({link})"
        file = (path.parent / target).resolve()
        if not file.exists() or not file.is_relative_to(ROOT):
            problems.append(f"{path.relative_to(ROOT)}: there is no {target}")
            return match.group()
        name = file.relative_to(ROOT).as_posix()
        if file in pages:
            new = above + pages[file]
            # A page has its title in place of the name of its file.
            if re.fullmatch(r"[\w/.-]+\.md", label):
                label = file.read_text("utf-8").splitlines()[0].removeprefix("# ")
        elif mark:
            copy = scratch / "pictures" / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
            new = f"{above}pictures/{name}"
        elif name == "README.md":
            new = f"{above}index.md"
        else:
            new = f"{forge}/blob/main/{name}"
        return f"{mark}[{label}]({new}{'#' + anchor if anchor else ''})"

    parts = re.split(r"(^```.*?^```|`[^`\n]+`)", text, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if part.startswith("`") else LINK.sub(place, part) for part in parts)


def with_contents(text, pages, problems):
    """Returns the first page with a table of contents for each section, which becomes the navigation."""
    listed = set()
    sections = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    for at, section in enumerate(sections):
        links = [link for _, _, link in LINK.findall(section) if link.endswith(".md") and link != "index.md"]
        if at == 0 or not links:
            continue
        listed.update(links)
        title = section.splitlines()[0].removeprefix("## ")
        entries = "\n".join(link.removesuffix(".md") for link in dict.fromkeys(links))
        sections[at] += f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n{entries}\n```\n\n"
    wanted = {*pages.values(), GENERATED} - {"index.md"}
    problems += [f"docs/index.md does not list {page}" for page in sorted(wanted - listed)]
    return "".join(sections)


def is_public_class(name: str, value: object) -> bool:
    return isinstance(value, type) and value.__module__ == "fonio.models" and not name.startswith("_")


def python_reference() -> str:
    """Returns the page of the Python package; Sphinx fills it from the docstrings and annotations."""
    import conf

    fonio = conf.package()
    lines = [
        "# Python: reference",
        "",
        "This page is generated from the docstrings and annotations of the package. [The Python package](python.md) is",
        "the guide.",
        "",
    ]
    parts = {
        "fonio": [name for name in fonio.__all__ if not name.startswith("__")],
        "fonio.plot": list(fonio.plot.__all__),
        "fonio.models": [name for name, value in vars(fonio.models).items() if is_public_class(name, value)],
    }
    for module, names in parts.items():
        lines += [f"## `{module}`", "", "```{eval-rst}", f".. currentmodule:: {module}", ""]
        for name in names:
            kind = "class" if isinstance(getattr(sys.modules[module], name), type) else "function"
            if kind == "class" and issubclass(getattr(sys.modules[module], name), BaseException):
                kind = "exception"
            lines += [f".. auto{kind}:: {name}"]
            lines += ["   :members:", "   :undoc-members:"] if kind == "class" else []
            lines += [""]
        lines += ["```", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: build.py SCRATCH OUTPUT")
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    sys.exit(main(*(pathlib.Path(argument).resolve() for argument in sys.argv[1:])))
