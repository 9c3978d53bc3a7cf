"""Loops with short iterations check for a stop request at intervals, whatever they compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import pytest
from xdsl.ir import Block

import tcopt
from tcopt.backends.llvm.emit import stops
from tcopt.backends.llvm.emit.emitter import FunctionEmitter
from tcopt.backends.llvm.ops import parallel, scf

RNG = np.random.default_rng(0)
X = RNG.standard_normal(1037).astype(np.float32)
PLACES = RNG.integers(0, 1037, 1037)

CASES: dict[str, tuple[str, str, np.ndarray]] = {
    "elementwise": ("float[1037] x", "y = Mul(x, x)", X * X),
    "gather": ("float[1037] x, int64[1037] i", "y = Gather(x, i)", X[PLACES]),
    "sorted": ("float[1037] x", "y, p = TopK(x, k)", np.sort(X)[::-1]),
    "running maximum": ("float[1037] x", "m = ReduceMax(x) y = Sub(x, m)", X - X.max()),
    "running sum": ("float[1037] x", "y = CumSum(x, zero)", np.cumsum(X, dtype=np.float32)),
}


def compiled(inputs: str, body: str) -> tcopt.Model:
    return tcopt.compile(
        onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
          g ({inputs}) => (float[1037] y)
          <int64[1] k = {{1037}}, int64 zero = {{0}}> {{ {body} }}"""),
        cache=False,
        workers=0,
    )


@pytest.mark.parametrize("interval", [5, 100_000])
@pytest.mark.parametrize("name", CASES)
def test_results_do_not_depend_on_the_interval(
    name: str, interval: int, monkeypatch: pytest.MonkeyPatch
):
    intervals: list[int | None] = []

    def forced(e: FunctionEmitter, body: Block, trips: int | None) -> int | None:
        intervals.append(stops.stop_interval(e, body, trips))
        return interval if e.can_stop else None

    for module in (scf, parallel):
        monkeypatch.setattr(module, "stop_interval", forced)
    inputs, body, expected = CASES[name]
    model = compiled(inputs, body)
    feeds = {"x": X, "i": PLACES}
    (y,) = model.run({spec.name: feeds[spec.name] for spec in model.inputs})
    assert intervals
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-4)


class Asked:
    """The part of an emitter that `stop_interval` uses."""

    def __init__(self, work: int, *, can_stop: bool = True):
        self.can_stop = can_stop
        self.module = self
        self.work = dict.fromkeys((id(BODY),), work)


BODY = Block()


@pytest.mark.parametrize(
    ("work", "trips", "checks"),
    [
        (10, 1000, None),
        (10, 10**8, "some"),
        (10, None, None),
        (40, None, "each"),
        (300, 1000, None),
        (300, 10**6, "each"),
        (30_000, 2, "each"),
        (0, 10**9, "some"),
    ],
)
def test_every_long_loop_checks(work: int, trips: int | None, checks: str | None):
    asked: Any = Asked(work)
    deaf: Any = Asked(work, can_stop=False)
    interval = stops.stop_interval(asked, BODY, trips)
    if checks != "some":
        assert interval == {None: None, "each": 1}[checks]
    else:
        assert interval is not None and 1 < interval <= 1 << 22
    assert stops.stop_interval(deaf, BODY, trips) is None
