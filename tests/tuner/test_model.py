"""The model that ranks choices."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from tcopt.support.errors import InputError
from tcopt.tuner.features import NAMES
from tcopt.tuner.model import (
    MOST_OF_GROUP,
    ExampleGroup,
    ModelSettings,
    Ranker,
    import_lightgbm,
    label,
)

pytest.importorskip("lightgbm", reason="the model is LightGBM's")


def _group(count: int, seed: int, workload: str = "own", sign: float = 1.0) -> ExampleGroup:
    """Speeds that depend on two of the columns."""
    rng = np.random.default_rng(seed)
    features = rng.random((count, len(NAMES)), np.float32) * 8
    speeds = np.exp(sign * (0.1 * features[:, 3] - 0.2 * features[:, 7])).astype(np.float64)
    return ExampleGroup(workload, "here", features, speeds)


def test_labels_are_quantiles_and_failures_are_last() -> None:
    speeds = np.asarray([0.0, 1.0, 1.0, 2.0, 4.0, 0.0])
    assert label(speeds).tolist() == [0, 1, 1, 15, 30, 0]
    many = label(np.linspace(0.5, 2, 5000))
    assert many.min() == 1 and many.max() == 30
    assert (np.diff(many) >= 0).all()
    assert label(np.zeros(3)).tolist() == [0, 0, 0]


def test_a_model_orders_what_it_has_not_seen() -> None:
    ranker = Ranker(ModelSettings(trees=50))
    ranker.learn([_group(400, 1)], "own")
    unseen = _group(200, 2)
    scores = ranker.predict(unseen.features)
    order = np.argsort(np.argsort(scores)), np.argsort(np.argsort(unseen.speeds))
    assert np.corrcoef(*order)[0, 1] > 0.8
    shares = list(ranker.importance().items())
    assert {name for name, _ in shares[:2]} == {NAMES[3], NAMES[7]}


def test_equal_seeds_give_equal_models() -> None:
    features = _group(100, 5).features
    scores = []
    for _ in range(2):
        ranker = Ranker(ModelSettings(trees=20, seed=7))
        ranker.learn([_group(300, 1)], "own")
        scores.append(ranker.predict(features))
    assert np.array_equal(*scores)


def test_too_little_teaches_nothing() -> None:
    ranker = Ranker()
    ranker.learn([], "own")
    assert not ranker.is_ready
    ranker.learn([_group(7, 1)], "own")
    assert not ranker.is_ready and ranker.importance() == {}
    failed = _group(40, 1)
    ranker.learn([ExampleGroup("own", "here", failed.features, np.zeros(40))], "own")
    assert not ranker.is_ready
    with pytest.raises(ValueError, match="not been trained"):
        ranker.predict(failed.features)


def test_what_others_teach_fades() -> None:
    """A task's own data overrides contradicting data of another, increasingly with its amount."""
    others, own = _group(1000, 1, "other", -1.0), _group(128, 2)
    unseen = _group(300, 3)

    def agreement(trials: int) -> float:
        ranker = Ranker(ModelSettings(trees=50))
        ranker.learn([others, own], "own", trials)
        return float(np.corrcoef(ranker.predict(unseen.features), unseen.speeds)[0, 1])

    assert agreement(0) < agreement(256)
    assert agreement(256) > 0.5


def test_large_groups_are_parted() -> None:
    ranker = Ranker(ModelSettings(trees=2))
    ranker.learn([_group(5 * MOST_OF_GROUP, 1)], "own")
    assert ranker.is_ready
    assert ranker.examples <= 2 * MOST_OF_GROUP


def test_features_need_their_speeds() -> None:
    with pytest.raises(ValueError, match="2 speeds"):
        ExampleGroup("own", "here", np.zeros((3, len(NAMES)), np.float32), np.ones(2))


def test_a_missing_library_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(InputError, match="needs LightGBM"):
        import_lightgbm()
