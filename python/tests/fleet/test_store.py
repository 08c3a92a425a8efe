"""Object stores that fail: the real client of S3 against a server that answers with errors."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from fonio.fleet import FleetError, store
from fonio.fleet.store import Location

_ERROR = "<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>"
_LISTING = (
    "<?xml version='1.0'?><ListBucketResult xmlns='http://s3.amazonaws.com/doc/2006-03-01/'><Name>bucket</Name><Prefix>fleet/</Prefix>"
    "<KeyCount>1</KeyCount><MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated><Contents><Key>fleet/days/x.parquet</Key>"
    "<LastModified>2025-01-01T00:00:00.000Z</LastModified><Size>7</Size></Contents></ListBucketResult>"
)


@pytest.fixture
def server(monkeypatch):
    """A server whose `answers` are given one after the other; the last one stays."""

    class Handler(BaseHTTPRequestHandler):
        answers: list[tuple[int, str]] = []
        requests = 0

        def do_GET(self):
            Handler.requests += 1
            status, body = Handler.answers.pop(0) if len(Handler.answers) > 1 else Handler.answers[0]
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Content-Type", "application/xml")
            self.end_headers()
            self.wfile.write(body.encode())

        do_HEAD = do_GET

        def log_message(self, *arguments):
            pass

    found = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=found.serve_forever, daemon=True).start()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr(store, "FIRST_WAIT_S", 0.001)
    Handler.url = f"http://127.0.0.1:{found.server_port}"
    yield Handler
    found.shutdown()
    found.server_close()


def location(server) -> Location:
    return Location("s3://bucket/fleet", {"endpoint": server.url})


def test_a_store_that_throttles_is_asked_again(server):
    server.answers = [(503, _ERROR.format(code="SlowDown", message="Please reduce your request rate."))] * 3 + [
        (200, _LISTING)
    ]
    found = location(server)
    waits: list[float] = []
    found._sleep = waits.append
    assert [file.path for file in found.files()] == ["days/x.parquet"]
    assert len(waits) == 3 and waits[2] > waits[0], "the waits grow"


def test_a_store_that_only_throttles_is_one_sentence(server):
    server.answers = [(503, _ERROR.format(code="SlowDown", message="Please reduce your request rate."))]
    with pytest.raises(FleetError, match="busy or cannot be reached after 6 tries .*try again later"):
        location(server).files()


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("ExpiredToken", "the credential has expired; renew it"),
        ("AccessDenied", "refuses the credential; check AWS_ACCESS_KEY_ID"),
    ],
)
def test_a_credential_is_not_tried_again(server, code, sentence):
    server.answers = [(403, _ERROR.format(code=code, message="No."))]
    with pytest.raises(FleetError, match=sentence):
        location(server).files()
    assert server.requests == 1


def test_an_unknown_scheme_is_one_sentence():
    with pytest.raises(FleetError, match="is not a location"):
        Location("nowhere://x")
