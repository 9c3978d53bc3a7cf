"""Bit-serial form of a contraction: sums as population counts."""

from __future__ import annotations

import numpy as np
from xdsl.ir import Operation

from tcopt.dialects.graph.contraction.base import ContractionOp
from tcopt.dialects.graph.core.constant import ConstantOp
from tcopt.dialects.graph.core.types import Array, element_type, numpy_dtype
from tcopt.dialects.graph.elementwise.arithmetic import MulOp
from tcopt.passes.graph.bits.encodings import DataEncoding, WeightEncoding
from tcopt.passes.graph.bits.forms import BitForm, BitNumbers
from tcopt.passes.graph.bits.writer import BitWriter
from tcopt.passes.graph.folding.constants import Constants


def counted(
    op: ContractionOp,
    form: BitForm,
    array: Array,
    data: DataEncoding,
    weights: WeightEncoding,
    constants: Constants,
) -> list[Operation]:
    """Return the ops of the bit-serial form; the last one is the contraction's result.

    Data is `offset + step * c` and weights are `step * v`. The result is the product of both steps
    times the sums of `c * v`, plus `offset` times the sums of weights. If bits of v stand for -1
    and 1, the sum of `c * v` is the sum of the bits of c minus the number of differing bits.

    Args:
        array: values of the weights.
    """
    writer = BitWriter(constants)
    codes = writer.coded(op.operands[0], data.offset, data.step)
    used = form.used_channels(array)
    if weights.exclusive and not used.all():
        # Bits of padding channels would be counted as differing from bits of the weights.
        mask = used.astype(numpy_dtype(element_type(codes)))
        codes = writer.add(MulOp(codes, writer.constant(mask, "used")))
    name = op.weights.owner.weight_name if isinstance(op.weights.owner, ConstantOp) else None
    spelled = writer.constant(weights.codes, f"{name or 'weights'}.bits")
    total = writer.extend(
        form.product(
            BitNumbers(codes, data.bits, data.signed),
            BitNumbers(spelled, weights.bits, weights.signed),
            exclusive=weights.exclusive,
        )
    )
    factor = np.array(data.step * weights.step)
    rest = data.offset * form.sums(array)
    if weights.exclusive:
        rest = rest + factor * data.sum_of_bits * form.sums(weights.codes)
        alive = form.sums(np.broadcast_to(form.used_weights(array), array.shape)) > 0
        # An output channel without weights is 0, whatever the count is.
        factor = -factor if alive.all() else np.where(alive, -factor, 0)
    writer.scaled(total, factor.astype(np.int32), rest.astype(np.int32))
    return writer.ops
