"""Learned model that ranks choices by speed, trained on all records of a target kind.

Absolute times depend on the machine and its load, so the model only predicts an order. It is a
LightGBM model with a ranking objective: examples are in groups, and are compared only within their
group. A group is a workload on a machine, in a block of rounds. Its examples are labelled by the
quantile of their speedup over the default; failures are 0.

Examples of other workloads are used too, but fade as the task collects its own: their weight is
2^(-n / 64) after n trials, as in AutoTVM.

LightGBM is imported when a model is trained, never before a process forks, because its threads do
not survive a fork (microsoft/LightGBM#4751).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.support.errors import InputError
from tcopt.tuner.features import NAMES
from tcopt.tuner.footprints import Floats

LABELS = 31
"""Number of quantile labels: LightGBM's default gains end there."""

HALF_LIFE = 64
"""Number of own trials after which the weight of other workloads is halved."""

TAUGHT = 64
"""Total initial weight of all examples of other workloads, in own trials."""

LEAST_EXAMPLES = 8
"""Minimum number of examples: with fewer, the rules' estimates order choices better."""

MOST_EXAMPLES = 4096
"""Maximum number of examples, own ones first: the model is trained again each round."""

MOST_OF_GROUP = 2048
"""Maximum number of examples in a group; LightGBM refuses more than 10,000."""

FAINT = 1e-5
"""Minimum weight of an example; lighter ones are ignored."""


@dataclass(frozen=True)
class ExampleGroup:
    """Examples that may be compared with each other.

    Attributes:
        workload: the task's key; `machine`: where it was measured.
        features: a row for each example.
        speeds: speedup over the default; 0 for failures.
    """

    workload: str
    machine: str
    features: Floats
    speeds: NDArray[np.float64]

    def __post_init__(self) -> None:
        if len(self.features) != len(self.speeds):
            raise ValueError(f"{len(self.features)} examples have {len(self.speeds)} speeds")


@dataclass(frozen=True)
class ModelSettings:
    """Hyperparameters of the model.

    Attributes:
        trees, leaves: size of the model; 64 by 31 are predicted in a few microseconds.
        rate: learning rate.
        seed: equal seeds and examples give equal models.
        threads: of LightGBM, a fixed number, as sums depend on it.
    """

    trees: int = 64
    leaves: int = 31
    rate: float = 0.15
    seed: int = 0
    threads: int = 1
    objective: str = "lambdarank"
    more: dict[str, Any] = field(default_factory=dict[str, Any])

    def parameters(self) -> dict[str, Any]:
        """Return the hyperparameters under LightGBM's names."""
        return {
            "objective": self.objective,
            "num_leaves": self.leaves,
            "learning_rate": self.rate,
            "min_data_in_leaf": 4,
            "min_sum_hessian_in_leaf": 1e-4,
            "lambda_l2": 1.0,
            "feature_fraction": 0.7,
            "label_gain": list(range(LABELS + 1)),
            "lambdarank_truncation_level": HALF_LIFE,
            "seed": self.seed,
            "objective_seed": self.seed,
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": self.threads,
            "verbosity": -1,
        } | self.more


class Ranker:
    """Ranks choices by predicted speed.

    Attributes:
        examples: number of training examples; 0 before training.
    """

    def __init__(self, settings: ModelSettings | None = None):
        self.settings = settings or ModelSettings()
        self.examples = 0
        self._booster: Any = None

    @property
    def is_ready(self) -> bool:
        """Whether the model has been trained."""
        return self._booster is not None

    def learn(self, groups: Sequence[ExampleGroup], workload: str = "", trials: int = 0) -> None:
        """Train the model from scratch.

        Args:
            workload: the task that the model is for; examples of others weigh less.
            trials: number of trials of that task.
        """
        chosen = _choose(groups, workload, trials)
        self._booster = None
        self.examples = sum(len(group.speeds) for group, _ in chosen)
        if self.examples < LEAST_EXAMPLES:
            return
        labels = np.concatenate([label(group.speeds) for group, _ in chosen])
        if not np.any(labels != labels[0]):
            return
        lightgbm = import_lightgbm()
        data = lightgbm.Dataset(
            np.concatenate([group.features for group, _ in chosen]),
            label=labels,
            group=[len(group.speeds) for group, _ in chosen],
            weight=np.concatenate([np.full(len(g.speeds), w) for g, w in chosen]),
            feature_name=[name.replace(".", "_") for name in NAMES],
            params={"verbosity": -1, "min_data_in_bin": 1},
        )
        parameters = self.settings.parameters()
        self._booster = lightgbm.train(parameters, data, self.settings.trees)

    def predict(self, features: Floats) -> NDArray[np.float64]:
        """Return scores, higher for faster choices; only their order is meaningful."""
        if self._booster is None:
            raise ValueError("the model has not been trained")
        if not len(features):
            return np.zeros(0)
        return self._booster.predict(features, num_threads=self.settings.threads)

    def importance(self) -> dict[str, float]:
        """Return the feature importance of each column: its share of the gain of all splits."""
        if self._booster is None:
            return {}
        gains = self._booster.feature_importance("gain")
        total = float(gains.sum()) or 1.0
        shares = {name: float(g) / total for name, g in zip(NAMES, gains, strict=True)}
        return dict(sorted(shares.items(), key=lambda item: -item[1]))


def label(speeds: NDArray[np.float64]) -> NDArray[np.int32]:
    """Return quantiles from 1 to `LABELS - 1` for trials that ran, and 0 for failures; ties are
    equal.
    """
    labels = np.zeros(len(speeds), np.int32)
    ran = speeds > 0
    if ran.any():
        _, places = np.unique(speeds[ran], return_inverse=True)
        most = max(int(places.max()), 1)
        labels[ran] = 1 + np.rint(places * (LABELS - 2) / most).astype(np.int32)
    return labels


def _choose(
    groups: Sequence[ExampleGroup], workload: str, trials: int
) -> list[tuple[ExampleGroup, float]]:
    """Select training examples, own ones first, with their weights."""
    own = [(group, 1.0) for group in groups if group.workload == workload]
    rest = [group for group in groups if group.workload != workload]
    taught = sum(len(group.speeds) for group in rest)
    fade = min(1.0, TAUGHT / max(taught, 1)) * 2.0 ** (-trials / HALF_LIFE)
    others = [(group, fade) for group in rest if fade > FAINT]
    found: list[tuple[ExampleGroup, float]] = []
    room = MOST_EXAMPLES
    # The newest first: they are of the current code.
    for group, weight in [*reversed(own), *reversed(others)]:
        for start in range(0, min(len(group.speeds), room), MOST_OF_GROUP):
            rows = slice(start, min(start + MOST_OF_GROUP, room))
            part = ExampleGroup(
                group.workload, group.machine, group.features[rows], group.speeds[rows]
            )
            if len(part.speeds) > 1:
                found.append((part, weight))
                room -= len(part.speeds)
    return found


def import_lightgbm() -> Any:
    """Import and return LightGBM.

    Raises:
        InputError: it is not installed, or its library cannot be loaded.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import lightgbm
    except (ImportError, OSError) as error:
        raise InputError(
            f"searching with a model needs LightGBM: {error}",
            hint="pip install 'tcopt[tune]'; on Debian it needs libgomp1 as well",
        ) from error
    return lightgbm
