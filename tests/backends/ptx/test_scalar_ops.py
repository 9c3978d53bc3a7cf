"""Scalar ops and conversions as PTX: executed, and compared with the kernel interpreter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from xdsl.dialects import arith, gpu, math, memref, vector
from xdsl.dialects.builtin import (
    DenseArrayBase,
    IndexType,
    MemRefType,
    ModuleOp,
    UnitAttr,
    VectorType,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue

from tcopt.backends.named_gpus import named_gpu
from tcopt.backends.ptx.cuda_files import find_libdevice
from tcopt.backends.ptx.source import write_ptx
from tcopt.dialects import arith_
from tcopt.dialects.gpu_kernels import BLOCK_SIZE, GRID_SIZE, KERNEL
from tcopt.interpreters.kernel import run_kernel
from tcopt.interpreters.ptx.launch import PtxProgram
from tcopt.support.data.dtypes import numpy_dtype

COUNT = 32
FLOATS, INTEGERS, FLAG = (f16, bf16, f32, f64), (i8, i16, i32, i64), (i1,)
# Functions of NVIDIA's library are off by a few units in the last place; results of f16 and bf16
# are rounded once more, on either side of a tie.
TOLERANCE = {f16: 2e-3, bf16: 2e-2, f32: 3e-6, f64: 1e-12}


@dataclass(frozen=True)
class Case:
    """An op on elements of some types, `build` making it of its operands and result type."""

    build: Callable[..., Operation]
    operands: tuple[Attribute, ...]
    result: Attribute


def _like(operation: type[Operation], types: tuple[Attribute, ...], count: int) -> Iterator[Case]:
    """An op whose operands and result have one type, which its constructor infers."""
    for each in types:
        yield Case(lambda *values: operation(*values[:-1]), (each,) * count, each)


def _casts(
    operation: type[Operation], sources: tuple[Attribute, ...], results: tuple[Attribute, ...]
) -> Iterator[Case]:
    for source in sources:
        for result in results:
            yield Case(operation, (source,), result)


def _arithmetic() -> Iterator[Case]:
    for each in (arith.AddfOp, arith.SubfOp, arith.MulfOp, arith.DivfOp, arith_.RemFOp):
        yield from _like(each, FLOATS, 2)
    for each in (arith.MaximumfOp, arith.MinimumfOp, arith.MaxnumfOp, arith.MinnumfOp):
        yield from _like(each, FLOATS, 2)
    for each in (arith.AddiOp, arith.SubiOp, arith.MuliOp, arith.FloorDivSIOp, arith.DivSIOp):
        yield from _like(each, INTEGERS, 2)
    for each in (arith.DivUIOp, arith.RemSIOp, arith.RemUIOp, arith.ShLIOp, arith.ShRSIOp):
        yield from _like(each, INTEGERS, 2)
    for each in (arith.MinSIOp, arith.MaxSIOp, arith.MinUIOp, arith.MaxUIOp, arith.ShRUIOp):
        yield from _like(each, INTEGERS, 2)
    for each in (arith.AndIOp, arith.OrIOp, arith.XOrIOp):
        yield from _like(each, (*INTEGERS, *FLAG), 2)
    yield from _like(math.AbsIOp, INTEGERS, 1)


def _comparisons() -> Iterator[Case]:
    for number in range(16):
        for each in FLOATS:
            yield Case(lambda a, b, _, n=number: arith_.CmpfOp(a, b, n), (each, each), i1)
    for number in range(10):
        for each in INTEGERS:
            yield Case(lambda a, b, _, n=number: arith_.CmpiOp(a, b, n), (each, each), i1)
    for each in (*FLOATS, *INTEGERS):
        yield Case(lambda c, a, b, _: arith_.SelectOp(c, a, b), (i1, each, each), each)


def _conversions() -> Iterator[Case]:
    for narrow, wide in ((f16, f32), (f16, f64), (bf16, f32), (bf16, f64), (f32, f64)):
        yield from _casts(arith.ExtFOp, (narrow,), (wide,))
        yield from _casts(arith.TruncFOp, (wide,), (narrow,))
    for place, each in enumerate(INTEGERS):
        yield from _casts(arith_.ExtSIOp, (each,), INTEGERS[place + 1 :])
        yield from _casts(arith_.ExtUIOp, (*FLAG, each), INTEGERS[place + 1 :])
        yield from _casts(arith_.TruncIOp, INTEGERS[place + 1 :], (each,))
    yield from _casts(arith_.FPToSIOp, FLOATS, INTEGERS)
    yield from _casts(arith_.FPToUIOp, FLOATS, INTEGERS)
    yield from _casts(arith_.SIToFPOp, INTEGERS, FLOATS)
    yield from _casts(arith_.UIToFPOp, (*INTEGERS, *FLAG), FLOATS)
    for one, other in ((f16, i16), (bf16, i16), (f32, i32), (f64, i64)):
        yield from _casts(arith.BitcastOp, (one,), (other,))
        yield from _casts(arith.BitcastOp, (other,), (one,))


def _functions() -> Iterator[Case]:
    for each in (math.AbsFOp, math.CeilOp, math.FloorOp, math.RoundEvenOp, math.RoundOp):
        yield from _like(each, FLOATS, 1)
    for each in (math.TruncOp, math.SqrtOp, math.RsqrtOp):
        yield from _like(each, FLOATS, 1)
    for each in (math.CopySignOp, math.PowFOp, math.Atan2Op):
        yield from _like(each, FLOATS, 2)
    for each in (math.AcosOp, math.AcoshOp, math.AsinOp, math.AsinhOp, math.AtanOp, math.AtanhOp):
        yield from _like(each, FLOATS, 1)
    for each in (math.CbrtOp, math.CosOp, math.CoshOp, math.ErfOp, math.Exp2Op, math.ExpOp):
        yield from _like(each, FLOATS, 1)
    for each in (math.ExpM1Op, math.Log1pOp, math.Log2Op, math.LogOp, math.SinOp, math.SinhOp):
        yield from _like(each, FLOATS, 1)
    yield from _like(math.TanOp, FLOATS, 1)
    yield from _like(math.TanhOp, FLOATS, 1)


FAMILIES = {
    "arithmetic": _arithmetic,
    "comparisons": _comparisons,
    "conversions": _conversions,
    "functions": _functions,
}


def _kernel(name: str, case: Case, lanes: int) -> FuncOp:
    """A kernel whose threads apply the op to elements at their own index, or to vectors."""

    def shaped(element: Attribute) -> Attribute:
        return VectorType(element, [lanes]) if lanes > 1 else element  # type: ignore[arg-type]

    buffers = [MemRefType(each, [COUNT]) for each in (*case.operands, case.result)]
    kernel = FuncOp(name, (buffers, []), visibility="private")
    kernel.attributes[KERNEL] = UnitAttr()
    kernel.attributes[GRID_SIZE] = DenseArrayBase.from_list(i32, [1, 1, 1])
    kernel.attributes[BLOCK_SIZE] = DenseArrayBase.from_list(i32, [COUNT // lanes, 1, 1])
    block, *_ = kernel.body.blocks
    *sources, target = block.args
    thread = gpu.ThreadIdOp(gpu.DimensionAttr(gpu.DimensionEnum.X))
    width = arith.ConstantOp.from_int_and_width(lanes, IndexType())
    index = arith.MuliOp(thread, width)
    loads: list[Operation] = []
    for source, element in zip(sources, case.operands, strict=True):
        if lanes == 1:
            loads.append(memref.LoadOp.get(source, [index.result]))
        else:
            loads.append(vector.LoadOp(source, [index.result], shaped(element)))  # type: ignore[arg-type]
    values: list[SSAValue] = [each.results[0] for each in loads]
    op = case.build(*values, shaped(case.result))
    store = memref.StoreOp.get if lanes == 1 else vector.StoreOp
    stored = store(op.results[0], target, [index.result])
    block.add_ops([thread, width, index, *loads, op, stored, ReturnOp()])
    return kernel


def _operands(case: Case) -> list[np.ndarray]:
    """Random values in the range of the result, all kinds of special ones if that is a float."""
    rng = np.random.default_rng(0)
    found: list[np.ndarray] = []
    for number, each in enumerate(case.operands):
        dtype = numpy_dtype(each)
        if each == i1:
            values = rng.integers(0, 2, COUNT)
        elif each in INTEGERS:
            values = rng.integers(-100, 100, COUNT)
            # Divisors and shifts have to be in range.
            values = values if number == 0 else np.abs(values) % 7 + 1
        elif case.result in INTEGERS and case.build is not arith.BitcastOp:
            values = rng.uniform(0, 100, COUNT)
        else:
            values = rng.standard_normal(COUNT) * 4
            special = ([0, -0.0, 1, -1, np.inf, -np.inf, np.nan], [1, 2, -0.0, np.nan, 1, np.inf])
            values[: len(special[number % 2])] = special[number % 2]
        found.append(values.astype(dtype))
    return found


def _aligned(array: np.ndarray) -> np.ndarray:
    """A copy at an address that every vector load may use."""
    whole = np.zeros(array.nbytes + 64, np.uint8)
    start = -whole.ctypes.data % 64
    found = whole[start : start + array.nbytes].view(array.dtype)
    found[:] = array
    return found


def _groups() -> Iterator[tuple[str, str, int]]:
    """Families by the type of their first operand, and lanes."""
    for family, cases in FAMILIES.items():
        for element in dict.fromkeys(str(case.operands[0]) for case in cases()):
            for lanes in (1, 2, 4):
                yield family, element, lanes


@pytest.mark.nightly(every=14)
@pytest.mark.skipif(
    find_libdevice() is None, reason="no libdevice; pip install nvidia-cuda-nvcc-cu12"
)
@pytest.mark.parametrize(("family", "element", "lanes"), list(_groups()))
def test_results(family: str, element: str, lanes: int) -> None:
    cases = [case for case in FAMILIES[family]() if str(case.operands[0]) == element]
    module = ModuleOp([_kernel(f"k{n}", case, lanes) for n, case in enumerate(cases)])
    program = PtxProgram(write_ptx(module, named_gpu("sm_80")))
    for kernel, case in zip(list(module.ops), cases, strict=True):
        assert isinstance(kernel, FuncOp)
        buffers = [*map(_aligned, [*_operands(case), np.zeros(COUNT, numpy_dtype(case.result))])]
        with np.errstate(all="ignore"):
            (*_, expected) = run_kernel(kernel, [each.copy() for each in buffers])
        ranges = [(each.ctypes.data, each.ctypes.data + each.nbytes) for each in buffers]
        sizes = (1, 1, 1), (COUNT // lanes, 1, 1)
        name = kernel.sym_name.data
        program.launch(name, *sizes, [begin for begin, _ in ranges], ranges)
        limit = TOLERANCE.get(case.result, 0)  # type: ignore[call-overload]
        wide = np.float64 if case.result in FLOATS else expected.dtype
        with np.errstate(invalid="ignore"):
            found, expected = buffers[-1].astype(wide), expected.astype(wide)
        np.testing.assert_allclose(found, expected, rtol=limit, atol=limit / 8)
