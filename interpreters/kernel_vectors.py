"""Vector ops in the kernel interpreter; lanes are the last dimensions of arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects import vector
from xdsl.dialects.builtin import VectorType
from xdsl.utils.hints import isa

from tcopt.dialects.simd import LOW_BITS, CodeDotOp, DotOp, PackBitsOp, TableSumOp
from tcopt.dialects.simt import MmaOp
from tcopt.dialects.vector_ import (
    ExtractStridedSliceOp,
    FromElementsOp,
    InsertStridedSliceOp,
    ReductionOp,
    ShapeCastOp,
    StepOp,
    TransposeOp,
)
from tcopt.dialects.vector_.common import int_values
from tcopt.support.data.dtypes import numpy_dtype
from tcopt.support.errors import UnsupportedError

Rule = Callable[[Any, Sequence[Any]], Any]


def _broadcast(op: vector.BroadcastOp, operands: Sequence[Any]) -> Any:
    (value,) = operands
    assert isa(op.vector.type, VectorType)
    shape = op.vector.type.get_shape()
    rank = len(op.source.type.get_shape()) if isa(op.source.type, VectorType) else 0
    leading = np.shape(value)[: np.ndim(value) - rank]
    inner = np.shape(value)[np.ndim(value) - rank :]
    padded = np.reshape(value, (*leading, *(1,) * (len(shape) - rank), *inner))
    return np.broadcast_to(padded, (*leading, *shape))


def _fma(op: vector.FMAOp, operands: Sequence[Any]) -> Any:
    a, b, c = operands
    return a * b + c


def _extract(op: vector.ExtractOp, operands: Sequence[Any]) -> Any:
    if op.dynamic_position:
        raise UnsupportedError("the kernel interpreter only extracts at constant positions", op=op)
    at = tuple(op.static_position.get_values())
    value = operands[0]
    assert isa(op.vector.type, VectorType)
    rank = len(op.vector.type.get_shape())
    return value[(*(slice(None),) * (np.ndim(value) - rank), *at)]


def _insert(op: vector.InsertOp, operands: Sequence[Any]) -> Any:
    if op.dynamic_position:
        raise UnsupportedError("the kernel interpreter only inserts at constant positions", op=op)
    element, into = operands[0], operands[1]
    at = tuple(op.static_position.get_values())
    assert isa(op.dest.type, VectorType)
    rank, inner = len(op.dest.type.get_shape()), len(op.dest.type.get_shape()) - len(at)
    lead_element = np.shape(element)[: np.ndim(element) - inner]
    lead_into = np.shape(into)[: np.ndim(into) - rank]
    lead = np.broadcast_shapes(lead_element, lead_into)
    result = np.array(np.broadcast_to(into, (*lead, *np.shape(into)[np.ndim(into) - rank :])))
    result[(*(slice(None),) * len(lead), *at)] = element
    return result


def _shuffle(op: vector.ShuffleOp, operands: Sequence[Any]) -> Any:
    lead = np.broadcast_shapes(*(np.shape(each)[:-1] for each in operands))
    both = [np.broadcast_to(each, (*lead, np.shape(each)[-1])) for each in operands]
    picks = np.asarray(op.mask.get_values(), np.int64)
    return np.concatenate(both, axis=-1)[..., picks]


def _extract_slice(op: ExtractStridedSliceOp, operands: Sequence[Any]) -> Any:
    (value,) = operands
    assert isa(op.result.type, VectorType)
    ends = zip(int_values(op.offsets), op.result.type.get_shape(), strict=False)
    at = tuple(slice(start, start + size) for start, size in ends)
    assert isa(op.vector.type, VectorType)
    rank = len(op.vector.type.get_shape())
    return value[(*(slice(None),) * (np.ndim(value) - rank), *at)]


def _insert_slice(op: InsertStridedSliceOp, operands: Sequence[Any]) -> Any:
    source, dest = operands
    assert isa(op.source.type, VectorType) and isa(op.dest.type, VectorType)
    sizes, shape = op.source.type.get_shape(), op.dest.type.get_shape()
    lead_source = np.shape(source)[: np.ndim(source) - len(sizes)]
    lead_dest = np.shape(dest)[: np.ndim(dest) - len(shape)]
    lead = np.broadcast_shapes(lead_source, lead_dest)
    result = np.array(np.broadcast_to(dest, (*lead, *shape)))
    padded = (*(1,) * (len(shape) - len(sizes)), *sizes)
    ends = zip(int_values(op.offsets), padded, strict=True)
    at = tuple(slice(start, start + size) for start, size in ends)
    result[(*(slice(None),) * len(lead), *at)] = np.reshape(source, (*lead_source, *padded))
    return result


def _from_elements(op: FromElementsOp, operands: Sequence[Any]) -> Any:
    return np.stack(np.broadcast_arrays(*operands), axis=-1)


def _step(op: StepOp, operands: Sequence[Any]) -> Any:
    assert isa(op.result.type, VectorType)
    return np.arange(op.result.type.get_shape()[0])


def _create_mask(op: vector.CreateMaskOp, operands: Sequence[Any]) -> Any:
    (count,) = operands
    assert isa(op.mask_vector.type, VectorType)
    lanes = np.arange(op.mask_vector.type.get_shape()[0])
    return lanes < np.asarray(count)[..., None]


def _reduction(op: ReductionOp, operands: Sequence[Any]) -> Any:
    function = _COMBINERS.get(op.kind.data.value)
    if function is None:
        raise UnsupportedError("the kernel interpreter does not know this reduction", op=op)
    value = operands[0]
    result = function.reduce(value, axis=-1, dtype=value.dtype)
    return result if len(operands) == 1 else function(result, operands[1])


_COMBINERS: dict[str, np.ufunc] = {
    "add": np.add,
    "mul": np.multiply,
    "maximumf": np.maximum,
    "maxnumf": np.fmax,
    "maxsi": np.maximum,
    "minimumf": np.minimum,
    "minnumf": np.fmin,
    "minsi": np.minimum,
}


def _dot(op: DotOp, operands: Sequence[Any]) -> Any:
    accumulator, a, b = operands
    type_ = op.result.type
    element = type_.get_element_type() if isa(type_, VectorType) else type_
    dtype = numpy_dtype(element)
    products = a.astype(dtype) * b.astype(dtype)
    return accumulator + products.sum(axis=-1, dtype=dtype)


def _pack_bits(op: PackBitsOp, operands: Sequence[Any]) -> Any:
    accumulator, x = operands
    places = np.arange(op.count, dtype=np.int64)
    bits = np.asarray(x).astype(np.int64).ravel() >> np.arange(op.bits)[:, None] & 1
    words = (bits << places).sum(-1)
    dtype = np.asarray(accumulator).dtype
    return accumulator + (words if np.ndim(accumulator) else words[0]).astype(dtype)


def _table_sum(op: TableSumOp, operands: Sequence[Any]) -> Any:
    total = np.asarray(operands[0])
    tables, indices = np.split(np.arange(1, len(operands)), [len(op.tables)])
    for number, index in enumerate(indices):
        weight, group = op.weights[number // op.groups], number % op.groups
        at = np.asarray(operands[index]).astype(np.int64) & (op.entries - 1)
        for part, width in enumerate(op.widths):
            table = operands[tables[group * len(op.widths) + part]].astype(np.int64)
            chosen = np.take(table & ((1 << width) - 1), at)
            total = total + (chosen * (weight << (LOW_BITS * part))).astype(total.dtype)
    return total


def _code_dot(op: CodeDotOp, operands: Sequence[Any]) -> Any:
    total, word = np.asarray(operands[0]), np.asarray(operands[1]).astype(np.int64)
    bits = op.bits.value.data
    for field, factor in enumerate(operands[2:]):
        for place, value in enumerate(factor.astype(np.int64)):
            code = word >> (8 * place + bits * field) & ((1 << bits) - 1)
            total = total + (code * value).astype(np.int32)
    return total


def _mma(op: MmaOp, operands: Sequence[Any]) -> Any:
    accumulator, a, b = operands
    return accumulator + a.astype(accumulator.dtype) @ b.astype(accumulator.dtype)


def _transpose(op: TransposeOp, operands: Sequence[Any]) -> Any:
    order = op.permutation.get_values()
    lead = np.ndim(operands[0]) - len(order)
    return np.transpose(operands[0], (*range(lead), *(lead + each for each in order)))


def _shape_cast(op: ShapeCastOp, operands: Sequence[Any]) -> Any:
    assert isa(op.source.type, VectorType) and isa(op.result.type, VectorType)
    lead = np.shape(operands[0])[: np.ndim(operands[0]) - op.source.type.get_num_dims()]
    return np.reshape(operands[0], (*lead, *op.result.type.get_shape()))


VECTOR_RULES: dict[str, Rule] = {
    "vector.broadcast": _broadcast,
    "vector.create_mask": _create_mask,
    "vector.extract": _extract,
    "vector.extract_strided_slice": _extract_slice,
    "vector.fma": _fma,
    "vector.from_elements": _from_elements,
    "vector.insert": _insert,
    "vector.insert_strided_slice": _insert_slice,
    "vector.reduction": _reduction,
    "vector.shape_cast": _shape_cast,
    "vector.shuffle": _shuffle,
    "vector.step": _step,
    "vector.transpose": _transpose,
    "simd.dot": _dot,
    "simd.pack_bits": _pack_bits,
    "simd.table_sum": _table_sum,
    "simd.code_dot": _code_dot,
    "simt.mma": _mma,
}
"""Evaluators of vector ops, by op name."""
