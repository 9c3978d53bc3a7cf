"""Reductions with few results and long sums: shared among blocks, and threads of blocks."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
import onnx.parser
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tcopt
from device.launch_work import launch_works
from models.light_models import light_model
from programs.gpu_programs import kernels_of, run_launches
from running.examples import examples
from tcopt.backends.named_gpus import named_gpu
from tcopt.dialects import loop
from tcopt.dialects.target import GpuTargetAttr
from tcopt.dialects.te import api as te
from tcopt.passes.loop.bufferize.stage_nests import lower_function
from tcopt.runtime.device.program import DeviceProgram
from tcopt.runtime.device.steps import Launch
from tcopt.schedules.analysis.patterns import match_block
from tcopt.schedules.rules.gpu import launches, reduction_plan
from tcopt.schedules.rules.rule import facts_of

# Both sides add some hundred float32 numbers, in different orders.
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}

_HEAD = '<ir_version: 10, opset_import: ["" : 21]>'


def small_gpu(features: str, cores: int = 3, start: int = 4000) -> GpuTargetAttr:
    """A device that is busy with little work."""
    return GpuTargetAttr(
        "opencl",
        features=features,
        warp=4,
        max_threads=16,
        registers=64,
        shared=4096,
        vector_bits=128,
        cores=cores,
        start=start,
    )


def reduced(
    shape: tuple[int, ...], axes: tuple[int, ...], kind: Callable, scaled: bool
) -> loop.FuncOp:
    """y = kind(x over some axes), and optionally three times that."""
    x = te.placeholder(shape, name="x")
    reduce = {axis: te.reduce_axis(shape[axis], f"k{axis}") for axis in axes}
    rest = [axis for axis in range(len(shape)) if axis not in axes]

    def element(*index: te.Expr) -> te.Expr:
        places = {**reduce, **dict(zip(rest, index, strict=True))}
        term = x[tuple(places[axis] for axis in range(len(shape)))]
        return kind(term, axis=[reduce[axis] for axis in axes])

    results = tuple(shape[axis] for axis in rest)
    y = te.compute(results, element, name="r")
    if scaled:
        total = y
        y = te.compute(results, lambda *i: total[i] + total[i] + total[i], name="y")
    return lower_function(te.func("f", [x], [y]))


@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_axes_of_any_shape(data: st.DataObject, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads of several launches do not race, and compute the result."""
    # Low costs of a launch, so that a second one pays off for small shapes.
    start = data.draw(st.sampled_from([1, 4000]))
    monkeypatch.setattr(reduction_plan, "TERMS_A_PART", 2)
    shape = tuple(data.draw(st.lists(st.integers(1, 13), min_size=1, max_size=4)))
    axes = data.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))
    axes = tuple(sorted(axes))
    kind, expected = data.draw(st.sampled_from([(te.sum, np.sum), (te.max, np.max)]))
    scaled = data.draw(st.booleans())
    target = small_gpu(data.draw(st.sampled_from(["", "shuffle"])), start=start)
    kernels = kernels_of(reduced(shape, axes, kind, scaled), target)
    x = np.random.default_rng(prod(shape)).standard_normal(shape, np.float32)
    arrays = {"x": x}
    run_launches(kernels, arrays)
    result = arrays["y" if scaled else "r"]
    wanted = expected(x, axis=axes) * (3 if scaled else 1)
    np.testing.assert_allclose(result, wanted, **TOLERANCE)


def launches_of(text: str, target: str) -> tuple[str, list[tuple[int, int]]]:
    """Return the source of a model, and the blocks and threads of each launch."""
    program = tcopt.compile(onnx.parser.parse_model(f"{_HEAD}\n{text}"), target).program
    assert isinstance(program, DeviceProgram)
    steps = [step for step in program.steps if isinstance(step, Launch)]
    return program.source, [(prod(step.grid), prod(step.block)) for step in steps]


FULL = "f (float[1000, 3000] x) => (float y) { y = ReduceMean <keepdims = 0> (x) }"


def test_a_full_reduction_fills_the_device() -> None:
    """Whole vectors are loaded without a branch, and a block combines partial results."""
    source, grids = launches_of(FULL, "cuda:sm_80")
    assert grids == [(216, 256), (1, 32)]
    loop_ = source[source.index("$L__BB0_1:") : source.index("@%p1 bra")]
    assert loop_.count("ld.global.nc.v4") == 2
    assert "bra" not in loop_ and ".local" not in source


@pytest.mark.nightly(every=3)
@pytest.mark.parametrize(
    ("text", "grids"),
    [
        # One row that a single block handles: one launch.
        ("f (float[1, 1000] x) => (float[1, 1000] y) { y = Softmax (x) }", [(1, 128)]),
        (
            "f (float[1, 768] x, float[768] s) => (float[1, 768] y) "
            "{ y = LayerNormalization (x, s) }",
            [(1, 128)],
        ),
        # One row for which more launches would take longer than a single core.
        ("f (float[1, 32000] x) => (float[1, 32000] y) { y = Softmax (x) }", [(1, 1024)]),
        # One row that needs several blocks: maxima, their maximum, sums, their sum, quotients.
        (
            "f (float[1, 100000] x) => (float[1, 100000] y) { y = Softmax (x) }",
            [(24, 256), (1, 32), (24, 256), (1, 32), (391, 256)],
        ),
        # Sums of columns: adjacent threads have adjacent columns.
        (
            "f (float[16384, 64] x) => (float[64] y) "
            "{ a = Constant <value_ints = [0]> () y = ReduceSum <keepdims = 0> (x, a) }",
            [(216, 256), (2, 256)],
        ),
        # Reduced axes on both sides of a kept one.
        (
            "f (float[30, 8, 1000] x) => (float[8] y) "
            "{ a = Constant <value_ints = [0, 2]> () y = ReduceSum <keepdims = 0> (x, a) }",
            [(56, 256), (1, 16)],
        ),
        (
            "f (uint8[300000] x) => (uint8 y) { y = ReduceMax <keepdims = 0> (x) }",
            [(73, 256), (1, 32)],
        ),
        ("f (float[99999] x) => (int64 y) { y = ArgMin <axis = 0, keepdims = 0> (x) }", None),
    ],
)
def test_launches(text: str, grids: list[tuple[int, int]] | None) -> None:
    _, found = launches_of(text, "cuda:sm_80")
    assert grids is None or found == grids
    assert all(threads >= 16 for _, threads in found)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "target"), [("light_shufflenet", "cuda:sm_80"), ("light_squeezenet", "opencl:mali")]
)
def test_no_thread_of_a_network_works_alone(name: str, target: str) -> None:
    """A launch with fewer threads than a warp has little work for each."""
    for work in launch_works(light_model(name), target):
        assert work.threads >= 16 or work.steps <= 64, work


def test_one_thread_is_told() -> None:
    """The check for idle threads detects a rule that uses a single thread."""
    model = onnx.parser.parse_model(f"{_HEAD}\n{FULL}")
    with pytest.MonkeyPatch.context() as patch:
        declined = launches.Declined("not now")
        patch.setattr(launches, "launches_space", lambda sch, facts: declined)
        patch.setattr("tcopt.schedules.rules.gpu.reduction.launches_cycles", lambda sch, facts: 0.0)
        works = launch_works(model, "cuda:sm_80")
    assert max(work.steps for work in works if work.threads == 1) == 3000000


def test_more_threads_than_terms_are_none() -> None:
    """Each thread of each block needs a first term, otherwise its partial result is undefined."""
    facts = facts_of(named_gpu("sm_80"))
    for length in (5, 33, 255, 1001, 99991):
        function = reduced((length,), (0,), te.sum, scaled=False)
        (block,) = [op for op in function.walk() if isinstance(op, loop.BlockOp)]
        pattern = match_block(block)
        assert pattern is not None
        sharing = reduction_plan.choose_sharing(pattern, facts)  # pyright: ignore
        assert sharing.parts * sharing.threads * sharing.lanes <= max(length, 32)
