"""Settings of tuning, and of where candidates are measured."""

from __future__ import annotations

from dataclasses import dataclass, field

from tcopt.support.registries.target_registry import find_target
from tcopt.tuner.measure.measurer import LocalMeasurer, Measurer, MeasureSettings
from tcopt.tuner.measure.simulated import PlacedMeasurer
from tcopt.tuner.pool.security import Certificates
from tcopt.tuner.session import SessionSettings
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


@dataclass(frozen=True)
class TuneSettings:
    """Settings of a tuning run; see `tune`."""

    seconds: float = 600.0
    trials: int | None = None
    db: str | None = None
    pool: PoolPlace | None = None
    threads: int | None = None
    seed: int = 0
    strategy: str = Strategy.MODEL.value
    rounds: int = ROUNDS
    graph: float = SHARE
    session: SessionSettings = field(default_factory=SessionSettings)


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


def graph_share(
    given: float | None,
    target: str,
    trials: int | None,
    pool: PoolPlace | None,
    measurer: Measurer | None,
) -> float:
    """Return the part of the time for choices about operators, if compared here."""
    is_here = pool is None and measurer is None and not find_target(target)[0].is_simulated
    usual = SHARE if trials is None and is_here else 0.0
    return usual if given is None else given
