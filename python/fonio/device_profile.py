"""Device profiles as dictionaries."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass

from fonio import _fonio


@dataclass(frozen=True)
class Source:
    """The origin of a value of a profile."""

    kind: str
    """`published`, `fitted`, `chosen`, `measured` or `assumed`."""
    text: str
    """The publication, the fitted number, or how the value was chosen or measured."""


class Profile(MutableMapping[str, "str | int"]):
    """The description of a device: a dictionary from keys such as `flash.t_program` to values such as `0.9 ms`.

    `docs/devices.md` explains the keys. Times, sizes, rates and shares are texts with their unit, counts are integers,
    and `yes` or `no` can be given as bool. An unknown key raises a `ValueError` with the nearest name, and a value
    that does not fit its key raises a `ValueError` with an example.
    """

    def __init__(self, native: _fonio.Profile) -> None:
        self._native = native

    @property
    def name(self) -> str:
        """The name of the profile."""
        return self._native.name

    @property
    def about(self) -> str:
        """The description in one line."""
        return self._native.about

    def rename(self, name: str, about: str | None = None) -> None:
        """Sets the name and, if given, the description."""
        self._native.rename(name, self.about if about is None else about)

    def __getitem__(self, key: str) -> str | int:
        text = self._native.get(key)
        if text is None:
            raise KeyError(key)
        return int(text) if text.isdecimal() else text

    def __setitem__(self, key: str, value: str | int) -> None:
        if isinstance(value, bool):
            value = "yes" if value else "no"
        self._native.set(key, str(value))

    def __delitem__(self, key: str) -> None:
        if not self._native.remove(key):
            raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._native.keys())

    def __len__(self) -> int:
        return len(self._native.keys())

    def copy(self) -> Profile:
        """Returns an independent copy."""
        return Profile(self._native.copy())

    def changed(self, changes: Mapping[str, str | int]) -> Profile:
        """Returns a copy with other values: `profile.changed({"ftl.spare": "20 %"})`."""
        copy = self.copy()
        copy.update(changes)
        copy.check()
        return copy

    def check(self) -> None:
        """Raises a `ValueError` if a value is missing, or if values contradict each other."""
        self._native.check()

    @property
    def sources(self) -> dict[str, Source]:
        """The origin of each value."""
        return {key: Source(kind, text) for key, kind, text in self._native.sources()}

    @staticmethod
    def meanings() -> dict[str, str]:
        """The meaning of each key that a profile can have."""
        return dict(_fonio.Profile.meanings())

    def to_toml(self) -> str:
        """The profile as a TOML file, which all commands of fonio accept."""
        return self._native.toml()

    def __repr__(self) -> str:
        return f"<fonio.Profile {self.name}: {self.about}>"


def profiles() -> dict[str, str]:
    """The shipped profiles: their names and descriptions."""
    return dict(_fonio.shipped())


def profile(
    source: str | os.PathLike[str] | Mapping[str, str | int],
    changes: Mapping[str, str | int] | None = None,
) -> Profile:
    """Returns a profile: a shipped one by its name, the path of a TOML file, or a dictionary of all values.

    `changes` replaces values: `fonio.profile("sd_a1", {"ftl.spare": "20 %"})`. Raises `ValueError` for an unknown name
    or key (with the nearest one), and for values that contradict each other.
    """
    if isinstance(source, Profile):
        found = source.copy()
    elif isinstance(source, Mapping):
        found = Profile(_fonio.Profile.empty("profile", ""))
        found.update(source)
    elif isinstance(source, os.PathLike) or source.endswith(".toml"):
        path = pathlib.Path(source)
        found = Profile(_fonio.Profile.parse(str(path), path.read_text(encoding="utf-8")))
    else:
        found = Profile(_fonio.Profile.named(source))
    if changes:
        found.update(changes)
    found.check()
    return found
