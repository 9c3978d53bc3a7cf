"""Validity of records after a change of the compiler.

Each change of the compiler changes its version, but leaves most generated code as it is. So records
of another version are stale, not useless: their order still shows where to search, and they count
again once the best of them and the default have been measured again.
"""

from __future__ import annotations

from dataclasses import dataclass

from tcopt.tuner.measure.outcomes import OK
from tcopt.tuner.records.store import Store
from tcopt.tuner.records.trials import Trial

AGAIN = 3
"""Number of best schedules that are measured again."""


@dataclass(frozen=True)
class Standing:
    """The records of one workload for one version of the compiler.

    Attributes:
        fresh: trials of this version, the fastest first.
        stale: trials of other versions whose schedules were not measured again, the fastest first.
    """

    fresh: tuple[Trial, ...]
    stale: tuple[Trial, ...]

    @property
    def again(self) -> tuple[Trial, ...]:
        """Trials to measure again, with the default, before stale trials count."""
        best = [t for t in self.stale if t.status == OK and t.sequence]
        return tuple(best[: max(AGAIN - self._confirmed, 0)])

    @property
    def _confirmed(self) -> int:
        """Number of schedules that were measured with this version."""
        return len({t.schedule for t in self.fresh if t.status == OK})

    @property
    def usable(self) -> tuple[Trial, ...]:
        """Trials to learn from: stale ones only once the best of them were measured again."""
        return (*self.fresh, *(() if self.again else self.stale))


def standing(
    store: Store, workload: str, target: str, code_version: str, *, machine: str | None = None
) -> Standing:
    """Return the records of a workload, as fresh and stale trials."""
    trials = store.trials(workloads=[workload], target=target, machine=machine)
    trials.sort(key=lambda trial: trial.ratio)
    fresh = [t for t in trials if t.code_version == code_version]
    again = {t.schedule for t in fresh if t.schedule}
    stale: dict[str, Trial] = {}
    for trial in trials:
        if trial.code_version != code_version and trial.schedule not in again:
            stale.setdefault(trial.schedule or trial.id, trial)
    return Standing(tuple(fresh), tuple(stale.values()))
