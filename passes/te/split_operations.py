"""Splitting of stages into single operations that overwrite an operand, for in-place units."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType, ModuleOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint
from xdsl.traits import Commutative

from tcopt.dialects.arith_ import ExtSIOp, TruncIOp
from tcopt.dialects.graph.core.types import tensor
from tcopt.dialects.target.interface import places_data
from tcopt.dialects.te import ComputeOp, FuncOp, ReadOp, YieldOp
from tcopt.dialects.te.names import unique_name
from tcopt.support.ir.literals import number_attr
from tcopt.support.ir.rewriting import rewrite

_FREE = (ReadOp, YieldOp, arith.ConstantOp)
_CONVERSIONS = (ExtSIOp, TruncIOp)
_WIDEST = 32
"""Bit width of the units' registers."""


@dataclass
class SplitStage(RewritePattern):
    """Split an elementwise stage into one stage for each operation.

        %y = te.compute "y" [%i = 8] : tensor<8xi32> {
          %0 = te.read %s[%i] : tensor<8xi32>
          %1 = arith.addi %0, %c3 : i32
          %2 = arith.maxsi %1, %c0 : i32
          te.yield %2 : i32
        }
    ->
        %a = te.compute "addi" [%i = 8] : tensor<8xi32> { te.read %s[%i] + 3 }
        %y = te.compute "y" [%i = 8] : tensor<8xi32> { max(te.read %a[%i], 0) }
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ComputeOp, rewriter: PatternRewriter) -> None:
        if op.is_reduction or not _is_whole(op):
            return
        work = [each for each in op.body.block.ops if _has_stage(each)]
        if len(work) < 2:
            return
        made: dict[SSAValue, SSAValue] = {}
        for each in work[:-1]:
            (result,) = each.results
            name = unique_name(each.name.partition(".")[2], _names(op))
            stage = _stage(op, name, result, made)
            rewriter.insert(stage, InsertPoint.before(op))
            made[result] = stage.result
        last = _stage(op, op.stage.data, op.yielded, made)
        rewriter.replace(op, last)


@dataclass
class CopyOperand(RewritePattern):
    """Copy an operand that is read again later, so that the operation can overwrite the copy.

        %b = te.compute "b" [%i = 8] : tensor<8xi32> { te.read %a[%i] << 3 }
        %y = te.compute "y" [%i = 8] : tensor<8xi32> { te.read %a[%i] + te.read %b[%i] }
    ->
        %z = te.compute "zero" [%i = 8] : tensor<8xi32> { 0 }
        %c = te.compute "copy" [%i = 8] : tensor<8xi32> { te.read %z[%i] + te.read %a[%i] }
        %b = te.compute "b" [%i = 8] : tensor<8xi32> { te.read %c[%i] << 3 }
        %y = te.compute "y" [%i = 8] : tensor<8xi32> { te.read %a[%i] + te.read %b[%i] }
    """

    done: set[Operation] = field(default_factory=set[Operation])

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ComputeOp, rewriter: PatternRewriter) -> None:
        work = _single_operation(op)
        if work is None or op in self.done:
            return
        self.done.add(op)
        if isinstance(work, _CONVERSIONS):
            return
        count = 2 if work.has_trait(Commutative) else 1
        reads = [v.owner for v in work.operands[:count] if isinstance(v.owner, ReadOp)]
        if not reads or any(_may_be_overwritten(read, op) for read in reads):
            return
        (element,) = {read.result.type for read in reads}
        zero = _new_stage(op, "zero", element, lambda _: [_zero(element)])
        copy = _new_stage(op, "copy", element, lambda body: _sum(zero, reads[0], op, body))
        self.done |= {zero, copy}
        for each in (zero, copy):
            rewriter.insert(each, InsertPoint.before(op))
        own = _read_of(copy.result, op.body.block)
        rewriter.insert(own, InsertPoint.before(reads[0]))
        rewriter.replace(reads[0], [], [own.result])


@dataclass(frozen=True)
class SplitOperationsPass(ModulePass):
    """Split elementwise stages into single operations, each of which overwrites an operand.

    Each stage is then one instruction of an accelerator whose unit computes `register = register op
    other`. The operand that is overwritten is a stage of the same elements that is not read
    afterwards; if there is none, it is a copy. It may be the second operand of a commutative
    operation. Conversions between types move data and overwrite nothing.

        %y = te.compute "y" [%i = 8] : tensor<8xi8> {
          %0 = te.read %s[%i] : tensor<8xi32>
          %1 = te.read %b[%i] : tensor<8xi32>
          %2 = arith.addi %0, %1 : i32
          %3 = arith.shrsi %2, %c4 : i32
          %4 = arith.trunci %3 : i32 to i8
          te.yield %4 : i8
        }
    ->
        %a = te.compute "addi" [%i = 8] : tensor<8xi32> { te.read %s[%i] + te.read %b[%i] }
        %t = te.compute "shrsi" [%i = 8] : tensor<8xi32> { te.read %a[%i] >> 4 }
        %y = te.compute "y" [%i = 8] : tensor<8xi8> { trunc(te.read %t[%i]) }

    Functions for targets whose programs do not manage memories are not changed.
    """

    name = "split-operations"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.ops:
            if isinstance(function, FuncOp) and places_data(function):
                rewrite(function, [SplitStage()], once=True)
                rewrite(function, [CopyOperand()], once=True)
                _move_to_front(function)


def _move_to_front(function: FuncOp) -> None:
    """Move elementwise stages that do not depend on a reduction before all reductions."""
    late: set[Operation] = set()
    for stage in function.stages:
        reads = [op.source.owner for op in stage.body.block.ops if isinstance(op, ReadOp)]
        if stage.is_reduction or any(source in late for source in reads):
            late.add(stage)
    first = next((stage for stage in function.stages if stage in late), None)
    for stage in function.stages:
        if first is not None and stage not in late and not stage.is_before_in_block(first):
            stage.detach()
            function.body.block.insert_op_before(stage, first)


def _is_whole(stage: ComputeOp) -> bool:
    """Whether a stage has only simple integer operations and no computed indices."""
    return all(
        isinstance(op, _FREE)
        or (len(op.results) == 1 and not op.regions and _is_integer(op.results[0].type))
        for op in stage.body.block.ops
    ) and all(
        set(op.indices) <= set(stage.body.block.args)
        for op in stage.body.block.ops
        if isinstance(op, ReadOp)
    )


def _is_integer(type_: Attribute) -> bool:
    return isinstance(type_, IntegerType) and type_.bitwidth > 1


def _has_stage(op: Operation) -> bool:
    """Whether an operation gets a stage; operations wider than 32 bits stay with the one that
    narrows their result."""
    return not isinstance(op, _FREE) and _bits(op.results[0].type) <= _WIDEST


def _bits(type_: Attribute) -> int:
    return type_.bitwidth if isinstance(type_, IntegerType) else 0


def _single_operation(stage: ComputeOp) -> Operation | None:
    """Return the single integer operation of a stage that is not a reduction, or None."""
    work = [op for op in stage.body.block.ops if not isinstance(op, _FREE)]
    return work[0] if len(work) == 1 and not stage.is_reduction and _is_whole(stage) else None


def _may_be_overwritten(read: ReadOp, stage: ComputeOp) -> bool:
    """Whether a stage may overwrite what it reads."""
    source = read.source.owner
    if not isinstance(source, ComputeOp) or read.default is not None:
        return False
    same = source.spatial_extents == stage.spatial_extents and _is_own_place(read, stage)
    others = {use.operation for use in read.source.uses} - {read}
    return same and all(_is_before(other, stage) for other in others)


def _is_own_place(read: ReadOp, stage: ComputeOp) -> bool:
    """Whether a stage reads the element at the index that it computes."""
    axes, extents = stage.body.block.args, stage.spatial_extents
    return len(read.map.data.results) == len(axes) and all(
        (isinstance(expr, AffineDimExpr) and read.indices[expr.position] is axis)
        or (extent == 1 and expr == AffineConstantExpr(0))
        for expr, axis, extent in zip(read.map.data.results, axes, extents, strict=True)
    )


def _is_before(op: Operation, stage: ComputeOp) -> bool:
    """Whether a read is in a stage before another one."""
    holder = op.parent_op()
    return isinstance(holder, ComputeOp) and holder.is_before_in_block(stage)


def _stage(
    like: ComputeOp, name: str, value: SSAValue, made: dict[SSAValue, SSAValue]
) -> ComputeOp:
    """Return a stage that computes one value of another stage, reading values that have stages."""

    def body(block: Block) -> Iterator[Operation]:
        mapping: dict[SSAValue, SSAValue] = dict(zip(like.body.block.args, block.args, strict=True))

        def cloned(work: Operation) -> Iterator[Operation]:
            for operand in dict.fromkeys(work.operands):
                if operand in mapping:
                    continue
                if operand in made:
                    read = _read_of(made[operand], block)
                    mapping[operand] = read.result
                    yield read
                elif isinstance(operand.owner, _FREE):
                    yield operand.owner.clone(mapping)
                elif isinstance(operand.owner, Operation):
                    yield from cloned(operand.owner)
            yield work.clone(mapping)

        work = value.owner
        assert isinstance(work, Operation)
        yield from cloned(work)

    return _make(like, name, value.type, body)


def _new_stage(
    like: ComputeOp, part: str, element: Attribute, body: Callable[[Block], Sequence[Operation]]
) -> ComputeOp:
    return _make(like, unique_name(part, _names(like)), element, body)


def _names(stage: ComputeOp) -> set[str]:
    """Return the names of the stages of a function."""
    function = stage.parent_op()
    assert isinstance(function, FuncOp)
    return {each.stage.data for each in function.stages}


def _make(
    like: ComputeOp,
    name: str,
    element: Attribute,
    body: Callable[[Block], Iterator[Operation] | Sequence[Operation]],
) -> ComputeOp:
    block = Block(arg_types=[arg.type for arg in like.body.block.args])
    for old, new in zip(like.body.block.args, block.args, strict=True):
        new.name_hint = old.name_hint
    ops = list(body(block))
    block.add_ops([*ops, YieldOp(ops[-1].results[0])])
    type_ = tensor(like.spatial_extents, element)
    stage = ComputeOp(name, like.spatial_extents, Region(block), type_)
    stage.location = like.location
    stage.result.name_hint = like.result.name_hint
    return stage


def _read_of(value: SSAValue, block: Block) -> ReadOp:
    """Return a read of a tensor at the index that a body computes."""
    return ReadOp(value, AffineMap.identity(len(block.args)), list(block.args))


def _zero(element: Attribute) -> arith.ConstantOp:
    return arith.ConstantOp(number_attr(0, element))


def _sum(zero: ComputeOp, read: ReadOp, like: ComputeOp, block: Block) -> Sequence[Operation]:
    """Return the body of a copy: zero plus the copied element."""
    mapping: dict[SSAValue, SSAValue] = dict(zip(like.body.block.args, block.args, strict=True))
    start, copied = _read_of(zero.result, block), read.clone(mapping)
    return [start, copied, arith.AddiOp(start.result, copied.result)]
