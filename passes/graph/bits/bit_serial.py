"""Rewriting of contractions with operands of few bits as population counts or table lookups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, i32
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tcopt.dialects.graph.contraction.base import ContractionOp
from tcopt.dialects.graph.core.forms import CONTRACTION, form_declined
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import Array, element_type, shape_of
from tcopt.dialects.graph.elementwise.quantize import is_quantized
from tcopt.dialects.intrinsics.table_sums import lookup_of
from tcopt.dialects.target import TargetFacts, target_facts_of
from tcopt.passes.graph.bits.costs import (
    cycles_bit_by_bit,
    cycles_by_tables,
    cycles_of_products,
    cycles_of_reading,
)
from tcopt.passes.graph.bits.counted_sums import counted
from tcopt.passes.graph.bits.encodings import (
    MOST_BITS,
    WeightEncoding,
    data_encoding,
    table_encoding,
    weight_encoding,
)
from tcopt.passes.graph.bits.forms import BitForm, bit_form
from tcopt.passes.graph.bits.looked_up_sums import looked_up, table_shape
from tcopt.passes.graph.bits.value_sets import ValueSets, fill_values
from tcopt.passes.graph.folding.constants import Constants
from tcopt.passes.graph.precision.integer_ranges import IntegerRanges
from tcopt.passes.graph.winograd.exact_tiles import ExactTiles, resident_bytes
from tcopt.support.arithmetic.sizes import upper_bound
from tcopt.support.errors import PassFailedError
from tcopt.support.ir.rewriting import function_bodies, rewrite
from tcopt.support.remarks import remark

AUTO, POPCOUNT, LOOKUP, NEVER = "auto", "popcount", "lookup", "never"
LEAST_GAIN = 0.05
"""Minimum share of the multiplied form's cycles that a rewrite must save, as packing bits and
building tables takes time too.
"""

METHODS = (AUTO, POPCOUNT, LOOKUP, NEVER)


@dataclass(frozen=True)
class BitSerialPass(ModulePass):
    """Compute contractions of few-bit integers by population counts (bit-serial) or table lookups.

    If data and weights are integers of up to 4 bits, as in a quantised model, bits of equal
    significance are packed into words: data at run time (`graph.pack_bits`), weights at compile
    time by `fold-constants`. The contraction is then a sum of population counts of ANDed words,
    each times a power of two. Weights that are -1 or 1 take one bit, and the counts are of XORed
    words. Results are exact.

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

    If only the weights have few bits, the data is tabulated: each table (`graph.sum_tables`) holds
    the sums of every subset of a few data elements, and bits of the weights form the index of an
    entry:

        %d = graph.sum_tables %x {numbers = 6, groups = 8, steps = 2, bits = 11} : ...
        %i = graph.constant @w.indices : tensor<1x2x3x3x1x8x64xui8>
        %s = graph.table_conv %d, %i {bits = 11} : tensor<1x1x8x8x64xi32>

    The set of values that the data can take is known from its quantiser or its type. The pad value
    has the code 0; without pads, the minimum value has it. A contraction that has no such form, or
    needs fewer cycles as products of bytes (see `costs.py`), is not changed.

    Options:
        method: `auto` chooses the fastest form by the cost model; `popcount` counts bits and
            `lookup` uses tables wherever they are possible; `never` disables the pass.
    """

    name = "bit-serial"

    method: str = AUTO

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.method not in METHODS:
            text = f"method = {self.method} is none of {', '.join(METHODS)}"
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
                exact, resident = ExactTiles(target, ranges), resident_bytes(body)
                pattern = CountBits(found, sets, constants, target, self.method, exact, resident)
                rewrite(body, [pattern], once=True)


def _few_weights(op: ContractionOp, ranges: IntegerRanges) -> Array | None:
    """Return the weights of a contraction of narrow integers if their values span few bits."""
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
    """Return the source of a chain of operators that only move elements. It is checked first,
    because it needs no evaluation.
    """
    op = value.owner
    while isinstance(op, GraphOp) and fill_values(op) is not None and len(op.operands) == 1:
        value = op.operands[0]
        op = value.owner
    return value


def _span(numbers: Array) -> int:
    return int(numbers.max()) - int(numbers.min())


@dataclass
class CountBits(RewritePattern):
    """Compute a contraction by counting bits, or by table lookups, if that is possible and faster.

        %c = graph.blocked_conv %x, %w {result_element = i32} : tensor<1x4x8x8x16xi32>
    ->
        %d = graph.pack_bits %x {bits = 2} : tensor<1x8x8x2x2xui32>
        ...
        %c = graph.bit_conv %d, %v : tensor<1x4x8x8x16xi32>

    Attributes:
        weights: values of the weights of each candidate contraction.
        method: form to use regardless of the cost model; `auto` follows the cost model.
        exact, resident: used to estimate what `winograd` would save on the same contraction.
    """

    weights: dict[ContractionOp, Array]
    sets: ValueSets
    constants: Constants
    target: TargetFacts
    method: str
    exact: ExactTiles
    resident: int

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ContractionOp, rewriter: PatternRewriter) -> None:
        array = self.weights.get(op)
        if array is None:
            return
        form = bit_form(op)
        if form is None:
            remark(BitSerialPass.name, op, "it has no bit-serial form", missed=True)
            return
        numbers = self.sets.of(op.operands[0])
        weights = weight_encoding(array, form.used_weights(array))
        ways = (
            []
            if numbers is None or weights is None
            else self._ways(op, form, array, numbers, weights)
        )
        if not ways:
            text = f"data or weights have more than {MOST_BITS} bits"
            if self.method != POPCOUNT and numbers is not None:
                text = "the target has no table lookup for its values"
            remark(BitSerialPass.name, op, text, missed=True)
            return
        if (declined := form_declined(CONTRACTION, op, self.target)) is not None:
            remark(BitSerialPass.name, op, declined, missed=True)
            return
        best = min(ways, key=lambda way: way.cycles)
        if self.method == AUTO:
            multiplied = self._multiplied(op, form)
            if best.cycles >= (1 - LEAST_GAIN) * multiplied:
                text = f"est. {best.cycles:.0f} cycles {best.verb}, {multiplied:.0f} to multiply"
                remark(BitSerialPass.name, op, text, missed=True)
                return
        remark(BitSerialPass.name, op, best.told)
        rewriter.replace(op, best.make())

    def _ways(
        self,
        op: ContractionOp,
        form: BitForm,
        array: Array,
        numbers: Array,
        weights: WeightEncoding,
    ) -> list[_Way]:
        """Return the possible forms of the contraction, with their estimated cycles."""
        ways: list[_Way] = []
        data = data_encoding(numbers, form.pad)
        if data is not None and self.method in (AUTO, POPCOUNT):
            vectors = upper_bound(prod(op.shape)) / self._lanes
            cycles = vectors * cycles_bit_by_bit(form, data.bits * weights.bits, self.target)
            cycles += cycles_of_reading(array.size * weights.bits // 8, self.target)
            make = partial(counted, op, form, array, data, weights, self.constants)
            ways.append(
                _Way(cycles, "to count bits", f"data as {data}, weights as {weights}", make)
            )
        lookup = lookup_of(self.target.capabilities)
        matrix = form.matrix(array) if self.method in (AUTO, LOOKUP) else None
        if lookup is None or matrix is None or not form.takes_blocks_of(lookup.lanes):
            return ways
        codes = table_encoding(numbers, form.pad, weights.exclusive)
        shape = table_shape(matrix.shape[1], codes, weights, lookup)
        if shape is not None:
            cycles = cycles_by_tables(matrix.shape, form.rows, weights.bits, shape, lookup)
            size = prod(matrix.shape) * weights.bits // shape.numbers
            cycles += cycles_of_reading(size, self.target)
            make = partial(
                looked_up, op, form, array, codes, weights, shape, lookup.lanes, self.constants
            )
            told = f"data from {codes} in tables, weights as {weights}"
            ways.append(_Way(cycles, "to look up sums", told, make))
        return ways

    @property
    def _lanes(self) -> int:
        """Number of 32-bit accumulators in a vector."""
        units = self.target.vectors
        assert units is not None
        return units.lanes()

    def _multiplied(self, op: ContractionOp, form: BitForm) -> float:
        """Estimate the cycles of multiplying, either directly or by Winograd tiles."""
        terms = op.work() // (2 * prod(op.shape))
        factors = element_type(op.operands[0]), element_type(op.weights)
        each = cycles_of_products(terms, factors, self.target)
        reading = cycles_of_reading(prod(shape_of(op.weights)), self.target)
        directly = upper_bound(prod(op.shape)) / self._lanes * each + reading
        return directly * self.exact.share(op, self.resident)


@dataclass(frozen=True)
class _Way:
    """One form in which a contraction can be computed.

    Attributes:
        cycles: estimated cycles.
        verb: description of the method, for remarks.
        told: description of the encodings, for remarks.
        make: builds the ops.
    """

    cycles: float
    verb: str
    told: str
    make: Callable[[], list[Operation]]
