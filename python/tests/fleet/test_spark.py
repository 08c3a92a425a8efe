"""Spark gives the same answers as DuckDB, over a store that speaks S3, with three executors.

Takes minutes, needs Java 17, PySpark and moto from PyPI (`pip install pyspark==4.3.0 "moto[server]"`), and jars from
Maven Central: set FONIO_SPARK_JARS to their folder (`mvn dependency:copy-dependencies -DoutputDirectory=DIR` in
`spark`).
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import REPOSITORY, TODAY
from test_storebench import document as storebench_document

import fonio.fleet
from fonio.fleet import document
from fonio.fleet.generator import Plan, generate
from fonio.fleet.store import Location

pytestmark = pytest.mark.long

#: The text of a file of a device that arrives late.
ADDED = "\n".join(
    [
        '{"kind": "device", "schema": 1, "device": "added", "day": "2025-01-12"}',
        '{"kind": "disk", "disk": "mmcblk0", "watched_s": 86400, "written_bytes": 4096}',
        '{"kind": "end", "lines": 3}',
    ]
)
KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_EC2_METADATA_DISABLED": "true"}


@pytest.fixture
def endpoint(monkeypatch):
    """The address of a server that speaks S3, with a bucket."""
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(600):
            with socket.socket() as found:
                if found.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        import boto3

        boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}", region_name="us-east-1").create_bucket(
            Bucket="bucket"
        )
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def missing() -> str | None:
    for name in ("pyspark", "moto", "boto3"):
        if importlib.util.find_spec(name) is None:
            return f"the Python package {name} is not installed"
    if shutil.which("java") is None:
        return "java is not installed"
    jars = os.environ.get("FONIO_SPARK_JARS")
    if not jars or not list(Path(jars).glob("hadoop-aws-*.jar")):
        return "FONIO_SPARK_JARS names no folder with Hadoop's client of S3"
    return None


def spark_home(folder: Path) -> Path:
    """Makes a home of Spark with the files of PySpark: its workers write logs into their home."""
    import pyspark

    folder.mkdir()
    for path in Path(pyspark.__file__).parent.iterdir():
        if path.name != "work":
            (folder / path.name).symlink_to(path)
    return folder


def test_spark_with_three_executors_gives_the_answers_of_duckdb(endpoint, tmp_path):
    if why := missing():
        pytest.skip(why)
    place = "s3://bucket/fleet"
    location = Location(place, {"endpoint": endpoint})
    generate(Plan(devices=600, days=14, seed=2), location)
    location.write(
        "arrived/2025-01-11/first.jsonl", ADDED.replace("added", "first").replace("2025-01-12", "2025-01-11").encode()
    )
    location.write("arrived/2025-01-11/cut.jsonl", ADDED[:90].encode())
    location.write("storebench/first/storebench.json", json.dumps(storebench_document()).encode())
    by_duckdb = document.document(fonio.fleet.report(place, endpoint=endpoint, today=TODAY))
    home = spark_home(tmp_path / "spark")
    jars = ",".join(map(str, sorted(Path(os.environ["FONIO_SPARK_JARS"]).glob("*.jar"))))
    settings = {
        "spark.master": "local-cluster[3,1,1024]",
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "3",
        "spark.jars": jars,
        "spark.hadoop.fs.s3a.endpoint": endpoint,
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.access.key": "key",
        "spark.hadoop.fs.s3a.secret.key": "secret",
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
    }
    command = [f"{home}/bin/spark-submit", *(f"--conf={name}={value}" for name, value in settings.items())]
    command += [str(Path(__file__).parent / "spark" / "compare.py"), place, endpoint, str(TODAY), ADDED]
    environment = (
        os.environ
        | KEYS
        | {
            "SPARK_HOME": str(home),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYTHONPATH": str(REPOSITORY / "python"),
        }
    )
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path)
    told = [line for line in done.stdout.splitlines() if line.startswith("report:")]
    assert told, done.stderr[-4000:]
    executors = {path.name for path in (home / "work").glob("app-*/*") if (path / "stderr").is_file()}
    assert executors == {"0", "1", "2"}
    logs = "".join(path.read_text() for path in (home / "work").glob("app-*/*/stderr"))
    assert "PythonRunner" not in logs, "executors do not need Python"
    by_spark = json.loads(told[0].removeprefix("report:"))
    for name, found in (("spark", by_spark), ("duckdb", by_duckdb)):
        (tmp_path / f"{name}.json").write_text(json.dumps(found, indent=1))
    assert by_spark.pop("engine").startswith("Spark") and by_duckdb.pop("engine").startswith("DuckDB")
    assert by_spark == by_duckdb
    assert any(row["disk_model"] == "SC32G" for row in by_spark["benchmarked"]) and by_spark["behind_in_all"] == 0
    assert by_spark["comparisons"] > 50 and by_spark["culprits"], "an empty report would agree too"
    assert len(by_spark["problems"]) == 1 and "cut.jsonl" in by_spark["problems"][0]
    # The file that was added while Spark ran belongs to the next report.
    after = fonio.fleet.report(place, endpoint=endpoint, today=TODAY)
    assert after.devices == by_spark["devices"] + 1
