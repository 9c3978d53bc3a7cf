"""Settings of tuning, and of where candidates are measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from tcopt.support.processes.cores import default_threads
from tcopt.support.registries.target_registry import find_target
from tcopt.tuner.measure.measurer import LocalMeasurer, Measurer, MeasureSettings
from tcopt.tuner.measure.simulated import PlacedMeasurer
from tcopt.tuner.pool.security import Certificates
from tcopt.tuner.session import Callback, SessionSettings
from tcopt.tuner.task_search import Strategy
from tcopt.tuner.whole_models.acceptance import ROUNDS
from tcopt.tuner.whole_models.graph_search import SHARE


@dataclass(frozen=True)
class PoolPlace:
    """The measuring devices of a pool.

    Attributes:
        address: of the scheduler.
        label: of the workers, each with one device.
        certificates: of the pool; the user's key file by default.
    """

    address: str
    label: str
    certificates: Certificates | None = None


def _ignore(line: str) -> None:
    del line


@dataclass(frozen=True)
class TuneSettings:
    """Settings of a tuning run; see `tune`, whose argument `settings` is `session`."""

    seconds: float = 600.0
    trials: int | None = None
    db: str | None = None
    pool: PoolPlace | None = None
    output: str | Path | None = None
    callback: Callback | None = None
    threads: int = field(default_factory=default_threads)
    seed: int = 0
    strategy: str = Strategy.MODEL.value
    rounds: int = ROUNDS
    graph: float | None = None
    session: SessionSettings | None = None
    measurer: Measurer | None = None
    progress: Callable[[str], object] = _ignore
    feeds: Mapping[str, NDArray[Any]] = field(default_factory=dict[str, NDArray[Any]])

    def graph_share(self, target: str) -> float:
        """Return the part of the time for choices about operators."""
        if self.graph is not None:
            return self.graph
        is_here = self.pool is None and self.measurer is None
        if self.trials is None and is_here and not find_target(target)[0].is_simulated:
            return SHARE
        return 0.0


def make_measurer(threads: int, pool: PoolPlace | None = None) -> Measurer:
    """Return a measurer: this machine or the pool's devices with a label, and simulators for
    targets that have one.
    """
    settings = MeasureSettings(threads=threads)

    def hardware() -> Measurer:
        if pool is None:
            return LocalMeasurer(settings)
        from tcopt.tuner.pool.measurer import PoolMeasurer

        return PoolMeasurer(pool.address, pool.label, settings, pool.certificates)

    return PlacedMeasurer(settings, hardware)
