"""A scheduler and a translation layer in Python, as examples. They decide as the shipped models do, but slowly."""

from __future__ import annotations

import bisect
from collections import OrderedDict, deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fonio import _fonio


class Fifo:
    """A scheduler that dispatches in the order of insertion, as `noop` does."""

    def __init__(self) -> None:
        self._queue: deque[_fonio.Request] = deque()

    def insert(self, request: _fonio.Request, now: int) -> None:
        self._queue.append(request)

    def dispatch(self, now: int, in_flight: int) -> _fonio.Request | None:
        return self._queue.popleft() if self._queue else None


class _Side:
    """The waiting requests of one direction."""

    def __init__(self) -> None:
        self.by_place: list[tuple[int, int]] = []
        """Sectors and ids, sorted."""
        self.by_age: OrderedDict[int, tuple[int, _fonio.Request]] = OrderedDict()
        """The times of insertion and the requests by id, the oldest first."""
        self.last: tuple[int, int] | None = None

    def next_in_order(self) -> _fonio.Request | None:
        at = 0 if self.last is None else bisect.bisect_right(self.by_place, self.last)
        return self.by_age[self.by_place[at][1]][1] if at < len(self.by_place) else None

    def take(self, request: _fonio.Request) -> _fonio.Request:
        place = (request.sector, request.id)
        del self.by_place[bisect.bisect_left(self.by_place, place)]
        del self.by_age[request.id]
        self.last = place
        return request


class Deadline:
    """A scheduler with batches in the order of sectors, and with deadlines, as `deadline` has.

    A batch has requests of one direction in ascending order. A new batch has reads, unless writes have waited for
    `WRITES_STARVED` batches. It begins with the oldest request of its direction if the deadline of this request has
    passed, and otherwise after the last dispatched request of its direction.
    """

    EXPIRE_NS = {"read": 500_000_000, "write": 5_000_000_000}
    FIFO_BATCH = 16
    WRITES_STARVED = 2

    def __init__(self) -> None:
        self._sides = {"read": _Side(), "write": _Side()}
        self._batch: tuple[str, int] | None = None
        self._starved = 0

    def insert(self, request: _fonio.Request, now: int) -> None:
        side = self._sides["read" if request.op == "read" else "write"]
        bisect.insort(side.by_place, (request.sector, request.id))
        side.by_age[request.id] = (now, request)

    def dispatch(self, now: int, in_flight: int) -> _fonio.Request | None:
        if self._batch and self._batch[1] < self.FIFO_BATCH:
            direction, gone = self._batch
            request = self._sides[direction].next_in_order()
            if request is not None:
                self._batch = (direction, gone + 1)
                return self._sides[direction].take(request)
        new = self._next_direction()
        if new is None:
            return None
        side = self._sides[new]
        inserted, oldest = next(iter(side.by_age.values()))
        has_expired = inserted + self.EXPIRE_NS[new] <= now
        self._batch = (new, 1)
        return side.take(oldest if has_expired else side.next_in_order() or oldest)

    def _next_direction(self) -> str | None:
        reads, writes = (bool(self._sides[direction].by_age) for direction in ("read", "write"))
        if reads and (not writes or self._starved < self.WRITES_STARVED):
            self._starved += writes
            return "read"
        if not writes:
            return None
        self._starved = 0
        return "write"


class _Log:
    """A log block."""

    def __init__(self, block: int, owner: int, used_at: int) -> None:
        self.block, self.owner, self.used_at = block, owner, used_at
        self.next = 0
        self.in_order = True
        self.newest: dict[int, int] = {}
        """The offset of the newest copy of each unit of the owner."""


class Bast:
    """BAST (Kim, Kim, Noh, Min, Cho 2002) with the least recently written log block as the victim, as `bast` and `lru`.

    Each logical block has a data block, in which each unit is at its own offset. Overwrites are appended to a log block
    of the logical block. If all log blocks are in use, one is merged with its data block.

        fonio.simulate(profile, requests, ftl=lambda geometry: Bast(geometry, log_blocks=8, seed=1))
    """

    def __init__(self, geometry: _fonio.Geometry, log_blocks: int, seed: int = 1) -> None:
        from fonio._fonio import shuffled_blocks

        self._units, self._page, self._dies = geometry.units_per_block, geometry.units_per_page, geometry.dies
        self._total = geometry.logical_blocks + log_blocks + 1
        self._free = deque(shuffled_blocks(self._total, seed))
        self._log_blocks = log_blocks
        self._data: dict[int, int] = {}
        self._in_place: dict[int, set[int]] = {}
        self._next: dict[int, int] = {}
        self._logs: list[_Log] = []
        self._log_of: dict[int, int] = {}
        self._writes = 0

    def write(self, unit: int, work: _fonio.Work) -> None:
        owner, offset = divmod(unit, self._units)
        self._writes += 1
        block = self._write_in_place(owner, offset)
        if block is None:
            log = self._logs[self._log_with_room(owner, work)]
            at = log.next
            log.next += 1
            log.in_order = log.in_order and at == offset
            log.newest[offset] = at
            log.used_at = self._writes
            block = log.block
        work.program_host_page(block % self._dies)

    def locate(self, unit: int) -> int | None:
        owner, offset = divmod(unit, self._units)
        number = self._log_of.get(owner)
        if number is not None and offset in self._logs[number].newest:
            return self._logs[number].block * self._units + self._logs[number].newest[offset]
        if offset in self._in_place.get(owner, ()):
            return self._data[owner] * self._units + offset
        return None

    def census(self) -> tuple[int, int, int, int]:
        return self._total, len(self._free), len(self._data), len(self._logs)

    def _write_in_place(self, owner: int, offset: int) -> int | None:
        if owner not in self._data:
            self._data[owner] = self._free.popleft()
            self._in_place[owner], self._next[owner] = set(), 0
        if offset < self._next[owner]:
            return None
        self._next[owner] = offset + 1
        self._in_place[owner].add(offset)
        return self._data[owner]

    def _log_with_room(self, owner: int, work: _fonio.Work) -> int:
        number = self._log_of.get(owner)
        if number is not None and self._logs[number].next < self._units:
            return number
        if number is None and len(self._logs) < self._log_blocks:
            self._logs.append(_Log(self._free.popleft(), owner, self._writes))
            number = len(self._logs) - 1
        else:
            if number is None:
                number = min(range(len(self._logs)), key=lambda at: self._logs[at].used_at)
            self._merge(number, work)
            self._logs[number] = _Log(self._free.popleft(), owner, self._writes)
        self._log_of[owner] = number
        return number

    def _merge(self, number: int, work: _fonio.Work) -> None:
        log = self._logs[number]
        in_place = self._in_place[log.owner]
        if log.in_order:
            work.count_merge("switch" if log.next == self._units else "partial")
            self._copy(sum(offset >= log.next for offset in in_place), log.block, work)
            in_place.update(range(log.next))
            self._replace(log.owner, log.block, work)
        else:
            fresh = self._free.popleft()
            work.count_merge("full")
            in_place.update(log.newest)
            self._copy(len(in_place), fresh, work)
            self._erase(log.block, work)
            self._replace(log.owner, fresh, work)
        del self._log_of[log.owner]

    def _copy(self, units: int, to: int, work: _fonio.Work) -> None:
        work.copy(to % self._dies, -(-units // self._page))

    def _replace(self, owner: int, block: int, work: _fonio.Work) -> None:
        old, self._data[owner] = self._data[owner], block
        self._next[owner] = max(self._in_place[owner], default=-1) + 1
        self._erase(old, work)

    def _erase(self, block: int, work: _fonio.Work) -> None:
        self._free.append(block)
        work.erase(block % self._dies)
