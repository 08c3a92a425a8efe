"""The parts of an engine that differ between DuckDB and Spark."""

from __future__ import annotations

import pytest
from conftest import report

from fonio.fleet.engines import query, text
from fonio.fleet.engines.duckdb import DuckDb
from fonio.fleet.store import Location


@pytest.mark.parametrize("value", ["", "plain", "it's", "back\\slash", "'\\'", "a\\", "\\n", "ü|💾"])
def test_a_text_is_itself_in_sql(value):
    engine = DuckDb()
    try:
        assert engine.rows(f"SELECT {text(value)} AS value") == [{"value": value}]
    finally:
        engine.close()


def test_every_query_has_all_its_values():
    from importlib import resources

    values = dict.fromkeys(
        (
            "today",
            "first_valid",
            "last_day",
            "weeks",
            "units",
            "devices",
            "factor",
            "level",
            "measure",
            "unit",
            "from_week",
            "to_week",
            "equal",
            "measures",
            "table",
        ),
        "1",
    )
    names = [
        file.name for file in resources.files("fonio.fleet").joinpath("sql").iterdir() if file.name.endswith(".sql")
    ]
    assert len(names) >= 18
    for name in names:
        assert "$" not in query(name.removesuffix(".sql"), **values), name


def test_arrow_files_give_the_same_report_as_duckdbs_own_reader(small):
    from conftest import TODAY

    from fonio.fleet import document, questions, table

    reports = []
    for is_local in (True, False):
        location = Location(str(small))
        location.is_local = is_local
        engine = DuckDb()
        reports.append(document.document(questions.answer(table.take(location), engine, TODAY)))
        engine.close()
    assert reports[0] == reports[1]


def test_files_that_arrive_during_a_report_belong_to_the_next(small):
    from conftest import TODAY, device_file

    from fonio.fleet import questions, table

    snapshot = table.take(Location(str(small)))
    device_file(small, "late", "2025-01-05")
    engine = DuckDb()
    found = questions.answer(snapshot, engine, TODAY)
    engine.close()
    assert found.devices == 30 and report(small).devices == 31
