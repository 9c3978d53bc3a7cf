"""Table-lookup form of a contraction with few-bit weights."""

from __future__ import annotations

from math import prod

import numpy as np
from xdsl.ir import Operation

from tcopt.dialects.graph.contraction.base import ContractionOp
from tcopt.dialects.graph.core.constant import ConstantOp
from tcopt.dialects.graph.core.types import Array, element_type, numpy_dtype
from tcopt.dialects.graph.elementwise.arithmetic import MulOp
from tcopt.dialects.graph.packed.sum_tables import TableShape
from tcopt.dialects.intrinsics.table_sums import MOST_BITS, TableLookup, table_sum_fits
from tcopt.passes.graph.bits.encodings import TableEncoding, WeightEncoding
from tcopt.passes.graph.bits.forms import BitForm
from tcopt.passes.graph.bits.writer import BitWriter
from tcopt.passes.graph.folding.constants import Constants

MOST_INDICES = 12
"""Maximum number of indices of one intrinsic call: planes times tables."""

MOST_TABLES = 8

CALL = 2
"""Overhead of a call, in units of one table lookup."""


def table_shape(
    channels: int, data: TableEncoding, weights: WeightEncoding, lookup: TableLookup
) -> TableShape | None:
    """Choose the number of tables per call and of calls, with little padding of the channels; None
    if the sums have too many bits for tables."""
    bits = data.entry_bits(lookup.numbers, weights.exclusive)
    signed = weights.signed
    most = min(MOST_TABLES, MOST_INDICES // weights.bits)
    fitting = [
        n for n in range(1, most + 1) if table_sum_fits(n, weights.bits, bits, signed=signed)
    ]
    if bits > MOST_BITS or not fitting:
        return None
    count = -(-channels // lookup.numbers)
    groups = min(fitting, key=lambda n: (-(-count // n) * (n + CALL), -n))
    return TableShape(lookup.numbers, groups, -(-count // groups), bits)


def looked_up(
    op: ContractionOp,
    form: BitForm,
    array: Array,
    data: TableEncoding,
    weights: WeightEncoding,
    shape: TableShape,
    lanes: int,
    constants: Constants,
) -> list[Operation]:
    """Return the ops of the table-lookup form; the last one is the contraction's result.

    Data is `offset + step * c` and weights are `step * v`. The result is the product of both steps
    times the sums of `c * v`, plus `offset` times the sums of weights. A table holds the sums of a
    few codes c for every combination of the weights' bits.

    Args:
        array: values of the weights.
        lanes: output channels of a block.
    """
    writer = BitWriter(constants)
    codes = writer.coded(op.operands[0], data.offset, data.step, element=None)
    pad = None
    if data.pad_code:
        number = np.array(data.pad_code, numpy_dtype(element_type(codes)))
        pad = writer.constant(number, "pad")
    if (around := form.around(codes, pad)) is not None:
        codes = writer.add(around)
    used = form.used_channels(array)
    if weights.exclusive and not used.all():
        # Padding channels would count as if their weights were -1.
        mask = used.astype(numpy_dtype(element_type(codes)))
        codes = writer.add(MulOp(codes, writer.constant(mask, "used")))
    bias = data.bias(shape.numbers, weights.exclusive)
    tables = writer.extend(form.in_tables(codes, shape, bias=bias, exclusive=weights.exclusive))
    matrix = form.matrix(weights.codes)
    assert matrix is not None
    name = op.weights.owner.weight_name if isinstance(op.weights.owner, ConstantOp) else None
    indices = writer.constant(
        table_indices(matrix, shape, weights.bits, lanes), f"{name or 'weights'}.indices"
    )
    total = writer.extend(form.looked_up(tables, indices, bits=shape.bits, signed=weights.signed))
    factor = np.array(data.step * weights.step)
    rest = data.offset * form.sums(array)
    if weights.exclusive:
        entries = shape.steps * shape.groups * prod(matrix.shape[2:])
        alive = form.sums(np.broadcast_to(form.used_weights(array), array.shape)) > 0
        rest = np.where(alive, rest - factor * bias * entries * ((1 << weights.bits) - 1), 0)
        # An output channel without weights is 0, whatever is looked up for it.
        factor = factor if alive.all() else np.where(alive, factor, 0)
    writer.scaled(total, factor.astype(np.int32), rest.astype(np.int32))
    return writer.ops


def table_indices(matrix: Array, shape: TableShape, planes: int, lanes: int) -> Array:
    """Return the table indices [outputs / lanes, steps, taps..., planes, groups, lanes] made of the
    bits of weights [outputs, channels, taps...]."""
    outputs, channels, *taps = matrix.shape
    spare = min(channels, shape.terms)
    codes = np.zeros((-(-outputs // lanes) * lanes, shape.terms, *taps), np.uint8)
    codes[:outputs, :spare] = matrix[:, :spare].astype(np.int8).view(np.uint8)
    codes = codes.reshape(-1, lanes, shape.steps, shape.groups, shape.numbers, *taps)
    made = np.zeros((*codes.shape[:4], *taps, planes), np.uint8)
    for plane in range(planes):
        for place in range(shape.numbers):
            made[..., plane] |= (codes[:, :, :, :, place] >> plane & 1) << place
    # [blocks, lanes, steps, groups, taps..., planes]
    return np.ascontiguousarray(np.moveaxis(np.moveaxis(made, 3, -1), 1, -1))
