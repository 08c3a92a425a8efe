"""A fleet in an object store that throttles, or whose credential expires while a report runs: moto's S3 server with
faults.

Needs moto from PyPI (`pip install "moto[s3]" flask flask-cors`).
"""

from __future__ import annotations

import datetime
import json
import logging
import shutil
import threading

import pytest
from conftest import REPOSITORY, device_file, report

from fonio.fleet import FleetError, cli, document, pack, send, store
from fonio.fleet.store import Location

moto = pytest.importorskip(
    "moto.moto_server.werkzeug_app", reason="the Python package moto with its server is not installed"
)
serving = pytest.importorskip("werkzeug.serving")

_ERROR = "<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>"
DAY = "2025-01-05"


class Faulty:
    """Moto's application. Slows down every `throttle_every`-th request, and refuses all from `expires_at`."""

    def __init__(self) -> None:
        self.app = moto.DomainDispatcherApplication(moto.create_backend_app)
        self.requests = self.throttled = self.throttle_every = 0
        self.expires_at: int | None = None
        self._lock = threading.Lock()

    def __call__(self, environment, start):
        with self._lock:
            self.requests += 1
            is_throttled = self.throttle_every and self.requests % self.throttle_every == 0
            self.throttled += bool(is_throttled)
            is_expired = self.expires_at is not None and self.requests >= self.expires_at
        if is_expired:
            return self._refuse(start, "400 Bad Request", "ExpiredToken", "The provided token has expired.")
        if is_throttled:
            return self._refuse(start, "503 Slow Down", "SlowDown", "Please reduce your request rate.")
        return self.app(environment, start)

    @staticmethod
    def _refuse(start, status: str, code: str, message: str):
        body = _ERROR.format(code=code, message=message).encode()
        start(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
        return [body]


@pytest.fixture
def server(monkeypatch):
    """A server with an empty bucket, and the faults to choose."""
    import boto3

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    application = Faulty()
    found = serving.make_server("127.0.0.1", 0, application, threaded=True, request_handler=moto.MotoRequestHandler)
    thread = threading.Thread(target=found.serve_forever, daemon=True)
    thread.start()
    application.url = f"http://127.0.0.1:{found.server_port}"
    for name, value in (
        ("AWS_ACCESS_KEY_ID", "key"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_EC2_METADATA_DISABLED", "true"),
        ("AWS_ENDPOINT_URL", application.url),
    ):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(store, "FIRST_WAIT_S", 0.001)
    client = boto3.client("s3", endpoint_url=application.url, region_name="us-east-1")
    client.create_bucket(Bucket="bucket")
    application.client = client
    yield application
    # All buckets of moto are in this process.
    application.expires_at, application.throttle_every = None, 0
    for item in client.list_objects_v2(Bucket="bucket").get("Contents", []):
        client.delete_object(Bucket="bucket", Key=item["Key"])
    client.delete_bucket(Bucket="bucket")
    found.shutdown()
    thread.join()
    found.server_close()


def copied(folder, server) -> str:
    """Copies a folder to the store, and returns its place."""
    for path in folder.rglob("*"):
        if path.is_file():
            server.client.upload_file(str(path), "bucket", f"fleet/{path.relative_to(folder)}")
    return "s3://bucket/fleet"


def test_a_store_that_throttles_costs_time_and_no_rows(small, server):
    for number in range(4):
        device_file(small, f"sent{number}", DAY)
    device_file(small, "cut", DAY, cut=150)
    place = copied(small, server)
    server.throttle_every = 8
    found, expected = report(place), report(small)
    assert server.throttled > 10
    assert (found.devices, found.device_days, found.written_bytes) == (34, expected.device_days, expected.written_bytes)
    found.place = expected.place
    assert document.document(found) == document.document(expected)


def test_files_of_devices_reach_a_store_that_throttles_once_each(tmp_path, server):
    for number in range(12):
        device_file(tmp_path, f"d{number}", DAY)
    server.throttle_every = 4
    place = "s3://bucket/fleet"
    assert send(str(tmp_path), place).startswith("Sent 12 files")
    assert send(str(tmp_path), place) == f"Sent 0 files to {place}; 12 were there."
    assert pack(place).startswith("Packed 12 files") and pack(place).startswith("Packed 0 files")
    assert server.throttled > 10 and report(place).device_days == 12


def test_a_recording_that_a_busy_store_does_not_deliver_is_not_half_written(small, server):
    sample = REPOSITORY / "docs" / "sample" / "webbench-on-ridata"
    for name in ("good", "cut"):
        shutil.copytree(sample, small / "recordings" / name)
        meta = json.loads((sample / "meta.json").read_text())
        meta["clock"]["unix_ns_at_zero"] = int(
            datetime.datetime(2025, 1, 4, tzinfo=datetime.timezone.utc).timestamp() * 1e9
        )
        (small / "recordings" / name / "meta.json").write_text(json.dumps(meta))
    whole = (sample / "requests.parquet").read_bytes()
    (small / "recordings" / "cut" / "requests.parquet").write_bytes(whole[: len(whole) // 2])
    place, expected = copied(small, server), report(small)
    server.throttle_every = 5
    found = report(place)
    assert server.throttled > 10 and (found.devices, found.device_days) == (31, expected.device_days)
    assert found.problems == expected.problems and len(found.problems) == 1 and "recordings/cut" in found.problems[0]


def test_a_credential_that_expires_during_a_report_is_one_sentence(small, server, capsys):
    place = copied(small, server)
    server.requests = 0
    report(place)
    needed = server.requests
    assert needed > 20
    # At the first request, in the middle, and while the rows are read.
    for at in (1, needed // 2, needed - 2):
        server.requests, server.expires_at = 0, at
        assert cli.main(["report", place]) == 2, at
        told = capsys.readouterr()
        assert (
            told.out == "" and "the credential has expired; renew it" in told.err and len(told.err.splitlines()) == 1
        ), (at, told.err)
    server.expires_at = None
    assert report(place).devices == 30


def test_an_interrupted_packing_loses_nothing_and_counts_nothing_twice(tmp_path, server):
    for number in range(6):
        device_file(tmp_path, f"d{number}", "2025-01-05" if number < 3 else "2025-01-06")
    place = "s3://bucket/fleet"
    send(str(tmp_path), place)
    server.requests = 0
    report(place)
    before = report(place).written_bytes
    # The credential expires at any request of a packing.
    for at in range(1, 40):
        server.requests, server.expires_at = 0, at
        try:
            pack(place)
            break
        except FleetError as error:
            assert "expired" in str(error)
        server.expires_at = None
        found = report(place)
        assert (found.device_days, found.written_bytes) == (6, before), at
        assert all("sent before" in told for told in found.problems), found.problems
    server.expires_at = None
    assert at > 10 and (report(place).device_days, report(place).written_bytes) == (6, before)
    assert Location(place).files()
