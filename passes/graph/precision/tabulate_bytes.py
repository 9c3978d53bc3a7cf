"""Replacement of functions from 8-bit to 8-bit values by lookup tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tcopt.dialects.graph.core.constant import ConstantValues
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import Array, element_type, numpy_dtype, shape_of
from tcopt.dialects.graph.elementwise.cast import CastOp
from tcopt.dialects.graph.elementwise.lookup import LookupOp
from tcopt.dialects.graph.elementwise.quantize import DequantizeOp, QuantizeOp, is_quantized
from tcopt.dialects.target import accelerator_of, target_facts_of
from tcopt.passes.graph.folding.constants import Constants
from tcopt.support.ir.rewriting import erase_unused, function_bodies, rewrite
from tcopt.support.remarks import remark

CHOOSES_BYTES = (
    frozenset({"x86_64", "avx512vbmi"}),
    frozenset({"x86_64", "avx2"}),
    frozenset({"aarch64"}),
)
"""Capabilities of the targets that have byte shuffles for lookups."""

_OPS = 64
"""Maximum number of ops of a function."""


@dataclass(frozen=True)
class TabulateBytesPass(ModulePass):
    """Replace functions of a single 8-bit value that are computed on real numbers by tables.

    Elementwise ops between an 8-bit value and its requantisation to 8 bits are a function of a
    byte, which a table of 256 entries represents exactly, including intermediate roundings. CPUs
    with byte shuffles look up a whole register of bytes in a few cycles, while a sigmoid takes
    dozens of cycles for fewer elements.

        %x = graph.dequantize %q, %sx, %zx : tensor<1x8x4x4xf32>
        %s = graph.sigmoid %x : tensor<1x8x4x4xf32>
        %a = graph.quantize %s, %ss, %zs : tensor<1x8x4x4xui8>
        %r = graph.dequantize %a, %ss, %zs : tensor<1x8x4x4xf32>
        %m = graph.mul %x, %r : tensor<1x8x4x4xf32>
        %y = graph.quantize %m, %sy, %zy : tensor<1x8x4x4xui8>
    ->
        %y = graph.lookup %q {table = [...]} : tensor<1x8x4x4xui8>

    Scales and other operands must be constants that are equal for all elements. Functions that can
    be computed on integers as well, such as clamps and changes of scale, are not changed.
    """

    name = "tabulate-bytes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_facts_of(op)
        if target is None or accelerator_of(op) is not None:
            return
        if not any(needed <= target.capabilities for needed in CHOOSES_BYTES):
            return
        pattern = TabulateBytes(Constants(op))
        for body in function_bodies(op):
            rewrite(body, [pattern], once=True)
            erase_unused(body, GraphOp)


@dataclass
class TabulateBytes(RewritePattern):
    """Replace a quantisation by a table lookup if its operand is a function of one byte.

        %x = graph.dequantize %q, %sx, %zx : tensor<4xf32>
        %s = graph.tanh %x : tensor<4xf32>
        %y = graph.quantize %s, %sy, %zy : tensor<4xui8>
    ->
        %y = graph.lookup %q {table = [...]} : tensor<4xui8>
    """

    constants: Constants
    constant_values: ConstantValues = field(default_factory=ConstantValues)

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: QuantizeOp, rewriter: PatternRewriter) -> None:
        if not _is_byte(element_type(op.results[0])):
            return
        found = _Function(op, self.constants, self.constant_values).run()
        if found is None:
            return
        source, table = found
        remark(TabulateBytesPass.name, op, "a table of 256 bytes")
        rewriter.replace(op, LookupOp(source, table, element_type(op.results[0])))


def _is_byte(element: Attribute) -> bool:
    return is_quantized(element) and numpy_dtype(element).itemsize == 1


class _Function:
    """The ops from a byte value to a quantisation.

    Attributes:
        ops: the ops, unordered; constants are evaluated instead.
        leaves: operands that none of the ops computes.
    """

    def __init__(self, root: QuantizeOp, constants: Constants, constant_values: ConstantValues):
        self.root = root
        self.constants = constants
        self.constant_values = constant_values
        self.ops: set[GraphOp] = set()
        self.leaves: dict[SSAValue, None] = {}
        self.known: dict[SSAValue, Array] = {}

    def run(self) -> tuple[SSAValue, list[int]] | None:
        """Return the byte value and the table; None if the quantisation is not such a function."""
        if not self.takes_in(self.root):
            return None
        found: tuple[SSAValue, set[GraphOp]] | None = None
        while len(self.ops) < _OPS:
            # Real values must be computed by further ops. Byte values may be; the latest comes
            # first.
            real = [value for value in self.leaves if not _is_byte(element_type(value))]
            if not real and len(self.leaves) == 1:
                found = next(iter(self.leaves)), set(self.ops)
            later = next(iter(real), None) or self.last_byte()
            owner = None if later is None else later.owner
            if not isinstance(owner, GraphOp) or not self.takes_in(owner):
                break
        if found is None or not any(map(_is_real, found[1])):
            return None
        return found[0], self.table(*found)

    def last_byte(self) -> SSAValue | None:
        """Return the leaf that is computed last; all leaves are bytes."""
        made = [value for value in self.leaves if isinstance(value.owner, GraphOp)]
        last = made[0] if made else None
        for value in made[1:]:
            assert last is not None
            first, second = last.owner, value.owner
            assert isinstance(first, Operation) and isinstance(second, Operation)
            last = value if first.is_before_in_block(second) else last
        return last

    def takes_in(self, op: GraphOp) -> bool:
        """Add an op if it is elementwise on operands of the full shape and constants."""
        if not op.is_elementwise or len(op.results) != 1 or op.shape != self.root.shape:
            return False
        fresh: list[SSAValue] = []
        for operand in op.operands:
            number = self.number(operand)
            if number is not None:
                self.known[operand] = number
            elif shape_of(operand) == self.root.shape and _computes(element_type(operand)):
                fresh.append(operand)
            else:
                return False
        self.ops.add(op)
        self.leaves.pop(op.results[0], None)
        computed = {each.results[0] for each in self.ops}
        self.leaves |= dict.fromkeys(value for value in fresh if value not in computed)
        return bool(fresh)

    def number(self, value: SSAValue) -> Array | None:
        """Return the value that all elements of a constant are equal to, or None."""
        if value not in self.constant_values:
            return None
        array = self.evaluated(value)
        if array is None or not array.size or (array != array.flat[0]).any():
            return None
        return array.reshape(-1)[0]

    def evaluated(self, value: SSAValue) -> Array | None:
        array, op = self.constants.value(value), value.owner
        if array is not None or not isinstance(op, GraphOp):
            return array
        operands = [self.evaluated(operand) for operand in op.operands]
        given = [each for each in operands if each is not None]
        return op.evaluate(*given)[0] if given and len(given) == len(operands) else None

    def table(self, source: SSAValue, ops: set[GraphOp]) -> list[int]:
        """Return the bytes of the result for the source bytes 0 to 255."""
        places = np.arange(256, dtype=np.uint8).view(numpy_dtype(element_type(source)))
        values: dict[SSAValue, Array] = {**self.known, source: places}
        result = _value(self.root.results[0], ops, values)
        return [int(entry) for entry in result.view(np.int8)]


def _value(value: SSAValue, ops: set[GraphOp], values: dict[SSAValue, Array]) -> Array:
    """Evaluate a value for all 256 bytes at once."""
    if value not in values:
        op = value.owner
        assert isinstance(op, GraphOp) and op in ops
        operands = [_value(operand, ops, values) for operand in op.operands]
        values[value] = _computed(op, operands)
    return values[value]


def _computed(op: GraphOp, operands: Sequence[Array]) -> Array:
    with np.errstate(all="ignore"):
        made = np.asarray(op.compute(*operands))
    return made.astype(numpy_dtype(op.type.element_type), copy=False)


def _computes(element: Attribute) -> bool:
    """Whether numpy computes with elements of a type exactly as compiled code does."""
    return element == f32 or is_quantized(element)


def _is_real(op: GraphOp) -> bool:
    """Whether an op needs real arithmetic, unlike a clamp or a change of scale."""
    return not isinstance(op, CastOp | DequantizeOp | QuantizeOp) and op.clamped() is None
