"""Folders and object stores: listing, opening and writing files, with retries.

A location is a path, or a URI such as `s3://bucket/folder`. S3 goes through Arrow's own file system; other schemes go
through fsspec. DuckDB's extension httpfs is not used, because many machines cannot download extensions.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import pyarrow.fs as pafs

from .problems import FleetError

Item = TypeVar("Item")
Result = TypeVar("Result")

#: The number of tries of an operation on a store. The waits between them double, up to about a minute in total.
TRIES = 6
#: The first wait in seconds.
FIRST_WAIT_S = float(os.environ.get("FONIO_FLEET_FIRST_WAIT_S", "1"))
#: Parallel requests to an object store.
PARALLEL = 16

_EXPIRED = ("expiredtoken", "expired", "invalidtoken")
_REFUSED = (
    "access_denied",
    "accessdenied",
    "invalidaccesskeyid",
    "signaturedoesnotmatch",
    "forbidden",
    "http status 403",
)
_BUSY = (
    "slow_down",
    "slowdown",
    "service_unavailable",
    "throttl",
    "too many requests",
    "http status 503",
    "http status 429",
    "503",
    "timeout",
    "timed out",
    "connection",
    "network_connection",
    "internal_failure",
    "requesttimeout",
    "temporarily",
    "stale file handle",
)


@dataclass(frozen=True)
class File:
    """A file of a location, with its path relative to the location."""

    path: str
    size: int


class Location:
    """A folder or a prefix in an object store."""

    def __init__(self, place: str, options: dict[str, str] | None = None) -> None:
        self.place = str(place)
        self.is_local = "://" not in self.place
        self._sleep: Callable[[float], None] = time.sleep
        if self.is_local:
            self.root = os.path.abspath(self.place)
            self.fs: pafs.FileSystem = pafs.LocalFileSystem()
            #: Repeats requests itself: for long reads, which `retried` cannot repeat as a whole.
            self.patient: pafs.FileSystem = self.fs
        else:
            self.fs, self.patient, self.root = _open(self.place, options or {})
        self.root = self.root.rstrip("/")

    def full(self, path: str) -> str:
        """Returns the path of a file as the file system knows it."""
        return f"{self.root}/{path}"

    def files(self) -> list[File]:
        """Lists all files, in the order of their paths. Files and folders that begin with a dot are left out."""
        if self.is_local and os.path.isfile(self.root):
            raise FleetError(f"{self.place} is a file; give the folder of a fleet")
        selector = pafs.FileSelector(self.root, recursive=True, allow_not_found=False)
        try:
            found = self.retried("list", lambda: self.fs.get_file_info(selector))
        except FileNotFoundError:
            raise FleetError(f"there is no folder {self.place}; check the path") from None
        base = len(self.root) + 1
        files = [File(info.path[base:], info.size) for info in found if info.type == pafs.FileType.File]
        hidden = [any(part.startswith(".") for part in file.path.split("/")) for file in files]
        return sorted(
            (file for file, hides in zip(files, hidden, strict=True) if not hides), key=lambda file: file.path
        )

    def read(self, path: str, limit: int) -> bytes:
        """Reads a file completely. Raises `ValueError` if the file has more than `limit` bytes."""

        def read() -> bytes:
            with self.fs.open_input_file(self.full(path)) as file:
                if file.size() > limit:
                    raise ValueError(f"the file has {file.size()} bytes, more than {limit}")
                return file.read()

        return self.retried(f"read {path}", read)

    def write(self, path: str, data: bytes) -> None:
        """Writes a file completely or not at all."""

        def write() -> None:
            full = self.full(path)
            # S3 has no folders; to create some costs several requests, and leaves empty objects.
            if not isinstance(self.fs, pafs.S3FileSystem):
                self.fs.create_dir(os.path.dirname(full), recursive=True)
            # An object appears when its upload is complete. A file appears when it gets its name.
            target = f"{os.path.dirname(full)}/.{os.path.basename(full)}.part" if self.is_local else full
            # Without this, Arrow would compress files whose names end with .gz.
            with self.fs.open_output_stream(target, compression=None) as out:
                out.write(data)
            if target != full:
                self.fs.move(target, full)

        self.retried(f"write {path}", write)

    def each(self, items: list[Item], action: Callable[[Item], Result]) -> list[Result]:
        """Applies an action to all items, in parallel on an object store. Results have the order of the items."""
        if self.is_local:
            return [action(item) for item in items]
        with ThreadPoolExecutor(PARALLEL) as pool:
            return list(pool.map(action, items))

    def retried(self, what: str, action: Callable[[], Result]) -> Result:
        """Runs an action, and repeats it with growing random waits while the store is busy."""
        wait = FIRST_WAIT_S
        for attempt in range(1, TRIES + 1):
            try:
                return action()
            except FileNotFoundError:
                raise
            except (OSError, RuntimeError) as error:
                told = self._reason(error)
                is_busy = not self.is_local and _says(told, _BUSY) and not _says(told, _EXPIRED + _REFUSED)
                if not is_busy or attempt == TRIES:
                    raise self.explained(what, error, told) from error
            self._sleep(wait * random.uniform(0.5, 1.5))
            wait *= 2
        raise AssertionError("the last try returns or raises")

    def explained(self, what: str, error: Exception, told: str | None = None) -> FleetError:
        """Returns an error of the store as a sentence for the user."""
        told = told or self._reason(error)
        if _says(told, _EXPIRED):
            return FleetError(
                f"cannot {what} in {self.place}: the credential has expired; renew it (AWS_ACCESS_KEY_ID, "
                "AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN) and run the command again"
            )
        if _says(told, _REFUSED):
            return FleetError(
                f"cannot {what} in {self.place}: the store refuses the credential; check AWS_ACCESS_KEY_ID, "
                "AWS_SECRET_ACCESS_KEY and the permissions of the bucket"
            )
        if not self.is_local and _says(told, _BUSY):
            return FleetError(
                f"cannot {what} in {self.place}: the store is busy or cannot be reached after {TRIES} tries "
                f"({_first_line(error)}); try again later"
            )
        return FleetError(f"cannot {what} in {self.place}: {_first_line(error)}")

    def _reason(self, error: Exception) -> str:
        """Returns the text of an error in small letters. The store is asked again if the error has no reason."""
        told = str(error).lower()
        # The response to some requests has no body, and so no reason, and Arrow loses a body that is longer than the
        # part of a file that it wanted. The response to a listing has a reason.
        is_unknown = ("aws error unknown" in told and "http status 40" in told) or "failed to flush response" in told
        if is_unknown and not _says(told, _EXPIRED):
            try:
                self.fs.get_file_info(pafs.FileSelector(self.root, recursive=False, allow_not_found=True))
            except (OSError, RuntimeError) as again:
                return f"{told} {again}".lower()
        return told


def is_damaged(error: BaseException | None) -> bool:
    """Returns whether an error is one of a damaged Parquet file: many of them are plain system errors."""
    return isinstance(error, OSError) and any(
        word in str(error).lower() for word in ("thrift", "parquet", "corrupt", "decompress")
    )


def _says(told: str, words: tuple[str, ...]) -> bool:
    return any(word in told for word in words)


def _open(place: str, options: dict[str, str]) -> tuple[pafs.FileSystem, pafs.FileSystem, str]:
    """Returns the file system of a place, the same one that repeats requests itself, and the path."""
    scheme, path = place.split("://", 1)
    if scheme in ("s3", "s3a"):
        endpoint = (
            options.get("endpoint") or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        )
        settings: dict[str, object] = {
            "region": os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1",
        }
        if endpoint:
            protocol, _, address = endpoint.partition("://")
            settings |= {"endpoint_override": address, "scheme": protocol}
        # A small file is written with one request.
        settings["allow_delayed_open"] = True
        # The waits between tries are ours where possible, so that they are the same for all stores.
        once, patient = (
            pafs.S3FileSystem(**settings, retry_strategy=pafs.AwsStandardS3RetryStrategy(max_attempts=tries))
            for tries in (1, TRIES)
        )
        return once, patient, path
    try:
        import fsspec

        filesystem, path = fsspec.core.url_to_fs(place)
    except ImportError as error:
        raise FleetError(f"{place} needs a Python package: {error}") from error
    except ValueError as error:
        raise FleetError(f"{place} is not a location: {error}; use a folder or s3://BUCKET/FOLDER") from error
    found = pafs.PyFileSystem(pafs.FSSpecHandler(filesystem))
    return found, found, path


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
