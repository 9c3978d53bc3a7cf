"""What records are worth after a change of the compiler.

Each change of the compiler gives it another version, and most leave most code as it is. So a record
of another version is stale, not lost: its order still tells where to look, and it counts again
once the best of them, and the default, have been measured anew.
"""

from __future__ import annotations

from dataclasses import dataclass

from tcopt.tuner.measure.outcomes import OK
from tcopt.tuner.records.store import Store
from tcopt.tuner.records.trials import Trial

AGAIN = 3
"""How many of the best are measured again."""


@dataclass(frozen=True)
class Standing:
    """The records of one workload for one version of the compiler.

    Attributes:
        fresh: trials of this version, the fastest first.
        stale: those of others whose schedules were not measured again, the fastest first.
    """

    fresh: tuple[Trial, ...]
    stale: tuple[Trial, ...]

    @property
    def again(self) -> tuple[Trial, ...]:
        """What to measure again, beside the default, before stale trials count."""
        best = [t for t in self.stale if t.status == OK and t.sequence]
        return tuple(best[: max(AGAIN - self._confirmed, 0)])

    @property
    def _confirmed(self) -> int:
        """Schedules that were measured with this version."""
        return len({t.schedule for t in self.fresh if t.status == OK})

    @property
    def usable(self) -> tuple[Trial, ...]:
        """Trials that may be learned from: all once the best were measured again."""
        return (*self.fresh, *(() if self.again else self.stale))


def standing(
    store: Store, workload: str, target: str, code_version: str, *, machine: str | None = None
) -> Standing:
    """What records have of a workload."""
    trials = store.trials(workloads=[workload], target=target, machine=machine)
    trials.sort(key=lambda trial: trial.ratio)
    fresh = [t for t in trials if t.code_version == code_version]
    again = {t.schedule for t in fresh if t.schedule}
    stale: dict[str, Trial] = {}
    for trial in trials:
        if trial.code_version != code_version and trial.schedule not in again:
            stale.setdefault(trial.schedule or trial.id, trial)
    return Standing(tuple(fresh), tuple(stale.values()))
