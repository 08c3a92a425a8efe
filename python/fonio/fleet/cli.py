"""The command line of the package: `fonio fleet …`, or `python3 -m fonio.fleet …`."""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import os
import sys

from .problems import FleetError


def main(words: list[str] | None = None) -> int:
    """Runs a command and returns its exit code: 0, 1 if `--check` found a culprit, 2 for errors."""
    arguments = _parser().parse_args(words)
    missing = [name for name in ("pyarrow", "numpy") if importlib.util.find_spec(name) is None]
    try:
        if missing:
            raise FleetError(
                f"the Python package {missing[0]} is missing: "
                f"run `{sys.executable} -m pip install duckdb pyarrow numpy fsspec`"
            )
        return arguments.run(arguments)
    except FleetError as error:
        print(f"fonio: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader of the output, such as `head`, has ended.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="fonio fleet", description="Answers over many devices (docs/fleet.md).")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    place = "a folder, or an object store such as s3://BUCKET/FOLDER"

    report = commands.add_parser(
        "report", help="say which versions, disks and units are to blame, since when, and what wears out"
    )
    report.add_argument("place", metavar="PLACE", help=place)
    report.add_argument("--json", action="store_true", help="print JSON")
    report.add_argument("--html", metavar="FILE", help="write a page with charts to this file")
    report.add_argument(
        "--database", metavar="FILE", help="write the tables behind the report as a DuckDB database, for dashboards"
    )
    report.add_argument("--check", action="store_true", help="return the exit code 1 if there is something to blame")
    report.add_argument("--since", type=_day, metavar="DAY", help="use days from this one, such as 2026-01-31")
    report.add_argument("--until", type=_day, metavar="DAY", help="use days to this one")
    report.add_argument(
        "--weeks", type=_weeks, default=4, metavar="N", help="compare devices in the last N weeks (default: 4)"
    )
    report.add_argument(
        "--engine",
        choices=("duckdb", "spark"),
        default="duckdb",
        help="run the SQL with this program (default: duckdb)",
    )
    report.add_argument("--memory", default="1GB", metavar="SIZE", help="memory of DuckDB (default: 1GB)")
    report.add_argument("--endpoint", metavar="URL", help="address of a store that speaks S3")
    report.set_defaults(run=_report)

    pack = commands.add_parser("pack", help="make Parquet files of the files that devices sent")
    pack.add_argument("place", metavar="PLACE", help=place)
    pack.set_defaults(run=_pack)

    migrate = commands.add_parser(
        "migrate", help="write all rows to a new place, with the present columns, in one file a day and table"
    )
    migrate.add_argument("place", metavar="PLACE", help=place)
    migrate.add_argument("to", metavar="NEW", help="an empty place")
    migrate.set_defaults(run=_migrate)

    send = commands.add_parser("send", help="copy files of devices from a folder to another place")
    send.add_argument("folder", metavar="DIR", help="the folder to which `fonio watch send` wrote")
    send.add_argument("to", metavar="PLACE", help=place)
    send.set_defaults(run=_send)

    generate = commands.add_parser("generate", help="write a generated fleet with known faults, to try the report")
    generate.add_argument("place", metavar="DIR", help="a new folder")
    generate.add_argument("--devices", type=int, default=2_000, metavar="N", help="number of devices (default: 2000)")
    generate.add_argument("--days", type=int, default=126, metavar="N", help="number of days (default: 126)")
    generate.add_argument("--seed", type=int, default=1, metavar="N", help="seed of the random numbers (default: 1)")
    generate.add_argument("--no-faults", action="store_true", help="plant no faults")
    generate.set_defaults(run=_generate)
    return parser


def _day(text: str) -> datetime.date:
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"`{text}` is not a day; write it as 2026-01-31") from None


def _weeks(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 53:
        raise argparse.ArgumentTypeError(f"`{text}` is not a number of weeks from 1 to 53")
    return int(text)


def _report(arguments: argparse.Namespace) -> int:
    from . import document, page, report, text

    found = report(
        arguments.place,
        engine=arguments.engine,
        since=arguments.since,
        until=arguments.until,
        weeks=arguments.weeks,
        memory=arguments.memory,
        endpoint=arguments.endpoint,
        database=arguments.database,
    )
    if arguments.html:
        try:
            with open(arguments.html, "w", encoding="utf-8") as file:
                file.write(page.page(found))
        except OSError as error:
            raise FleetError(f"{arguments.html} cannot be written: {error.strerror}") from error
    if arguments.json:
        print(document.to_json(found))
    elif arguments.html:
        print(text.verdict(found))
        print(f"The report is in {arguments.html}.")
    else:
        print("\n".join(map(_printable, text.lines(found))))
    return 1 if arguments.check and found.culprits else 0


def _printable(line: str) -> str:
    """Escapes characters with which a text from a device could control a terminal."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in line)


def _pack(arguments: argparse.Namespace) -> int:
    from . import pack

    print(_printable_lines(pack(arguments.place)))
    return 0


def _migrate(arguments: argparse.Namespace) -> int:
    from . import migrate

    print(_printable_lines(migrate(arguments.place, arguments.to)))
    return 0


def _send(arguments: argparse.Namespace) -> int:
    from . import send

    print(_printable_lines(send(arguments.folder, arguments.to)))
    return 0


def _printable_lines(text: str) -> str:
    return "\n".join(map(_printable, text.splitlines()))


def _generate(arguments: argparse.Namespace) -> int:
    from . import generate
    from .generator import FAULTS

    if os.path.isdir(arguments.place) and os.listdir(arguments.place):
        raise FleetError(f"{arguments.place} is not empty; name a new folder")
    if arguments.devices < 1 or arguments.days < 1:
        raise FleetError("a fleet needs at least one device and one day")
    faults = () if arguments.no_faults else tuple(FAULTS)
    generate(arguments.place, devices=arguments.devices, days=arguments.days, seed=arguments.seed, faults=faults)
    print(
        f"Generated {arguments.devices:,} devices and {arguments.days} days in {arguments.place} "
        f"(seed {arguments.seed})."
    )
    for fault in faults:
        print(f"Planted: {FAULTS[fault]}")
    return 0
