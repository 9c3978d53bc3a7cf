"""Programs for ranges of sizes on devices: every size, next to memory that faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx.parser
import pytest
from onnx import ModelProto

import tcopt
from machines.cuda_machine import CudaMachine, cuda_machine
from machines.opencl_device import needs_device
from models.checks import run_reference
from models.sized_models import SIZED_MODELS
from tcopt.compiler.kernel import Kernel
from tcopt.runtime.device.arrays import DeviceArray
from tcopt.runtime.device.cuda import cuda_device
from tcopt.runtime.device.program import DeviceProgram
from tcopt.runtime.device.session import STEPS_KEPT
from tcopt.runtime.device.steps import KernelLaunch, Launch, fixed_steps
from tcopt.support.arithmetic.sizes import ceildiv, named_size, symbols_of
from tcopt.support.errors import InputError, PassFailedError

Sizes = Mapping[str, int]


class Case(NamedTuple):
    """A model whose inputs have named dimensions, and their ranges."""

    text: str
    dims: dict[str, tuple[int, int]]

    def sizes(self) -> Iterator[Sizes]:
        """Yield assignments with each value of each size; two sizes are not in step."""
        ranges = {name: range(low, high + 1) for name, (low, high) in self.dims.items()}
        for number in range(max(map(len, ranges.values()))):
            yield {
                name: values[number * (at + 1) % len(values)]
                for at, (name, values) in enumerate(ranges.items())
            }


CASES = {
    "rows": Case(
        """(float[n, 20] x, float[20] b) => (float[n, 20] y) {
          a = Add(x, b)  y = Softmax(a) }""",
        {"n": (0, 9)},
    ),
    "products": Case(
        """(float[a, b, 6] x, float[6, 5] w) => (float[a, b, 5] y) {
          m = MatMul(x, w)  y = Tanh(m) }""",
        {"a": (1, 4), "b": (1, 7)},
    ),
    "scores": Case(
        """(float[n, 8] x) => (float[n, 8] y) {
          t = Transpose <perm = [1, 0]> (x)  s = MatMul(x, t)
          p = Softmax(s)  y = MatMul(p, x) }""",
        {"n": (1, 17)},
    ),
    "parts": Case(
        """(float[a, 3] x, float[b, 3] y) => (float[c, 3] z) {
          p = Relu(x)  q = Neg(y)  z = Concat <axis = 0> (p, q, x) }""",
        {"a": (0, 5), "b": (1, 6)},
    ),
    "images": Case(
        """(float[n, 3, 6, 6] x, float[4, 3, 3, 3] w) => (float[n, 4, 3, 3] y) {
          c = Conv <pads = [1, 1, 1, 1]> (x, w)  r = Relu(c)
          y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r) }""",
        {"n": (1, 5)},
    ),
    "areas": Case(
        """(float[1, 2, h, w] x, float[3, 2, 3, 3] f) => (float[1, 3] y) {
          c = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (x, f)  r = Relu(c)
          g = GlobalAveragePool(r)  y = Flatten(g) }""",
        {"h": (3, 9), "w": (4, 12)},
    ),
}
TARGETS = ("cuda:sm_80", "opencl", "mali")
DAILY = ["cuda:sm_80-rows", "cuda:sm_80-scores", "cuda:sm_80-areas", "opencl-parts"]


def model(case: Case) -> ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> m {case.text}')


@cache
def compiled(name: str, target: str) -> tcopt.Model:
    with cuda_machine((8, 0)):
        return tcopt.compile(model(CASES[name]), target, dims=CASES[name].dims, workers=0)


def values(found: tcopt.Model, sizes: Sizes) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = {
        spec.name: [sizes.get(str(d), d) for d in spec.dims or spec.shape] for spec in found.inputs
    }
    return {n: rng.standard_normal(shape).astype(np.float32) for n, shape in shapes.items()}


def run_on_cuda(found: tcopt.Model, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Run on tensors without room for the upper bounds; an access beyond them is an error."""
    given: dict[str, DeviceArray] = {}
    for name, array in feeds.items():
        given[name] = DeviceArray(cuda_device(), name, array.shape, array.dtype)
        given[name].write(array)
    return [np.asarray(each) for each in found.run(given, on_device=True)]


def check(
    found: tcopt.Model,
    source: ModelProto,
    sizes: Sizes,
    run: Callable[[tcopt.Model, Mapping[str, np.ndarray]], list[np.ndarray]],
) -> None:
    feeds = values(found, sizes)
    for one, other in zip(run(found, feeds), run_reference(source, feeds), strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5, err_msg=str(sizes))


@pytest.mark.nightly(daily=DAILY)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    "target", [t if t.startswith("cuda") else pytest.param(t, marks=needs_device) for t in TARGETS]
)
def test_every_size(name: str, target: str) -> None:
    case, found = CASES[name], compiled(name, target)
    if not target.startswith("cuda"):
        for sizes in case.sizes():
            check(found, model(case), sizes, tcopt.Model.run)
        return
    with cuda_machine((8, 0)):
        for sizes in case.sizes():
            check(found, model(case), sizes, run_on_cuda)


@pytest.mark.nightly
@pytest.mark.parametrize("capability", [(7, 5), (8, 0), (9, 0)], ids=str)
@pytest.mark.parametrize("name", SIZED_MODELS)
def test_networks(name: str, capability: tuple[int, int]) -> None:
    case = SIZED_MODELS[name]
    source = case.build()
    with cuda_machine(capability):
        found = tcopt.compile(source, "cuda", dims=case.dims, workers=0)
        for sizes in case.values:
            check(found, source, sizes, run_on_cuda)


@pytest.fixture
def machine() -> Iterator[CudaMachine]:
    with cuda_machine((8, 0)) as machine:
        yield machine


def loaded(name: str, folder: Path) -> tcopt.Model:
    """Return a model that no device has seen."""
    compiled(name, "cuda:sm_80").save(folder / "m.tcm")
    return tcopt.load(folder / "m.tcm")


def test_saved_models_keep_formulas(machine: CudaMachine, tmp_path: Path) -> None:
    found, first = loaded("rows", tmp_path), compiled("rows", "cuda:sm_80")
    assert isinstance(found.program, DeviceProgram) and isinstance(first.program, DeviceProgram)
    assert found.inputs == first.inputs and found.outputs == first.outputs
    for sizes in ({"n": 1}, {"n": 9}):
        assert fixed_steps(found.program.steps, sizes) == fixed_steps(first.program.steps, sizes)
        check(found, model(CASES["rows"]), sizes, run_on_cuda)
    with pytest.raises(InputError, match="n from 0 to 9"):
        found.run({"x": np.zeros((10, 20), np.float32), "b": np.zeros(20, np.float32)})


def test_no_blocks_are_launched_for_an_empty_tensor(machine: CudaMachine) -> None:
    source = model(Case("(float[n, 64] x) => (float[n, 64] y) { y = Relu(x) }", {}))
    found = tcopt.compile(source, "cuda:sm_80", dims={"n": (0, 20)}, workers=0)
    check(found, source, {"n": 0}, run_on_cuda)
    assert not machine.launches
    check(found, source, {"n": 20}, run_on_cuda)
    ((_, grid, _),) = machine.launches
    assert grid > (1, 1, 1)


def test_grids_grow_with_sizes() -> None:
    program = compiled("scores", "cuda:sm_80").program
    assert isinstance(program, DeviceProgram)

    def blocks(n: int) -> int:
        steps = fixed_steps(program.steps, {"n": n})
        return sum(int(np.prod(step.grid)) for step in steps if isinstance(step, Launch))

    # Tiles of the products have 16 rows, so that 17 rows need twice as many.
    assert blocks(17) > blocks(16) + 2


def test_tiles_of_tensor_cores_end_at_sizes(machine: CudaMachine) -> None:
    text = "(float16[n, 32] x, float16[32, 40] w) => (float16[n, 40] y) { y = MatMul(x, w) }"
    source = model(Case(text, {}))
    found = tcopt.compile(source, "cuda:sm_80", dims={"n": (1, 70)}, workers=0)
    assert isinstance(found.program, DeviceProgram) and "mma.sync" in found.program.source
    rng = np.random.default_rng(0)
    w = rng.integers(-3, 4, (32, 40)).astype(np.float16)
    for n in (1, 16, 33, 70):
        x = rng.integers(-3, 4, (n, 32)).astype(np.float16)
        (y,) = run_on_cuda(found, {"x": x, "w": w})
        np.testing.assert_array_equal(y, x @ w)
    blocks = [int(np.prod(grid)) for _, grid, _ in machine.launches]
    assert blocks[0] < blocks[-1]


def test_sessions_have_a_graph_for_each_combination(machine: CudaMachine, tmp_path: Path) -> None:
    source = model(CASES["rows"])
    session = loaded("rows", tmp_path).session()
    assert session.inputs["x"].shape == (9, 20)
    for n in (*range(1, 4), 2):
        session.resize([n])
        x = np.random.default_rng(n).standard_normal((n, 20)).astype(np.float32)
        session.inputs["x"].write(x)
        session.inputs["b"].write(b := np.arange(20, dtype=np.float32))
        session.start()
        (wanted,) = run_reference(source, {"x": x, "b": b})
        np.testing.assert_allclose(session.outputs["y"].read(), wanted, rtol=1e-5, atol=1e-6)
    with pytest.raises(InputError):
        session.inputs["x"].write(np.zeros((3, 20), np.float32))
    assert machine.graphs == 4 and machine.captured == 3
    for wrong in ([35], [-1], []):
        with pytest.raises(InputError, match="size"):
            session.resize(wrong)


def test_loops_over_a_sized_time_name_their_node() -> None:
    source = model(
        Case(
            """(float[t, 1, 4] x, float[1, 4, 4] w, float[1, 4, 4] r) => (float[t, 1, 1, 4] y) {
              y = RNN <hidden_size = 4> (x, w, r) }""",
            {},
        )
    )
    with pytest.raises(PassFailedError, match="RNN"):
        tcopt.compile(source, "cuda:sm_80", dims={"t": (1, 9)}, workers=0)
    lazy = tcopt.compile(source, "cuda:sm_80", dims={"t": "1..9?"}, workers=0)
    assert lazy.inputs[0].shape[0] == "t"


def test_graphs_are_bounded(machine: CudaMachine, tmp_path: Path) -> None:
    found, case = loaded("rows", tmp_path), CASES["rows"]
    for n in (*range(1, 10), 1):
        check(found, model(case), {"n": n}, tcopt.Model.run)
    assert machine.captured == 10 > STEPS_KEPT


def test_profiles_count_live_bytes(machine: CudaMachine) -> None:
    found, moved = compiled("rows", "cuda:sm_80"), list[int]()
    for n in (2, 4):
        feeds = values(found, {"n": n})
        moved.append(sum(call.bytes for call in found.profile(feeds, 1).kernels))
    assert moved[1] - moved[0] == 2 * 4 * (20 + 20)


def test_kernels_with_formulas_are_cached() -> None:
    n = named_size("s0", 1, 99)
    launch = KernelLaunch("f", (ceildiv(n, 8), 1, 1), (8, 1, 1), (0, 1), (n,), symbols_of(n))
    kernel = Kernel("f", b"code", (), (), True, (), {}, (launch,))
    assert Kernel.from_bytes(kernel.to_bytes()) == kernel
