"""Inlining of elementwise stages into their readers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tcopt.dialects.table import ScaleOp
from tcopt.dialects.target.interface import places_data
from tcopt.dialects.te import Combiner, ComputeOp, FuncOp, IndexOp, ReadOp, YieldOp
from tcopt.dialects.te.access import index_ranges
from tcopt.dialects.te.borders import match_border
from tcopt.passes.te.inlining import composed_accesses, inline_read, simplify_body
from tcopt.support.arithmetic.affine import Dim, linear_sum, to_expr, used_dims
from tcopt.support.ir.literals import integers
from tcopt.support.ir.rewriting import rewrite

_FREE = (ReadOp, IndexOp, YieldOp, arith.ConstantOp)
_EXPENSIVE = (
    arith.DivfOp,
    arith.DivSIOp,
    arith.DivUIOp,
    arith.FloorDivSIOp,
    arith.RemSIOp,
    arith.RemUIOp,
)
PRODUCTS = (arith.MulfOp, arith.MuliOp, arith.AndIOp, arith.XOrIOp)
"""Operations that count as products in a contraction; bitwise ones included."""


class EraseUnusedStage(RewritePattern):
    """Remove an unused stage.

    %t = te.compute "t" [%i = 8] : tensor<8xf32> {...}
    ->
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ComputeOp, rewriter: PatternRewriter) -> None:
        if op.result.first_use is None:
            rewriter.erase(op)


class SimplifyStage(RewritePattern):
    """Merge equal operations of a stage's body, and drop unused ones.

    %0 = te.read %x[%i] : tensor<8xf32>
    %1 = te.read %x[%i] : tensor<8xf32>
    %2 = arith.addf %0, %1 : f32
    ->
    %0 = te.read %x[%i] : tensor<8xf32>
    %2 = arith.addf %0, %0 : f32
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ComputeOp, rewriter: PatternRewriter) -> None:
        if simplify_body(op):
            rewriter.notify_op_modified(op)


@dataclass(frozen=True)
class InlineStage(RewritePattern):
    """Inline a stage at each read of it, if that is cheap.

        %bias = te.compute "bias" [%i = 8] : tensor<8xf32> { te.read %x[%i] + te.read %b[%i] }
        %relu = te.compute "relu" [%i = 8] : tensor<8xf32> { max(te.read %bias[%i], 0) }
        ->
        %relu = te.compute "relu" [%i = 8] : tensor<8xf32> {
          max(te.read %x[%i] + te.read %b[%i], 0)
        }

    Attributes:
        max_ops, inline_padding: see the options of `te-inline`.
        in_place: whether the function is for units that reduce data in their own memories.
    """

    max_ops: int = 4
    inline_padding: bool = True
    in_place: bool = False

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ComputeOp, rewriter: PatternRewriter) -> None:
        simplify_body(op)
        reads = _reads_of(op)
        if not reads or op.is_reduction or not self.should_inline(op, reads):
            return
        for read in reads:
            inline_read(read, op)
        rewriter.erase(op)

    def should_inline(self, stage: ComputeOp, reads: list[ReadOp]) -> bool:
        """Whether it is cheap to compute `stage` at each of `reads`."""
        if not reads or any(match_border(_reader(read)) is not None for read in reads):
            return False
        if uses_table(stage) and not all(_goes_with(_reader(read), stage) for read in reads):
            return False
        if self.in_place and any(_reduces(_reader(read)) for read in reads):
            return _is_copy(stage) and not _is_guarded(stage)
        if _is_narrow(stage) and any(_has_functions(_reader(read)) for read in reads):
            return False
        reuse = {id(read): _reuse(_reader(read), stage) for read in reads}
        if sum(reuse.values()) < 2 and (len(reads) == 1 or not uses_table(stage)):
            return True
        repeated = [read for read in reads if reuse[id(read)] >= 2]
        # Neighbouring outputs of a transform read the same elements.
        repeated = repeated or [read for read in reads if uses_table(_reader(read))]
        if any(is_contraction(_reader(read)) for read in repeated):
            return (
                _is_copy(stage)
                and not _is_guarded(stage)
                and all(_stays_linear(read, stage) for read in reads)
            )
        if _is_guarded(stage) and repeated and not self.inline_padding:
            return False
        return self._is_cheap(stage)

    def _is_cheap(self, stage: ComputeOp) -> bool:
        work = [op for op in stage.body.block.ops if not isinstance(op, _FREE)]
        if any(isinstance(op, _EXPENSIVE) for op in work) or _has_functions(stage):
            return False
        return len(work) + GATHER * max(_gathers(stage) - 1, 0) <= self.max_ops


@dataclass(frozen=True)
class TeInlinePass(ModulePass):
    """Inline stages without reductions into their readers, and drop unused stages.

    A stage that is not a result of its function is inlined if that is cheap:

    - elements are read about once in total: always;
    - the stage only copies elements, and a contraction (a convolution, a matmul) reads them
      repeatedly: if the indices stay linear and nothing is padded;
    - the stage gathers short rows (its reads divide the index along the row): not into stages with
      mathematical functions, which are vectorised over several rows;
    - a transform by a constant table counts as a contraction; it is also not inlined into a stage
      that permutes its elements, or into an epilogue with mathematical functions or many
      operations, because the transform is unrolled and such stages are not;
    - the stage computes operands of a max or sum reduction: only if it is a copy, on targets whose
      programs manage memories, because their units reduce data in these memories;
    - other stages that are read repeatedly: if the stage is cheap, with at most `max_ops`
      operations, no divisions or mathematical functions, and at most one gather. Padding is inlined
      into a pooling in this way, unless `inline_padding` is off.

    A stage whose bordered copy is the function's result is not inlined into it: `lower-te-to-loop`
    lets the stage write directly into the result.

    Other stages keep their buffers: padding and activations before convolutions, or an `exp` that
    both a sum and a division read.

        %pad  = te.compute "pad" ... { te.read %x[.., %h - 1, %w - 1] else 0.0 }
        %conv = te.compute "conv" ... reduce [..] sum { te.read %pad[..] * te.read %w[..] }
        %bias = te.compute "bias" ... { te.read %conv[..] + te.read %b[%o] }
        %relu = te.compute "relu" ... { max(te.read %bias[..], 0) }
    ->
        %pad  = te.compute "pad" ... { te.read %x[.., %h - 1, %w - 1] else 0.0 }
        %conv = te.compute "conv" ... reduce [..] sum { te.read %pad[..] * te.read %w[..] }
        %relu = te.compute "relu" ... { max(te.read %conv[..] + te.read %b[%o], 0) }
    """

    name = "te-inline"

    max_ops: int = 4
    inline_padding: bool = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.ops:
            if isinstance(function, FuncOp):
                inline_stages(function, self.max_ops, self.inline_padding)


def inline_stages(function: FuncOp, max_ops: int = 4, inline_padding: bool = True) -> None:
    """Inline the stages of one function that the rules permit, producers first."""
    rewrite(function, [SimplifyStage()], once=True)
    # Two stages inlined into one reader share the reads of their producers, so iterate.
    in_place = places_data(function)
    while rewrite(function, [InlineStage(max_ops, inline_padding, in_place)], once=True):
        pass
    rewrite(function, [EraseUnusedStage()])


GATHER = 4
"""Cost of a gather, in operations."""


NARROW = 16
"""Maximum elements of a row that is shorter than a vector of two interleaved parts."""


def _is_narrow(stage: ComputeOp) -> bool:
    """Whether a stage gathers the elements of rows that are too short for vectors."""
    return integers(stage.extents)[-1:] < (NARROW,) and _gathers(stage) > 0


def _has_functions(stage: ComputeOp) -> bool:
    return any(op.name.startswith("math.") for op in stage.body.block.ops)


def _gathers(stage: ComputeOp) -> int:
    """Return the number of reads whose index divides the stage's last axis (gathers)."""
    if not stage.spatial_extents:
        return 0
    last = stage.body.block.args[len(stage.spatial_extents) - 1]
    reads = [op for op in stage.body.block.ops if isinstance(op, ReadOp)]
    return sum(
        any(
            read.indices[position] is last
            for expr in read.map.data.results
            for atom, _ in linear_sum(expr, index_ranges(read.indices)).terms
            if not isinstance(atom, Dim)
            for position in used_dims(to_expr(atom.operand))
        )
        for read in reads
    )


def _reuse(reader: ComputeOp, stage: ComputeOp) -> float:
    """Return the number of reads of each element, for the upper bounds of sizes."""
    points = math.prod(reader.all_bounds)
    return points / max(math.prod(integers(stage.extents)), 1)


def _reads_of(stage: ComputeOp) -> list[ReadOp] | None:
    """Return the reads of a stage; None if it is a result of the function as well."""
    users = [use.operation for use in stage.result.uses]
    reads = [user for user in users if isinstance(user, ReadOp)]
    return reads if len(reads) == len(users) else None


def _reader(read: ReadOp) -> ComputeOp:
    stage = read.parent_op()
    assert isinstance(stage, ComputeOp)
    return stage


def is_contraction(stage: ComputeOp) -> bool:
    """Whether a stage sums products of two elements, or is a transform by a constant table."""
    if uses_table(stage):
        return True
    if stage.combiner is None or stage.combiner.data is not Combiner.SUM:
        return False
    return any(
        isinstance(op, PRODUCTS) and all(_reads_something(v.owner) for v in op.operands)
        for op in stage.body.block.ops
    )


def _reduces(stage: ComputeOp) -> bool:
    """Whether a stage is a reduction, but not a contraction."""
    return stage.is_reduction and not is_contraction(stage)


def uses_table(stage: ComputeOp) -> bool:
    """Whether a stage is a transform by a constant table."""
    return any(isinstance(op, ScaleOp) for op in stage.body.block.ops)


LONG = 16
"""Maximum operations of an epilogue that is unrolled with a transform."""


def _goes_with(reader: ComputeOp, transform: ComputeOp) -> bool:
    """Whether a stage after a transform may be unrolled with it: it is elementwise on the same
    shape, with few operations and no mathematical functions."""
    if reader.is_reduction or reader.spatial_extents != transform.spatial_extents:
        return False
    ops = [op for op in reader.body.block.ops if not isinstance(op, _FREE)]
    return uses_table(reader) or not (_has_functions(reader) or len(ops) > LONG)


def _reads_something(op: object) -> bool:
    pending = [op]
    while pending:
        current = pending.pop()
        if isinstance(current, ReadOp):
            return True
        if isinstance(current, Operation):
            pending.extend(operand.owner for operand in current.operands)
    return False


def _is_copy(stage: ComputeOp) -> bool:
    """Whether a stage only moves elements."""
    return all(isinstance(op, _FREE) for op in stage.body.block.ops) and isinstance(
        stage.yielded.owner, ReadOp
    )


def _is_guarded(stage: ComputeOp) -> bool:
    return any(isinstance(op, ReadOp) and op.default is not None for op in stage.body.block.ops)


def _stays_linear(read: ReadOp, stage: ComputeOp) -> bool:
    """Whether the stage's reads have linear indices after inlining."""
    accesses = composed_accesses(read, stage)
    expected = sum(isinstance(op, ReadOp) for op in stage.body.block.ops)
    return len(accesses) == expected and all(
        linear_sum(expr, ()).is_linear for access in accesses for expr in access
    )
