"""Contractions by hardware dot products: selected rules and results.

Kernels are scheduled for CPUs with the instructions and run on this one, where the same
kernel-level ops are expanded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from unittest import mock

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp, StringAttr, f32

from checks.cpu_kernels import data, everything_parallel, te_module
from running.examples import examples
from tcopt.backends.llvm.jit import compile_module
from tcopt.backends.llvm.machine.host import host_target, named_target
from tcopt.backends.llvm.objects import emit_assembly
from tcopt.compiler import Phase, lower, pipeline
from tcopt.dialects.graph import ConstantOp
from tcopt.dialects.graph.contraction.base import ContractionOp
from tcopt.dialects.graph.core.types import like
from tcopt.dialects.graph.packed.blocked_conv import BlockedConvOp
from tcopt.dialects.graph.packed.packed_matmul import PackedMatmulOp
from tcopt.dialects.sched import SequenceOp, TensorizeOp
from tcopt.dialects.target import TARGET_ATTRIBUTE, CpuTargetAttr
from tcopt.passes.graph.packing.panels import grouped_form
from tcopt.schedules.rules.cpu import matmul_space

FEW = settings(max_examples=examples(6), deadline=None, suppress_health_check=[*HealthCheck])
PHASES = {phase.name: phase for phase in pipeline()}


def machine(bits: int) -> CpuTargetAttr:
    """Return a CPU with bf16 dot products and the given vector width."""
    return CpuTargetAttr.of(replace(named_target("znver4"), vector_bits=bits, cores=2))


def lowered(
    make: Callable[..., ContractionOp], arrays: Sequence[np.ndarray], rule: str, bits: int
) -> tuple[ModuleOp, list[np.ndarray], ContractionOp]:
    """Return the interleaved form of an op on bf16 as a kernel, its operands, and the op."""
    half = [array.astype(ml_dtypes.bfloat16) for array in arrays]
    op = make(*(ConstantOp.weight("v", like(array)).results[0] for array in half))
    form = grouped_form(op, 2)
    assert form is not None
    steps = form()
    values = dict(zip(op.operands, half, strict=True))
    for step in steps[:-1]:
        (values[step.results[0]],) = step.evaluate(*(values[v] for v in step.operands))
    *_, grouped = steps
    operands = [np.ascontiguousarray(values[v]) for v in grouped.operands]
    module = te_module(operands, grouped.tensor_expression, machine(bits))
    lower(module, [Phase("te", "te-inline,merge-axes"), PHASES["loop"]])
    lower(module, [Phase("schedule", "schedule")])
    (sequence,) = (each for each in module.ops if isinstance(each, SequenceOp))
    assert sequence.attributes["rule"] == StringAttr(rule)
    assert any(isinstance(each, TensorizeOp) for each in sequence.walk())
    lower(module, [Phase("apply", "apply-schedule")])
    lower(module, [PHASES["kernel"].without("plan-memory")])
    module.verify()
    assert not any(each.name == "arith.extf" for each in module.walk())
    return module, operands, op


def check(
    make: Callable[..., ContractionOp], arrays: Sequence[np.ndarray], rule: str, bits: int
) -> None:
    """Schedule and run the interleaved form of an op, against float64 numpy."""
    module, operands, op = lowered(make, arrays, rule, bits)
    module.attributes[TARGET_ATTRIBUTE] = CpuTargetAttr.of(host_target())
    result = np.full(op.shape, np.nan, np.float32)
    compile_module(module).function("f")(*operands, result)
    exact = [array.astype(ml_dtypes.bfloat16).astype(np.float64) for array in arrays]
    expected = op.compute(*exact)
    # Products of bf16 are exact in f32, but their sums of a few hundred terms are not.
    scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
    np.testing.assert_allclose(result, expected, rtol=2e-5, atol=2e-5 * scale)


@FEW
@given(
    st.sampled_from([1, 2, 5, 13, 17]),
    st.sampled_from([1, 2, 3, 5, 16, 65]),
    st.integers(1, 3),
    st.integers(1, 2),
    st.data(),
)
def test_panels(m, k, vectors, panels, choices):
    """Packed products of any shape, number of columns, batch and layout of the left operand."""
    bits = choices.draw(st.sampled_from([256, 512]))
    width = vectors * (bits // 32)
    columns = width * panels - choices.draw(st.integers(0, width - 1))
    transposed = choices.draw(st.booleans())
    batch = choices.draw(st.sampled_from([(), (3,)]))

    def product(a, b):
        return PackedMatmulOp(a, b, columns=columns, transpose_a=transposed, result_element=f32)

    arrays = (
        data(*batch, *((k, m) if transposed else (m, k))),
        data(panels, k, width, seed=1),
    )
    with everything_parallel(choices.draw(st.booleans())):
        check(product, arrays, "cpu-matmul", bits)


@settings(FEW, max_examples=examples(2))
@given(st.sampled_from([32, 33]), st.sampled_from([16, 24]))
def test_deep_reductions_in_parts(m, k):
    """Partial results of parts of the depth add up."""

    def product(a, b):
        return PackedMatmulOp(a, b, columns=13, result_element=f32)

    with everything_parallel(), mock.patch.object(matmul_space, "PART_SHARE", 4096):
        check(product, (data(m, k), data(1, k, 16, seed=1)), "cpu-matmul", 512)


@FEW
@given(
    st.sampled_from([(1, 1), (3, 3), (1, 2)]),
    st.sampled_from([(4, 9), (7, 7), (1, 17)]),
    st.sampled_from([(2, 8), (16, 16), (4, 32)]),
    st.sampled_from([{}, {"pads": [1, 0, 0, 1]}, {"strides": [2, 1]}, {"groups": 2}]),
    st.sampled_from([256, 512]),
)
def test_convolutions(kernel, image, blocks, options, bits):
    """Blocked convolutions with any window."""
    inner, block = blocks
    groups = options.get("groups", 1)
    extents = [max(i, k) for i, k in zip(image, kernel, strict=True)]

    def conv(x, w):
        return BlockedConvOp(x, w, result_element=f32, **options)

    arrays = (
        data(1, 2 * groups, *extents, inner),
        data(2, 2, *kernel, inner, block, seed=1),
    )
    with everything_parallel():
        check(conv, arrays, "cpu-contraction", bits)


def _matmul(x, w):
    return PackedMatmulOp(x, w, result_element=f32)


def _conv(x, w):
    return BlockedConvOp(x, w, result_element=f32)


@pytest.mark.parametrize(
    ("make", "shapes", "rule"),
    [
        (_matmul, [(64, 128), (4, 128, 64)], "cpu-matmul"),
        (_conv, [(1, 4, 16, 30, 16), (4, 4, 3, 3, 16, 16)], "cpu-contraction"),
    ],
)
def test_sums_stay_in_registers(make, shapes, rule):
    """The reduction loop has only dot products, broadcasts and loads of weights."""
    arrays = [data(*shape) for shape in shapes]
    module, _, _ = lowered(make, arrays, rule, 512)
    text = emit_assembly(module, named_target("znver4"))
    loops = re.split(r"^\.LBB\w+:", text, flags=re.MULTILINE)
    hot = max(loops, key=lambda each: each.count("vdpbf16ps"))
    last = [match.end() for match in re.finditer("vdpbf16ps", hot)][-1]
    assert hot.count("vdpbf16ps") >= 24
    assert not re.search(r"%[xyz]mm\d+, [-\w]*\(|\(%rsp\), %[xyz]mm|vfmadd", hot[:last])
