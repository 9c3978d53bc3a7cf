"""Masked stores write exactly their active lanes, on every CPU."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper, numpy_helper

import tcopt
from checks.store_widths import open_masked_stores, wide_lane_stores
from programs.kernel_modules import parse_kernel
from tcopt.backends.llvm.jit import compile_module
from tcopt.backends.llvm.machine.host import runnable_targets
from tcopt.backends.llvm.machine.machine import assemble_text, data_layout
from tcopt.backends.llvm.module import emit_module
from tcopt.backends.llvm.objects import emit_text
from tcopt.compiler import lower, pipeline
from tcopt.frontends.onnx import import_model
from tcopt.targets.cpu import MACHINES

AVX512 = ["skylake-avx512", "sapphirerapids", "znver4"]
LEVELS = [name for name in runnable_targets() if name != "cascadelake"]
FORMS = [
    ("i16", "i8", 8),
    ("i32", "i8", 16),
    ("i32", "i8", 64),
    ("i64", "i8", 2),
    ("i32", "i16", 32),
    ("i64", "i32", 8),
    ("i32", "i8", 7),
    ("f32", "bf16", 16),
    ("f32", "f16", 16),
]
DTYPES = {"i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8", "f32": "f4", "f16": "f2", "bf16": "u2"}


def narrowed(source: str, target: str, lanes: int, masks: list[str]) -> str:
    """Kernel that narrows vectors and stores each under a mask: a constant `[...]`, or a runtime
    number of lanes."""
    wide, narrow = f"vector<{lanes}x{source}>", f"vector<{lanes}x{target}>"
    cast = "arith.truncf" if source.startswith("f") else "arith.trunci"
    rows = f"{len(masks)}x{lanes}"
    body = ""
    for row, mask in enumerate(masks):
        made = (
            f"arith.constant dense<{mask}> : vector<{lanes}xi1>"
            if mask.startswith("[")
            else f"vector.create_mask %n{row} : vector<{lanes}xi1>"
        )
        body += f"""
          %i{row} = arith.constant {row} : index
          %n{row} = memref.load %n[%i{row}] : memref<{len(masks)}xindex>
          %v{row} = vector.load %a[%i{row}, %c0] : memref<{rows}x{source}>, {wide}
          %t{row} = {cast} %v{row} : {wide} to {narrow}
          %m{row} = {made}
          vector.maskedstore %b[%i{row}, %c0], %m{row}, %t{row}
            : memref<{rows}x{target}>, vector<{lanes}xi1>, {narrow}"""
    return f"""
        func.func @k(%a: memref<{rows}x{source}>, %b: memref<{rows}x{target}>,
                     %n: memref<{len(masks)}xindex>) {{
          %c0 = arith.constant 0 : index{body}
          func.return
        }}"""


def masks_of(lanes: int) -> list[list[bool]]:
    """Masks of leading lanes, single lanes and all lanes but one, near the points where vectors are
    split."""
    every = range(lanes)
    edges = [at for at in every if lanes < 8 or at % 8 < 2 or at == lanes - 1]
    masks = [[lane < count for lane in every] for count in [*edges, lanes]]
    masks += [[lane == one for lane in every] for one in edges]
    return masks + [[lane != one for lane in every] for one in edges[::4]]


@pytest.mark.nightly(every=3)
@pytest.mark.parametrize("cpu", LEVELS)
@pytest.mark.parametrize(("source", "target", "lanes"), FORMS)
def test_only_active_lanes_are_written(rng, source: str, target: str, lanes: int, cpu: str) -> None:
    masks = masks_of(lanes)
    texts = [str(mask).lower() for mask in masks]
    counts = np.array([sum(mask) for mask in masks])
    leading = [all(mask[: sum(mask)]) for mask in masks]
    # Prefix masks, as constants and as runtime counts.
    texts += [str(count) for count, first in zip(counts, leading, strict=True) if first]
    masks += [mask for mask, first in zip(masks, leading, strict=True) if first]
    counts = np.append(counts, counts[leading])
    shape, dtype = (len(masks), lanes), np.dtype(DTYPES[target])
    a = rng.integers(-(2**15), 2**15, shape).astype(DTYPES[source])
    before = rng.integers(0, 100, shape).astype(dtype)
    after = before.copy()
    module = parse_kernel(narrowed(source, target, lanes, texts))
    compile_module(module, MACHINES[cpu]).function("k")(a, viewed(after, target), counts)
    if target == "bf16":
        whole = a.view(np.uint32)
        values = ((whole + 0x7FFF + (whole >> 16 & 1)) >> 16).astype(dtype)
    else:
        values = a.astype(dtype)
    np.testing.assert_array_equal(after, np.where(masks, values, before))


def viewed(array: np.ndarray, element: str) -> np.ndarray:
    if element != "bf16":
        return array
    import ml_dtypes

    return array.view(ml_dtypes.bfloat16)


def quantized_product(columns: int) -> object:
    """A product whose rows end inside a vector, rounded to bytes."""
    rng = np.random.default_rng(columns)
    weights = {
        "w": rng.standard_normal((40, columns)).astype(np.float32),
        "scale": np.float32(0.05),
        "zero": np.uint8(5),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("QuantizeLinear", ["m", "scale", "zero"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "product",
        [helper.make_tensor_value_info("x", 1, [8, 40])],
        [helper.make_tensor_value_info("y", 2, [8, columns])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.nightly(every=3)
@pytest.mark.parametrize("cpu", AVX512)
def test_code_for_other_machines_has_no_wide_stores(cpu: str) -> None:
    """Checks of the generated code that need no AVX-512."""
    target = MACHINES[cpu]
    for source, narrow, lanes in FORMS:
        masks = [str(mask).lower() for mask in masks_of(lanes)] + ["0"]
        text = emit_module(
            parse_kernel(narrowed(source, narrow, lanes, masks)),
            triple=target.triple,
            data_layout=data_layout(target),
            capabilities=target.capabilities,
        )
        assert "@llvm.masked.store" in text
        assert open_masked_stores(text) == []
        assert wide_lane_stores(text, assemble_text(text, target)) == []
    module = import_model(quantized_product(49))
    lower(module, pipeline(f"cpu:{cpu}"))
    text = emit_text(module, target)
    assert open_masked_stores(text) == []
    assert wide_lane_stores(text, assemble_text(text, target)) == []


@pytest.mark.parametrize("columns", [49, 65])
def test_results_are_the_same_integers_on_every_cpu(rng, columns: int) -> None:
    model, x = quantized_product(columns), rng.standard_normal((8, 40)).astype(np.float32)
    every = [tcopt.compile(model, f"cpu:{cpu}").run({"x": x})[0] for cpu in LEVELS]
    for other in every[1:]:
        # Another summation order may change the result of a tie.
        assert np.abs(every[0].astype(int) - other).max() <= 1
        assert (every[0] == other).mean() > 0.98


FAULTY_IR = """
define void @f(<16 x i16> %v, ptr %p) {
  %t = trunc <16 x i16> %v to <16 x i8>
  call void @llvm.masked.store.v16i8.p0(<16 x i8> %t, ptr align 1 %p, <16 x i1> %m)
  ret void
}
define void @g(<16 x float> %v, ptr %p) {
  %b = bitcast <16 x float> %v to <8 x double>
  %f = call <8 x double> @llvm.arithmetic.fence.v8f64(<8 x double> %b)
  %c = bitcast <8 x double> %f to <16 x float>
  call void @llvm.masked.store.v16f32.p0(<16 x float> %c, ptr align 4 %p, <16 x i1> %m)
  ret void
}
"""
FAULTY_ASSEMBLY = """
f:
\tvpextrw\t$0, %xmm0, (%rdi)
\tvmovss\t%xmm1, 24(%rsp)
\tvpextrb\t$2, %xmm0, 2(%rdi,%rax)
\tretq
g:
\tvmovss\t%xmm0, (%rdi)
\tvmovlps\t%xmm0, 8(%rdi,%rax,4)
\tretq
"""


def test_the_forms_are_found() -> None:
    """The assembly is what LLVM 22 generates for such a store."""
    (store,) = open_masked_stores(FAULTY_IR)
    assert "%t" in store
    wide = wide_lane_stores(FAULTY_IR, FAULTY_ASSEMBLY)
    assert [line.split()[:2] for line in wide] == [["f:", "vpextrw"], ["g:", "vmovlps"]]
