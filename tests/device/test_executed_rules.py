"""Kernels of each GPU schedule rule, executed as PTX for several capabilities and types.

Results are compared with those of onnxruntime in f32, or ONNX's reference, on the same inputs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import onnx.parser
import pytest
from onnx import ModelProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import tcopt
from machines.cuda_machine import cuda_machine
from models.checks import run_reference
from models.network import Network
from tcopt.passes.graph.windows import gather_windows
from tcopt.support.remarks import collect_remarks
from tcopt.targets import gpu_blocks

HEAD = '<ir_version: 10, opset_import: ["" : 21]> g '
ARCHS = ("sm_75", "sm_80", "sm_90")
ELEMENTS = {"f32": "float", "f16": "float16", "bf16": "bfloat16", "i8": "int8"}
FLOATS, HALVES, ALL = ("f32", "f16", "bf16"), ("f16", "bf16"), tuple(ELEMENTS)
# As a part of the output's magnitude. Operands and results are rounded to 11 or 8 bits, which moves
# them by 2^-12 or 2^-9; intermediates of a network of three layers are too. Sums are in f32.
TOLERANCE = {"f32": 1e-5, "f16": 2.0**-10, "bf16": 2.0**-7, "i8": 0.0}
MATRICES, SHARED = "gpu-tensor-core-tile", "gpu-shared-tile"


@dataclass(frozen=True)
class Case:
    """A model, and a rule that has to schedule one of its kernels.

    Attributes:
        text: `T` stands for the type of elements.
        types: what `T` can be.
        weights: inputs that are initialisers. Such a model is in f32, and a 16-bit type is the
            precision that it is compiled for.
        says: what a remark of the schedule has to mention.
    """

    rule: str
    text: str
    types: tuple[str, ...] = FLOATS
    weights: tuple[str, ...] = ()
    says: str = ""

    def model(self, element: str) -> ModelProto:
        """The model for a type of elements."""
        model = onnx.parser.parse_model(HEAD + re.sub(r"\bT\[", f"{ELEMENTS[element]}[", self.text))
        for value in list(model.graph.input):
            if value.name in self.weights:
                array = _values(value, np.random.default_rng(1)) / 4
                model.graph.input.remove(value)
                model.graph.initializer.append(numpy_helper.from_array(array, value.name))
        return model


CONV = "Conv <pads = [1, 1, 1, 1]>"
CASES = {
    "elementwise": Case(
        "gpu-injective",
        "(T[5,33] a, T[33] b) => (T[33,5] y) "
        "{ s = Add(a, b) t = Mul(s, a) y = Transpose <perm = [1, 0]> (t) }",
        ALL,
    ),
    "gather": Case(
        "gpu-injective", "(T[9,40] a, int64[7] i) => (T[7,40] y) { y = Gather(a, i) }", ALL
    ),
    "softmax": Case("gpu-reduction", "(T[3,200] a) => (T[3,200] y) { y = Softmax(a) }"),
    "row-of-three": Case("gpu-reduction", "(T[1,3] a) => (T[1,3] y) { y = Softmax(a) }"),
    "norm": Case(
        "gpu-reduction",
        "(T[300,6] a, T[6] s, T[6] b) => (T[300,6] y) { y = LayerNormalization(a, s, b) }",
    ),
    "outer-maximum": Case(
        "gpu-reduction",
        "(T[50,70] a) => (T[1,70] y) { x = Constant <value_ints = [0]> () y = ReduceMax(a, x) }",
        ALL,
    ),
    "argmax": Case("gpu-reduction", "(T[4,90] a) => (int64[4,1] y) { y = ArgMax <axis = 1> (a) }"),
    "max-pool": Case(
        "gpu-reduction",
        "(T[1,3,9,9] a) => (T[1,3,4,4] y) "
        "{ y = MaxPool <kernel_shape = [3, 3], strides = [2, 2]> (a) }",
        ("f32", "f16", "i8"),
    ),
    "average-pool": Case(
        "gpu-reduction",
        "(T[1,4,13,13] a) => (T[1,4,1,1] y) { y = GlobalAveragePool(a) }",
        ("f32", "f16"),
    ),
    "long-norm": Case(
        "gpu-launches",
        "(T[200000] a) => (T[1] y) { x = Constant <value_ints = [0]> () y = ReduceL2(a, x) }",
    ),
    "vector": Case(
        "gpu-vector-product",
        "(T[1,512] a, T[512,40] b) => (T[1,40] y) { y = MatMul(a, b) }",
    ),
    "product": Case(
        SHARED,
        "(T[40,48] a, T[48,36] b) => (T[40,36] y) { m = MatMul(a, b) y = Relu(m) }",
        ("f32",),
    ),
    "product-of-bytes": Case(
        SHARED,
        "(T[24,64] a, T[64,40] b) => (int32[24,40] y) { y = MatMulInteger(a, b) }",
        ("i8",),
    ),
    "split-sums": Case(
        SHARED,
        "(T[16,2048] a, T[2048,16] b) => (T[16,16] y) { y = MatMul(a, b) }",
        ("f32",),
        says="parts of each sum",
    ),
    "convolution": Case(
        SHARED,
        "(T[1,8,10,10] a, T[20,8,3,3] w, T[20] b) => (T[1,20,10,10] y) "
        f"{{ c = {CONV} (a, w, b) y = Relu(c) }}",
        ("f32",),
    ),
    "transposed-convolution": Case(
        SHARED,
        "(T[2,6,9,16] a, T[6,5,3,3] w) => (T[2,5,17,31] y) "
        "{ y = ConvTranspose <strides = [2, 2], pads = [1, 1, 1, 1]> (a, w) }",
        ("f32",),
    ),
    "matrices-of-phases": Case(
        MATRICES,
        "(float[2,16,5,6] a, float[16,24,4,4] w, float[24] b) => (float[2,24,10,12] y) "
        "{ c = ConvTranspose <strides = [2, 2], pads = [1, 1, 1, 1]> (a, w, b) y = Relu(c) }",
        HALVES,
        ("w", "b"),
    ),
    "depthwise": Case(
        "gpu-window-tile",
        "(float[1,6,9,16] a, float[6,1,3,3] w) => (float[1,6,9,16] y) "
        "{ y = Conv <pads = [1, 1, 1, 1], group = 6> (a, w) }",
        FLOATS,
        ("w",),
    ),
    "matrices": Case(
        MATRICES,
        "(T[64,64] a, T[64,72] b) => (T[64,72] y) { m = MatMul(a, b) y = Relu(m) }",
        HALVES,
        says="operands in shared memory",
    ),
    "odd-matrices": Case(
        MATRICES,
        "(T[3,50,45] a, T[3,45,37] b) => (T[3,50,37] y) { y = MatMul(a, b) }",
        HALVES,
    ),
    "split-matrices": Case(
        MATRICES,
        "(T[16,2048] a, T[2048,16] b) => (T[16,16] y) { y = MatMul(a, b) }",
        HALVES,
        says="parts of each sum",
    ),
    "matrices-of-a-convolution": Case(
        MATRICES,
        "(float[1,32,12,12] a, float[40,32,3,3] w) => (float[1,40,12,12] y) "
        f"{{ c = {CONV} (a, w) y = Relu(c) }}",
        HALVES,
        ("w",),
    ),
    "attention": Case(
        "gpu-reduction",
        "(T[2,24,16] q, T[2,24,16] k, T[2,24,16] v) => (T[2,24,16] y) "
        "{ t = Transpose <perm = [0, 2, 1]> (k) s = MatMul(q, t) p = Softmax(s) "
        "y = MatMul(p, v) }",
    ),
    "cumulative-sum": Case(
        "gpu-injective",
        "(T[4,30] a) => (T[4,30] y) { x = Constant <value_int = 1> () y = CumSum(a, x) }",
        ("f32",),
        says="stays on one thread",
    ),
    "top-k": Case(
        "gpu-injective",
        "(T[3,40] a) => (T[3,5] y, int64[3,5] i) "
        "{ k = Constant <value_ints = [5]> () y, i = TopK(a, k) }",
        ("f32", "f16"),
        says="stays on one thread",
    ),
    "nonzero": Case(
        "gpu-injective",
        "(T[6,7] a) => (int64[2,n] y) { y = NonZero(a) }",
        ("f32", "f16"),
        says="stays on one thread",
    ),
    "scatter": Case(
        "gpu-injective",
        "(T[6,7] a, int64[3,7] i, T[3,7] u) => (T[6,7] y) { y = ScatterElements(a, i, u) }",
        FLOATS,
        says="stays on one thread",
    ),
    "lstm": Case(
        "gpu-register-tile",
        "(T[5,2,8] x, T[1,24,8] w, T[1,24,6] r) => (T[5,1,2,6] y, T[1,2,6] h, T[1,2,6] c) "
        "{ y, h, c = LSTM <hidden_size = 6> (x, w, r) }",
        ("f32",),
    ),
}
RUNS = [
    (name, element, arch)
    for name, case in CASES.items()
    for element in case.types
    for arch in ARCHS
]
DAILY = (
    "elementwise-i8-sm_90",
    "argmax-bf16-sm_80",
    "long-norm-f16-sm_75",
    "vector-f32-sm_90",
    "product-of-bytes-i8-sm_75",
    "convolution-f32-sm_90",
    "depthwise-bf16-sm_80",
    "split-matrices-bf16-sm_90",
    "matrices-f16-sm_75",
    "matrices-bf16-sm_75",
    "top-k-f16-sm_75",
)


def _values(value: onnx.ValueInfoProto, rng: np.random.Generator) -> np.ndarray:
    """Random values: indices are valid for all axes."""
    shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
    dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
    if dtype == np.int64:
        # Distinct along the first axis, as `ScatterElements` requires.
        return np.argsort(rng.random(shape), 0)
    if dtype == np.int8:
        return rng.integers(-20, 20, shape).astype(dtype)
    return rng.standard_normal(shape).astype(np.float32).astype(dtype)


@cache
def _expected(name: str, element: str) -> tuple[dict[str, np.ndarray], list[np.ndarray]]:
    """Inputs, and results in f32."""
    case = CASES[name]
    model = case.model(element)
    rng = np.random.default_rng(0)
    feeds = {value.name: _values(value, rng) for value in model.graph.input}
    if element not in HALVES:
        if element == "i8":
            return feeds, ReferenceEvaluator(model).run(None, feeds)  # type: ignore[return-value]
        return feeds, run_reference(model, feeds)
    wide = {k: v if v.dtype == np.int64 else v.astype(np.float32) for k, v in feeds.items()}
    return feeds, run_reference(case.model("f32"), wide)


def _rule(case: Case, element: str, arch: str) -> str:
    """The rule that schedules a case; tensor cores have products of bf16 since sm_80."""
    return SHARED if (case.rule, element, arch) == (MATRICES, "bf16", "sm_75") else case.rule


def test_documentation_lists_what_is_executed() -> None:
    table: dict[tuple[str, str], dict[str, list[str]]] = {}
    for name, element, arch in RUNS:
        row = table.setdefault((name, _rule(CASES[name], element, arch)), {})
        row.setdefault(element, []).append(arch[3:])
    rows = [
        f"| {name} | `{rule}` | "
        + " | ".join(", ".join(row.get(element, ["-"])) for element in ELEMENTS)
        + " |"
        for (name, rule), row in table.items()
    ]
    text = (Path(__file__).parents[2] / "docs" / "ptx.md").read_text()
    assert "\n".join(rows) in text, "\n".join(rows)


def _capability(arch: str) -> tuple[int, int]:
    return int(arch[3]), int(arch[4])


def _assert_close(results: list[np.ndarray], expected: list[np.ndarray], limit: float) -> None:
    for ours, theirs in zip(results, expected, strict=True):
        assert ours.shape == theirs.shape
        wide = theirs.astype(np.float64)
        assert np.abs(ours.astype(np.float64) - wide).max() <= limit * np.abs(wide).max()


@pytest.mark.nightly(daily=DAILY)
@pytest.mark.parametrize(("name", "element", "arch"), RUNS, ids=["-".join(run) for run in RUNS])
def test_rules(name: str, element: str, arch: str) -> None:
    case = CASES[name]
    feeds, expected = _expected(name, element)
    precision = element if case.weights else "f32"
    with cuda_machine(_capability(arch)), collect_remarks() as remarks:
        model = tcopt.compile(case.model(element), f"cuda:{arch}", precision=precision, cache=False)
        results = model.run(feeds)
    rule = _rule(case, element, arch)
    assert rule in {r.by for r in remarks if r.message.startswith("scheduled")}
    assert rule != case.rule or any(case.says in r.message for r in remarks)
    _assert_close(results, expected, TOLERANCE[element])


@pytest.mark.nightly(daily=["sm_90"])
@pytest.mark.parametrize("arch", ARCHS)
def test_windows_of_strided_convolutions(arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Otherwise only convolutions with more products are rewritten.
    monkeypatch.setattr(gather_windows, "PART_OF_START", 10**9)
    net = Network("layer", seed=3)
    x, r = net.input("x", [2, 8, 11, 9]), net.input("r", [2, 12, 6, 5])
    y = net.add("Add", net.conv(x, 8, 12, stride=2), r)
    model = net.model(**{net.add("Relu", y): [2, 12, 6, 5]})
    rng = np.random.default_rng(0)
    shapes = {"x": (2, 8, 11, 9), "r": (2, 12, 6, 5)}
    feeds = {name: rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    with cuda_machine(_capability(arch)), collect_remarks() as remarks:
        results = tcopt.compile(model, f"cuda:{arch}", cache=False).run(feeds)
    assert {SHARED, "gather-windows"} <= {r.by for r in remarks}
    _assert_close(results, run_reference(model, feeds), TOLERANCE["f32"])


# Largest error over the largest result, see docs/accuracy.md.
WINOGRAD = {2: 1e-6, 4: 5e-6, 6: 3e-5}


@pytest.mark.nightly(daily=["sm_90-2"])
@pytest.mark.parametrize("tile", WINOGRAD)
@pytest.mark.parametrize("arch", ARCHS)
def test_winograd(tile: int, arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    net = Network("layer", seed=3)
    x = net.input("x", [1, 8, 12, 13])
    model = net.model(**{net.add("Relu", net.add("Add", net.conv(x, 8, 8), x)): [1, 8, 12, 13]})
    passes = [p.having(tile=tile) if p.name == "winograd" else p for p in gpu_blocks._GRAPH]
    monkeypatch.setattr(gpu_blocks, "_GRAPH", tuple(passes))
    feeds = {"x": np.random.default_rng(0).standard_normal((1, 8, 12, 13)).astype(np.float32)}
    with cuda_machine(_capability(arch)), collect_remarks() as remarks:
        results = tcopt.compile(model, f"cuda:{arch}", cache=False).run(feeds)
    assert "gpu-winograd" in {r.by for r in remarks if r.message.startswith("scheduled")}
    _assert_close(results, run_reference(model, feeds), WINOGRAD[tile])
