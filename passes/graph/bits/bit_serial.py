"""Contractions of numbers of few bits as counts of bits."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, i32
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tcopt.dialects.graph.bit_forms import BitForm
from tcopt.dialects.graph.contraction import ContractionOp
from tcopt.dialects.graph.forms import CONTRACTION, form_declined
from tcopt.dialects.graph.interfaces import GraphOp
from tcopt.dialects.graph.quantize import is_quantized
from tcopt.dialects.graph.types import Array, element_type, shape_of
from tcopt.dialects.target import TargetFacts, target_facts_of
from tcopt.passes.graph.bits.costs import cycles_bit_by_bit, cycles_of_products
from tcopt.passes.graph.bits.counted_sums import counted
from tcopt.passes.graph.bits.encodings import (
    MOST_BITS,
    DataEncoding,
    WeightEncoding,
    data_encoding,
    weight_encoding,
)
from tcopt.passes.graph.bits.value_sets import ValueSets
from tcopt.passes.graph.folding.constants import Constants
from tcopt.passes.graph.precision.integer_ranges import IntegerRanges
from tcopt.support.errors import PassFailedError
from tcopt.support.remarks import remark
from tcopt.support.rewriting import function_bodies, rewrite

AUTO, POPCOUNT, NEVER = "auto", "popcount", "never"


@dataclass(frozen=True)
class BitSerialPass(ModulePass):
    """Add up products of numbers of few bits by counting bits (bit-serial arithmetic).

    Of data and weights that are integers of up to 4 bits, as a quantised model's, bits of the same
    place are stored in words: those of data by the network (`graph.pack_bits`), those of weights
    at compile time, by `fold-constants`. A sum of products then is a sum of counts of the bits
    that two words have in common, times powers of two. Where a weight is -1 or 1, one bit says
    which, and bits are counted that differ. Results are exact.

        %x = graph.min %q, %three : tensor<1x4x8x8x16xui8>
        %w = graph.constant @w : tensor<4x4x3x3x16x16xi8>
        %c = graph.blocked_conv %x, %w {pads = [1, 1, 1, 1], result_element = i32} : ...
    ->
        %x = graph.min %q, %three : tensor<1x4x8x8x16xui8>
        %d = graph.pack_bits %x {bits = 2} : tensor<1x8x8x2x2xui32>
        %w = graph.constant @w.bits : tensor<4x4x3x3x16x16xui8>
        ...
        %s = graph.bit_conv %d, %v {pads = [1, 1, 1, 1], exclusive} : tensor<1x4x8x8x16xi32>
        %c = graph.sub %ones, %s : tensor<1x4x8x8x16xi32>

    Which numbers data has is known from what quantised it, or from its type. A number that stands
    in pads has the code 0; without pads the least number has. What has no such form, or takes
    fewer instructions as products of bytes, stays (see `costs.py`).

    Options:
        method: `auto` takes what is estimated to be faster; `popcount` counts bits wherever that
            has a form, and `never` leaves all as it is.
    """

    name = "bit-serial"

    method: str = AUTO

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.method not in (AUTO, POPCOUNT, NEVER):
            text = f"method = {self.method} is none of {AUTO}, {POPCOUNT} and {NEVER}"
            raise PassFailedError(f"bit-serial: {text}")
        target = target_facts_of(op)
        if self.method == NEVER or target is None or target.vectors is None:
            return
        constants = Constants(op)
        for body in function_bodies(op):
            ranges = IntegerRanges(constants)
            found = {
                each: weights
                for each in body.ops
                if isinstance(each, ContractionOp)
                and (weights := _few_weights(each, ranges)) is not None
            }
            if found:
                sets = ValueSets(body, constants)
                pattern = CountBits(found, sets, constants, target, self.method == POPCOUNT)
                rewrite(body, [pattern], once=True)


def _few_weights(op: ContractionOp, ranges: IntegerRanges) -> Array | None:
    """The weights of a contraction of narrow integers, if they differ by little."""
    if op.sum_element() != i32 or not all(is_quantized(element_type(x)) for x in op.operands):
        return None
    if any(0 in shape_of(x) for x in (*op.operands, *op.results)):
        return None
    stored = ranges.array(_moved_from(op.weights))
    if stored is None or not stored.size or _span(stored) >= 1 << (MOST_BITS + 1):
        return None
    weights = ranges.array(op.weights)
    return weights if weights is not None and _span(weights) < 1 << (MOST_BITS + 1) else None


def _moved_from(value: SSAValue) -> SSAValue:
    """What a value is made of by moving elements alone, which is looked at before it is moved."""
    op = value.owner
    while isinstance(op, GraphOp) and op.fills is not None and len(op.operands) == 1:
        value = op.operands[0]
        op = value.owner
    return value


def _span(numbers: Array) -> int:
    return int(numbers.max()) - int(numbers.min())


@dataclass
class CountBits(RewritePattern):
    """Compute a contraction by counting bits, if that has a form and is faster.

        %c = graph.blocked_conv %x, %w {result_element = i32} : tensor<1x4x8x8x16xi32>
    ->
        %d = graph.pack_bits %x {bits = 2} : tensor<1x8x8x2x2xui32>
        ...
        %c = graph.bit_conv %d, %v : tensor<1x4x8x8x16xi32>

    Attributes:
        weights: of the contractions that are looked at.
        forced: whether the estimate is not asked.
    """

    weights: dict[ContractionOp, Array]
    sets: ValueSets
    constants: Constants
    target: TargetFacts
    forced: bool

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ContractionOp, rewriter: PatternRewriter) -> None:
        array = self.weights.get(op)
        if array is None:
            return
        form = op.bit_form()
        if form is None:
            remark(BitSerialPass.name, op, "it has no form on words of bits", missed=True)
            return
        numbers = self.sets.of(op.operands[0])
        data = None if numbers is None else data_encoding(numbers, form.pad)
        used = form.used_weights(array)
        weights = None if data is None else weight_encoding(array, used)
        if data is None or weights is None:
            text = f"data or weights have more than {MOST_BITS} bits"
            remark(BitSerialPass.name, op, text, missed=True)
            return
        if (reason := self.reason_to_stay(op, form, data, weights)) is not None:
            remark(BitSerialPass.name, op, reason, missed=True)
            return
        remark(BitSerialPass.name, op, f"data as {data}, weights as {weights}")
        rewriter.replace(op, counted(op, form, array, data, weights, self.constants))

    def reason_to_stay(
        self, op: ContractionOp, form: BitForm, data: DataEncoding, weights: WeightEncoding
    ) -> str | None:
        """Why a contraction is not to be computed so; None if it is."""
        if (declined := form_declined(CONTRACTION, op, self.target)) is not None:
            return declined
        if self.forced:
            return None
        planes = data.bits * weights.bits
        counted = cycles_bit_by_bit(form, planes, self.target)
        terms = op.work() // (2 * prod(op.shape))
        factors = element_type(op.operands[0]), element_type(op.weights)
        multiplied = cycles_of_products(terms, factors, self.target)
        if counted < multiplied:
            return None
        return f"est. {counted:.0f} cycles to count bits, {multiplied:.0f} to multiply"
