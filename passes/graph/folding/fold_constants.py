"""Constant folding."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.traits import Pure

from tcopt.dialects.graph.control.scan import ScanOp
from tcopt.dialects.graph.core.constant import ConstantOp
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import (
    Array,
    bytes_of,
    numpy_dtype,
    shape_of_type,
    type_of,
    zeros,
)
from tcopt.passes.graph.folding.constants import Constants, EraseUnusedConstant
from tcopt.support.ir.rewriting import rewrite

GROWTH = 4
"""Maximum size of a result relative to its operands; small results may exceed it."""

SPREAD_BYTES = 2**28
"""Maximum bytes of uniform operands (stored as one element) when they are materialised for an
evaluation, and the allowance of all results beyond a multiple of the existing weights."""


class FoldEmpty(RewritePattern):
    """Replace an operation whose results have no elements by constants.

        %y = graph.conv %x, %w : tensor<0x8x4x4xf32>
    ->
        %y = graph.constant dense<> : tensor<0x8x4x4xf32>

    Later passes then never see an operator that computes nothing, whatever its operands are.

    Attributes:
        steps: names of the step functions of the loops that were removed.
    """

    def __init__(self) -> None:
        self.steps: set[str] = set()

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Rewrite one operation."""
        if isinstance(op, ConstantOp) or not op.results or not op.has_trait(Pure):
            return
        if not isinstance(op, GraphOp | ScanOp):
            return
        types = [type_of(result) for result in op.results if isinstance(result.type, TensorType)]
        if len(types) < len(op.results) or any(0 not in shape_of_type(t) for t in types):
            return
        if isinstance(op, ScanOp):
            self.steps.add(op.body.string_value())
        constants = [ConstantOp.literal(zeros(t)) for t in types]
        rewriter.replace(op, constants, [constant.result for constant in constants])


class FoldConstant(RewritePattern):
    """Replace an operator whose operands are constants by constants.

        %c = graph.add %a, %b : tensor<8xf32>
    ->
        %c = graph.constant @scale.add : tensor<8xf32>

    Identical operators on the same constants share their results, so a weight that many
    contractions read is stored once in the form that they read.

    Attributes:
        most_bytes: maximum size of a result that is much larger than its operands.
        left: bytes left for further results.
    """

    def __init__(self, constants: Constants, most_bytes: int):
        self.constants = constants
        self.most_bytes = most_bytes
        weights = constants.store.values() if constants.store is not None else ()
        stored = sum(array.nbytes for array in weights)
        self.left = GROWTH * stored + SPREAD_BYTES
        self._evaluated: dict[_Key, list[ConstantOp]] = {}

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: GraphOp, rewriter: PatternRewriter) -> None:
        if isinstance(op, ConstantOp) or op.is_host_call:
            return
        known: list[Array] = []
        for operand in op.operands:
            if (array := self.constants.value(operand)) is None:
                return
            known.append(array)
        key = _key(op)
        if (first := self._evaluated.get(key)) is not None:
            results = [constant.clone() for constant in first]
        elif op.packs_weights or self.is_worthwhile(op):
            results = [self.constants.make(array, _hint(op)) for array in op.evaluate(*known)]
            self._evaluated[key] = results
        else:
            return
        rewriter.replace(op, results, [constant.result for constant in results])

    def is_worthwhile(self, op: GraphOp) -> bool:
        """Check that the results are not much larger than the operands, and within the budget."""
        operands = sum(_stored_bytes(operand) for operand in op.operands)
        if bytes_of(op.type) > max(GROWTH * operands, self.most_bytes):
            return False
        size = sum(bytes_of(type_of(result)) for result in op.results)
        spread = sum(bytes_of(type_of(v)) - _stored_bytes(v) for v in op.operands)
        if size > self.left or spread > SPREAD_BYTES:
            return False
        self.left -= size
        return True


def _stored_bytes(value: SSAValue) -> int:
    """Return the stored size of a constant: a uniform literal is one element."""
    type = type_of(value)
    if isinstance(value.owner, ConstantOp) and value.owner.is_splat:
        return numpy_dtype(type.element_type).itemsize
    return bytes_of(type)


def _erase_unused(module: ModuleOp, steps: set[str]) -> None:
    """Erase those of the given functions that are no longer the step of a loop."""
    used = {op.body.string_value() for op in module.walk() if isinstance(op, ScanOp)}
    for function in list(module.ops):
        if isinstance(function, FuncOp) and function.sym_name.data in steps - used:
            function.detach()
            function.erase()


_Key = tuple[object, ...]


def _key(op: GraphOp) -> _Key:
    """Return a key that is equal for operators that compute the same from the same constants."""
    if op.regions:
        return (op,)
    operands: list[Attribute | None] = []
    for operand in op.operands:
        owner = operand.owner
        if isinstance(owner, ConstantOp):
            operands += (owner.weight_ref, owner.value)
        operands.append(operand.type)
    types = (result.type for result in op.results)
    return (type(op), frozenset(op.properties.items()), *operands, *types)


def _hint(op: GraphOp) -> str:
    """Return a name made of the first weight's name and the op's."""
    owners = [operand.owner for operand in op.operands]
    names = [owner.weight_name for owner in owners if isinstance(owner, ConstantOp)]
    first = next((name for name in names if name is not None), "folded")
    return f"{first}.{op.name.removeprefix('graph.')}"


@dataclass(frozen=True)
class FoldConstantsPass(ModulePass):
    """Evaluate operators whose operands are all constants, and replace them by constants.

    Small and uniform results become literals, others become weights of the module's store. A result
    that is much larger than its operands together, and larger than `max-bytes`, is not evaluated: a
    broadcast of a constant stays a broadcast, but padding of channels to whole blocks is evaluated.
    Ops that pack weights for others are always evaluated. Tensors without elements become
    constants, whatever computes them. Unused constants are removed.

        %a = graph.constant @scale : tensor<8xf32>
        %b = graph.constant dense<1.000000e+00> : tensor<f32>
        %c = graph.add %a, %b : tensor<8xf32>
        %y = graph.mul %x, %c : tensor<4x8xf32>
    ->
        %c = graph.constant @scale.add : tensor<8xf32>
        %y = graph.mul %x, %c : tensor<4x8xf32>

    Options: `max-bytes`, the maximum size of a result that is much larger than its operands.
    """

    name = "fold-constants"

    max_bytes: int = 65536

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        empty = FoldEmpty()
        rewrite(op, [empty, FoldConstant(Constants(op), self.max_bytes)], once=True)
        _erase_unused(op, empty.steps)
        rewrite(op, [EraseUnusedConstant()])
