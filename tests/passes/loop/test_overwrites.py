"""In-place updates: every reader sees the value before or after the update as specified."""

from __future__ import annotations

import numpy as np
import pytest

import tcopt
from tcopt.frontends.onnx.building.network import Network

_ROWS, _COLUMNS = 12, 5


def _chain(rng: np.random.Generator) -> tuple[Network, list[str]]:
    """Chained updates, some of which are read by others, as data and as updates."""
    net = Network("updates", opset=18)
    values = [net.input("x", [_ROWS, _COLUMNS])]
    for _ in range(7):
        x, read = (values[rng.integers(max(0, len(values) - 3), len(values))] for _ in range(2))
        rows = rng.permutation(_ROWS)[:4].astype(np.int64)
        match rng.integers(5):
            case 0:
                made = net.add("Tanh", x)
            case 1:
                part = net.add("Gather", read, net.weight(rows[:4]))
                made = net.add("ScatterND", x, net.weight(rows[:, None]), part)
            case 2:
                flat = net.add("Reshape", x, net.ints(_ROWS * _COLUMNS))
                part = net.add(
                    "Slice", net.add("Reshape", read, net.ints(-1)), net.ints(0), net.ints(4)
                )
                flat = net.add("ScatterElements", flat, net.weight(rows), part, reduction="add")
                made = net.add("Reshape", flat, net.ints(_ROWS, _COLUMNS))
            case _:
                part = net.add("Slice", read, net.ints(0), net.ints(4), net.ints(0))
                made = net.add("ScatterND", x, net.weight(rows[:, None]), part, reduction="max")
        values.append(made)
    return net, values


@pytest.mark.nightly(every=2)
@pytest.mark.parametrize("seed", range(8))
def test_chains_of_updates(seed):
    onnxruntime = pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(seed)
    net, values = _chain(rng)
    results = {values[-1], values[int(rng.integers(3, 8))]}
    model = net.model(**{name: [_ROWS, _COLUMNS] for name in sorted(results)})
    model.ir_version = 9
    x = rng.standard_normal((_ROWS, _COLUMNS)).astype(np.float32)
    given = x.copy()
    found = tcopt.compile(model, cache=False, workers=0).run({"x": x})
    np.testing.assert_array_equal(x, given)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for ours, theirs in zip(found, session.run(None, {"x": x}), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
