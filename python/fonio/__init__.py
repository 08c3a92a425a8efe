"""Reads recordings and traces of storage I/O, explains them, and simulates flash devices.

    import fonio

    recording = fonio.open("recording")
    print(recording.report().verdict)
    requests = recording.requests.to_polars()

The parts of the package are loaded when they are first used, so that importing `fonio` costs little, and parts that
do not need the native module work without it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fonio._fonio import FonioError as FonioError
    from fonio._fonio import __version__ as __version__
    from fonio.comparison import Change as Change
    from fonio.comparison import Comparison as Comparison
    from fonio.comparison import compare as compare
    from fonio.device_profile import Profile as Profile
    from fonio.device_profile import profile as profile
    from fonio.device_profile import profiles as profiles
    from fonio.program import launch as launch
    from fonio.program import record as record
    from fonio.recording import Recording as Recording
    from fonio.recording import open as open
    from fonio.report import Figure as Figure
    from fonio.report import Finding as Finding
    from fonio.report import Report as Report
    from fonio.report import analyse as analyse
    from fonio.simulation import ClosedLoop as ClosedLoop
    from fonio.simulation import Replay as Replay
    from fonio.simulation import Simulation as Simulation
    from fonio.simulation import Sweep as Sweep
    from fonio.simulation import schedulers as schedulers
    from fonio.simulation import simulate as simulate
    from fonio.simulation import sweep as sweep
    from fonio.table import Table as Table

# The module of each public name.
_MODULES = {
    "FonioError": "fonio._fonio",
    "__version__": "fonio._fonio",
    "Profile": "fonio.device_profile",
    "profile": "fonio.device_profile",
    "profiles": "fonio.device_profile",
    "launch": "fonio.program",
    "record": "fonio.program",
    "Recording": "fonio.recording",
    "open": "fonio.recording",
    "Change": "fonio.comparison",
    "Comparison": "fonio.comparison",
    "Figure": "fonio.report",
    "Finding": "fonio.report",
    "Report": "fonio.report",
    "analyse": "fonio.report",
    "compare": "fonio.comparison",
    "ClosedLoop": "fonio.simulation",
    "Replay": "fonio.simulation",
    "Simulation": "fonio.simulation",
    "Sweep": "fonio.simulation",
    "schedulers": "fonio.simulation",
    "simulate": "fonio.simulation",
    "sweep": "fonio.simulation",
    "Table": "fonio.table",
}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        if name in ("fleet", "models", "plot"):
            return importlib.import_module(f"fonio.{name}")
        raise AttributeError(f"module 'fonio' has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
