"""The database for dashboards, and each query of Grafana's dashboard over it."""

from __future__ import annotations

import datetime
import json
import re

import duckdb
import pytest
from conftest import REPOSITORY, TODAY, report

import fonio.fleet
from fonio.fleet import FleetError, cli, text

DASHBOARD = json.loads((REPOSITORY / "packages" / "grafana" / "fonio-fleet.json").read_text())
QUERIES = [(panel["title"], panel["type"], target) for panel in DASHBOARD["panels"] for target in panel["targets"]]


@pytest.fixture(scope="module")
def database(faulty, tmp_path_factory):
    """The connection to the database of a fleet with faults, and the report."""
    path = tmp_path_factory.mktemp("database") / "fleet.duckdb"
    found = report(faulty, database=str(path))
    assert [file.name for file in path.parent.iterdir()] == ["fleet.duckdb"]
    with duckdb.connect(str(path), read_only=True) as connection:
        yield connection, found


def filled_in(sql: str, models: list[str]) -> str:
    """Replaces Grafana's variables and macros as Grafana does."""
    sql = re.sub(r"\$__timeFilter\((\w+)\)", r"\1 BETWEEN '2024-06-01T00:00:00Z' AND '2026-01-31T00:00:00Z'", sql)
    sql = sql.replace("${model:singlequote}", ",".join(f"'{model}'" for model in models))
    assert "$" not in sql, sql
    return sql


def models(connection) -> list[str]:
    variable = next(variable for variable in DASHBOARD["templating"]["list"] if variable["name"] == "model")
    return [row[0] for row in connection.execute(variable["query"]).fetchall()]


@pytest.mark.parametrize(("title", "kind", "target"), QUERIES, ids=[title for title, _, _ in QUERIES])
def test_each_query_of_the_dashboard_has_rows(database, title, kind, target):
    connection, _ = database
    names = models(connection)
    assert names == ["gateway-a", "gateway-b", "pi-4", "pi-5"]
    result = connection.execute(filled_in(target["rawSql"], names))
    columns = [column[0] for column in result.description]
    rows = result.fetchall()
    assert rows, title
    if kind == "timeseries":
        assert target["format"] == 0 and columns == ["time", "metric", "value"]
        assert all(isinstance(time, datetime.datetime) and metric and value >= 0 for time, metric, value in rows), title
        assert [row[0] for row in rows] == sorted(row[0] for row in rows) and len({row[1] for row in rows}) > 1, title
    else:
        assert target["format"] == 1
    if "${model" in target["rawSql"]:
        # A choice of models leaves rows out.
        assert 0 < len(connection.execute(filled_in(target["rawSql"], ["gateway-a"])).fetchall()) <= len(rows), title


def test_the_dashboard_is_complete():
    assert len(QUERIES) >= 15 and len({title for title, _, _ in QUERIES}) == len(QUERIES)
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        assert panel["datasource"] == {"type": "motherduck-duckdb-datasource", "uid": "${source}"}
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        assert not any(
            other is not panel
            and at["x"] < there["x"] + there["w"]
            and there["x"] < at["x"] + at["w"]
            and at["y"] < there["y"] + there["h"]
            and there["y"] < at["y"] + at["h"]
            for other in panels
            for there in [other["gridPos"]]
        ), f"{panel['title']} lies over another panel"
        # A column with a format of its own is in the query.
        for override in panel["fieldConfig"]["overrides"]:
            assert override["matcher"]["options"] in panel["targets"][0]["rawSql"], panel["title"]


def test_the_database_has_the_answers_of_the_report(database):
    connection, found = database
    one = lambda sql: connection.execute(sql).fetchone()  # noqa: E731
    assert one("SELECT verdict, devices, device_days, last_day FROM report") == (
        text.verdict(found),
        found.devices,
        found.device_days,
        found.last_day,
    )
    assert one("SELECT count(*) FROM causes WHERE is_worse") == (len(found.culprits),)
    assert one("SELECT sum(days), count(DISTINCT device) FROM weeks") == (found.device_days, found.devices)
    assert one("SELECT max(week_begins) FROM weeks")[0].date() == found.last_day - datetime.timedelta(days=6)
    assert one("SELECT count(DISTINCT device) FROM results") > (found.devices // 2,)
    assert [row[0] for row in connection.execute("SELECT sentence FROM unknown").fetchall()] == list(
        map(text.unknown_sentence, found.unknown)
    )


def test_a_database_replaces_the_old_one_completely_or_not_at_all(small, tmp_path):
    path = tmp_path / "fleet.duckdb"
    path.write_bytes(b"old")
    assert cli.main(["report", str(small), "--database", str(path)]) == 0
    with duckdb.connect(str(path), read_only=True) as connection:
        assert connection.execute("SELECT devices FROM report").fetchone() == (30,)
    kept = path.read_bytes()
    for file in (small / "days").rglob("*.parquet"):
        file.write_bytes(b"")
    with pytest.raises(FleetError):
        report(small, database=str(path))
    assert path.read_bytes() == kept and len(list(tmp_path.glob("fleet.duckdb*"))) == 1


def test_a_database_that_cannot_be_written_is_said_first(tmp_path):
    with pytest.raises(FleetError, match="its folder does not exist"):
        fonio.fleet.report(str(tmp_path), today=TODAY, database=str(tmp_path / "missing" / "x.duckdb"))
    with pytest.raises(FleetError, match="is a folder"):
        fonio.fleet.report(str(tmp_path), today=TODAY, database=str(tmp_path))
    with pytest.raises(FleetError, match="needs the engine duckdb"):
        fonio.fleet.report(str(tmp_path), today=TODAY, database=str(tmp_path / "x.duckdb"), engine="spark")
