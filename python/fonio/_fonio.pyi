# The native module (python/src). It is private: use the package `fonio`.

from typing import Any

__version__: str

class FonioError(Exception):
    """An input, a profile or a simulation that fonio refuses. The message says what to do."""

class Stream:
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def columns(self) -> list[tuple[str, str]]: ...

class Input:
    name: str
    kind: str
    def __init__(
        self, paths: list[str], format: str | None = None, csv: str | None = None, horizon_ns: int | None = None
    ) -> None: ...
    def meta(self) -> str | None: ...
    def tables(self) -> list[tuple[str, int | None]]: ...
    def table(self, name: str) -> Stream: ...
    def explain(
        self,
        devices: list[str],
        comms: list[str],
        tids: list[int],
        units: list[str],
        files: list[str],
        ops: list[str],
        from_ns: int | None = None,
        until_ns: int | None = None,
    ) -> Explained: ...

class Explained:
    name: str
    def json(self) -> str: ...
    def meta(self) -> str: ...
    def html(self) -> str: ...
    def text(self) -> str: ...

class Profile:
    name: str
    about: str
    @staticmethod
    def named(name: str) -> Profile: ...
    @staticmethod
    def parse(name: str, text: str) -> Profile: ...
    @staticmethod
    def empty(name: str, about: str) -> Profile: ...
    def copy(self) -> Profile: ...
    def rename(self, name: str, about: str) -> None: ...
    def keys(self) -> list[str]: ...
    def get(self, key: str) -> str | None: ...
    def set(self, key: str, value: str) -> None: ...
    def remove(self, key: str) -> bool: ...
    def check(self) -> None: ...
    def sources(self) -> list[tuple[str, str, str]]: ...
    def toml(self) -> str: ...
    @staticmethod
    def meanings() -> list[tuple[str, str]]: ...

class ClosedLoop:
    def __new__(
        cls,
        count: int,
        size: int,
        reads_percent: int,
        is_random: bool,
        depth: int,
        start: int,
        range: int | None,
        think_ns: tuple[int, int],
        process: int,
        priority: str,
        sync: bool,
    ) -> Any: ...

class Replay:
    accesses: int
    left_out: int
    of_other_devices: int
    def __new__(cls, input: Input, fast: bool) -> Any: ...

class Simulation:
    def requests(self) -> Stream: ...
    def states(self) -> Stream: ...
    def wear(self) -> Stream: ...
    def summary(self) -> str: ...

class Request:
    """A request that waits in a scheduler."""

    id: int
    op: str
    is_sync: bool
    sector: int
    bytes: int
    end: int
    process: int
    priority_class: str
    priority_level: int

class Geometry:
    """The geometry of the flash below a translation layer."""

    logical_units: int
    units_per_block: int
    units_per_page: int
    dies: int
    logical_blocks: int

class Work:
    """Receives the flash operations of one call of a translation layer."""

    def program_host_page(self, die: int) -> None: ...
    def copy(self, die: int, pages: int) -> None: ...
    def erase(self, die: int) -> None: ...
    def push(self, die: int, reads: int = 0, copy_programs: int = 0) -> None: ...
    def count_merge(self, kind: str) -> None: ...

def compare(sides: list[tuple[str, list[Explained]]]) -> str: ...
def analyse_requests(name: str, requests: object) -> Explained: ...
def shipped() -> list[tuple[str, str]]: ...
def schedulers() -> list[str]: ...
def shuffled_blocks(blocks: int, seed: int) -> list[int]: ...
def simulate(
    profile: Profile,
    requests: object,
    scheduler: object,
    ftl: object | None,
    capacity: str | None,
    depth: int | None,
    seed: int,
    prepare: object | None,
    samples: int,
) -> Simulation: ...
def sweep(
    cells: list[tuple[Profile, str, int | None, int]],
    requests: object,
    capacity: str | None,
    prepare: object | None,
    threads: int,
) -> tuple[list[tuple[str, float]], float]: ...
