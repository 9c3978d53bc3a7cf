"""Quantised layers on targets with byte dot products: the instructions used, and exact results.

Kernels for those targets run on this machine with their instructions expanded.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from onnx import ModelProto, TensorProto
from xdsl.dialects.builtin import IntegerType, ModuleOp, Signedness, i8

from models.checks import run_imported
from models.integer_products import DOTS, byte_feeds, integer_products
from models.quantized import quantized
from networks.test_quantized import mixed
from tcopt.backends.llvm.machine.host import named_target
from tcopt.backends.llvm.objects import emit_assembly
from tcopt.compiler import Phase, lower, pipeline
from tcopt.dialects.graph.contraction.base import ContractionOp
from tcopt.dialects.graph.core.types import element_type
from tcopt.dialects.loop import IntrinOp
from tcopt.dialects.target import TARGET_ATTRIBUTE, CpuTargetAttr
from tcopt.frontends.onnx import import_model
from tcopt.frontends.onnx.building.network import Network
from tcopt.support.remarks import collect_remarks
from tcopt.tools.execution.kernel_executor import run_planned

U8 = IntegerType(8, Signedness.UNSIGNED)
SIGNED_ONLY = replace(named_target("neoverse-v1"), features="+neon,+dotprod")
TARGETS = {
    "znver4": named_target("znver4"),
    "haswell": named_target("haswell"),
    "dotprod": SIGNED_ONLY,
    "avxvnni": named_target("alderlake"),
}


def compiled(model: ModelProto, target: str) -> tuple[ModuleOp, Counter[str], list[object]]:
    """Return the planned module, the dot products that it uses, and the element types of its
    contractions."""
    module = import_model(model)
    module.attributes[TARGET_ATTRIBUTE] = CpuTargetAttr.of(TARGETS[target])
    dots: Counter[str] = Counter()
    data: list[object] = []
    for phase in pipeline("cpu:znver4"):
        lower(module, [phase.without("set-target")])
        if phase.name == "graph":
            products = [op for op in module.walk() if isinstance(op, ContractionOp)]
            data = [element_type(op.operands[0]) for op in products]
        if phase.name == "schedule":
            dots.update(op.intrin.data for op in module.walk() if isinstance(op, IntrinOp))
    return module, dots, data


@pytest.mark.nightly(every=3)
@pytest.mark.parametrize(
    ("target", "zero", "signed", "dots", "element"),
    [
        ("avxvnni", 131, False, "u8s8_dot", U8),
        ("avxvnni", None, True, "u8s8_dot", U8),
        ("dotprod", 7, False, "s8_dot", i8),
    ],
)
def test_products_are_exact(
    target: str, zero: int | None, signed: bool, dots: str, element: object
) -> None:
    """Corrections for padding and weight sums are exact, for signed and unsigned bytes."""
    model = integer_products(zero, signed=signed)
    feeds = byte_feeds(model, 7)
    module, used, data = compiled(model, target)
    assert set(data) == {element}
    assert used == {dots: DOTS}
    expected = run_imported(model, feeds)
    for ours, exact in zip(run_planned(module, list(feeds.values())), expected, strict=True):
        np.testing.assert_array_equal(ours, exact)


@pytest.mark.nightly(every=3)
@pytest.mark.parametrize(
    ("left", "right", "kinds", "dot"),
    [
        ((5, 19), (19, 33), (np.uint8, np.int8), "u8s8_dot"),
        ((2, 3, 9, 16), (3, 16, 40), (np.int8, np.uint8), "u8s8_dot"),
        # For so few rows, converting the right operand to signed bytes costs more than it saves.
        ((7, 34), (2, 1, 34, 20), (np.uint8, np.uint8), "s16_dot"),
    ],
)
@pytest.mark.parametrize("target", ["znver4", "haswell"])
def test_products_of_two_variables_are_exact(
    left: tuple[int, ...],
    right: tuple[int, ...],
    kinds: tuple[type, type],
    dot: str,
    target: str,
) -> None:
    """The right operand is packed into panels at run time, for any batch; as bytes if the target
    multiplies them, with zero points corrected by row and column sums."""
    net = Network("variables")
    types = [TensorProto.UINT8 if kind is np.uint8 else TensorProto.INT8 for kind in kinds]
    x, w = net.input("x", left, types[0]), net.input("w", right, types[1])
    zeros = net.input("zero", [], types[0]), net.input("other", [], types[1])
    batch = np.broadcast_shapes(left[:-2], right[:-2])
    y = net.add("MatMulInteger", x, w, *zeros)
    model = net.model(**{y: (*batch, left[-2], right[-1])})
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT32
    feeds = byte_feeds(model, 7)
    module, used, _ = compiled(model, target)
    assert used == {dot if target == "znver4" else "s16_dot": 1}
    a, b, a_zero, b_zero = (each.astype(np.int32) for each in feeds.values())
    (ours,) = run_planned(module, list(feeds.values()))
    np.testing.assert_array_equal(ours, (a - a_zero) @ (b - b_zero))


@pytest.mark.nightly(every=2)
@pytest.mark.parametrize("target", ["znver4", "avxvnni"])
def test_hot_loops_are_dot_products(target: str) -> None:
    """One instruction for each accumulator register, with data from memory; the loop does not widen
    or store."""
    module, _, _ = compiled(quantized(mixed(), "QDQ"), target)
    text = emit_assembly(module, TARGETS[target])
    blocks = re.split(r"^\.?L[\w.]+:", text, flags=re.MULTILINE)
    hot = [block for block in blocks if "vpdpbusd" in block]
    assert hot
    assert not any(re.search(r"vpmovzx|vpmaddwd", block) for block in hot)


def test_decisions_are_told() -> None:
    """Remarks, shown by `explain`, say how data is stored, or why it is not."""
    module = import_model(integer_products(131))
    before = "set-target{cpu=znver4},fake-quantization-to-integer,fold-constants"
    lower(module, [Phase("graph", before)])
    with collect_remarks() as remarks:
        lower(module, [Phase("graph", "narrow-contractions")])
    told = [remark.message for remark in remarks]
    assert told == ["data in unsigned bytes above 131"] * 3 + ["data in unsigned bytes above 3"]
