"""Localisation and shrinking of buffers to the footprint of one loop iteration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, MemRefType, ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint
from xdsl.utils.hints import isa

from tcopt.dialects import loop
from tcopt.dialects.arith_ import SelectOp
from tcopt.dialects.loop.analysis import (
    Access,
    Box,
    access_box,
    accesses,
    covers,
    over,
    union,
    whole_buffer,
)
from tcopt.dialects.loop.inside_tests import inside_test
from tcopt.dialects.size import extents_of, sized_memref
from tcopt.passes.loop.analysis.indexing import Knowledge, set_access
from tcopt.passes.loop.edits.dead_code import erase_dead_buffers
from tcopt.support.arithmetic.affine import used_dims
from tcopt.support.arithmetic.sizes import Extent
from tcopt.support.ir.quick_ir import walk_ops
from tcopt.support.ir.rewriting import move_before, rewrite
from tcopt.support.syntax.access_syntax import unique_operands


class CompactBuffer(RewritePattern):
    """Move a buffer into the innermost legal loop, and shrink it to the footprint of one iteration.

    %t = loop.alloc global : memref<64x100xf32>
    loop.for %i = 0 to 8 {
      ... loop.store %a, %t[%i * 8 + %ii, %w]
      ... loop.load %t[%i * 8 + %ii, %w]
    ->
    loop.for %i = 0 to 8 {
      %t = loop.alloc global : memref<8x100xf32>
      ... loop.store %a, %t[%ii, %w]
      ... loop.load %t[%ii, %w]
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: loop.AllocOp, rewriter: PatternRewriter) -> None:
        _compact(op, rewriter)


@dataclass(frozen=True)
class CompactBuffersPass(ModulePass):
    """Move buffers into loops, and shrink them to the footprint of one iteration.

        %t = loop.alloc global : memref<64x100xf32>
        loop.for %i = 0 to 8 {
          loop.for %ii = 0 to 8 { loop.for %j = 0 to 100 {
              loop.block "produce" (%v: spatial 64 = %i * 8 + %ii, %w: spatial 100 = %j) {
                ... loop.store %a, %t[%v, %w]
          ... a consumer of %t[%i * 8 + ..., ...]
        ->
        loop.for %i = 0 to 8 {
          %t = loop.alloc global : memref<8x100xf32>
          loop.for %ii = 0 to 8 { loop.for %j = 0 to 100 {
              loop.block "produce" (..., %o: spatial 8 = %i) {
                ... loop.store %a, %t[%v - %o * 8, %w]

    Each buffer is moved into the innermost loop in which it can be local. Buffers that are never
    read are erased. A buffer must stay outside of a loop that carries values from one iteration to
    the next: a loop of a reduction into the buffer, or one whose iterations read elements that they
    did not write.

    A shared buffer holds the elements that all threads of a block access in one iteration of the
    enclosing loops other than thread loops, and is allocated once for the block.

        loop.for %b = 0 to 4 thread blockIdx.x {
          loop.for %t = 0 to 16 thread threadIdx.x {
            loop.for %k = 0 to 8 {
              %s = loop.alloc shared : memref<64x64xf32>
              ... %s[%b * 16 + %t, %k * 8 + ..]
        ->
        loop.for %b = 0 to 4 thread blockIdx.x {
          %s = loop.alloc shared : memref<16x8xf32>
          loop.for %t = 0 to 16 thread threadIdx.x {
            ... %s[%t, ..]
    """

    name = "compact-buffers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.ops:
            if isinstance(function, loop.FuncOp):
                erase_dead_buffers(function)
                rewrite(function, [CompactBuffer()], once=True)


def _compact(alloc: loop.AllocOp, rewriter: PatternRewriter) -> None:
    users = {use.operation for use in alloc.result.uses}
    function = _function_of(alloc)
    ordered: list[Operation] = []
    known = Knowledge.of(function)
    for op in walk_ops(function):
        if op in users:
            ordered.append(op)
        elif isinstance(op, loop.ForOp):
            known.enter_loop(op)
    found = [[a for a in accesses(op) if a.buffer is alloc.result] for op in ordered]
    touches = [access for each in found for access in each]
    if not touches or not all(found):
        return
    paths = [loop.path_to(op) for op in ordered]
    candidates = _candidates([[o for o in path if isinstance(o, loop.ForOp)] for path in paths])
    # Registers hold whole vectors: a tail uses a whole vector with unused lanes. Likewise, shared
    # memory holds whole tiles.
    is_shared = alloc.scope.data.is_shared
    has_tails = is_shared or alloc.scope.data.in_registers or alloc.scope.data.is_placed
    # A buffer never moves out of a loop, as its iterations may run concurrently.
    own = len(list(loop.enclosing_loops(alloc)))
    for depth in range(len(candidates), own - 1, -1):
        held = candidates[:depth]
        fixed = [each for each in held if not (is_shared and loop.is_in_block(each))]
        running = [each for each in held if each not in fixed]
        place = paths[0].index(held[-1]) + 1 if held else 0
        roots = [path[place] for path, each in zip(paths, found, strict=True) for _ in each]
        boxes = [
            access_box(each, root, running, clipped=not (has_tails or each.may_leave))
            for each, root in zip(touches, roots, strict=True)
        ]
        if depth > own:
            entered = [each for each in held[own:] if each in fixed]
            if not _is_private(entered, alloc.result, touches, boxes):
                continue
        holder = _block_of_threads(held) if is_shared else held
        block = holder[-1].body.block if holder else function.body.block
        _place(alloc, block.first_op, rewriter)
        _shrink(alloc, touches, _box_of_all(boxes, alloc.result, has_tails), known, rewriter)
        return


def _block_of_threads(held: Sequence[loop.ForOp]) -> Sequence[loop.ForOp]:
    """Return the loops outside of a block's threads; shared buffers live as long as the block."""
    apart = [
        position
        for position, each in enumerate(held)
        if each.loop_kind is loop.LoopKind.PARALLEL
        or (each.loop_kind is loop.LoopKind.THREAD and not loop.is_thread(each))
    ]
    return held[: apart[-1] + 1] if apart else ()


def _function_of(op: Operation) -> loop.FuncOp:
    parent = op.parent_op()
    while not isinstance(parent, loop.FuncOp):
        assert parent is not None
        parent = parent.parent_op()
    return parent


def _candidates(paths: Sequence[list[loop.ForOp]]) -> list[loop.ForOp]:
    """Return the common loops of all accesses that the buffer may be moved into."""
    result: list[loop.ForOp] = []
    for level in zip(*paths, strict=False):
        first = level[0]
        if any(other is not first for other in level) or first.loop_kind in _NEVER_ENTERED:
            break
        result.append(first)
    return result


_NEVER_ENTERED = (loop.LoopKind.VECTORIZED,)


def _is_private(
    held: Sequence[loop.ForOp],
    buffer: SSAValue,
    touches: Sequence[Access],
    boxes: Sequence[Box],
) -> bool:
    """Whether each iteration of these nested loops reads only elements that it wrote itself."""
    if not touches[0].is_write:
        return False
    if any(_reduces_over(held, each) for each in touches):
        return False
    pairs = list(zip(touches, boxes, strict=True))
    written = _box_of_all([box for each, box in pairs if each.is_write], buffer)
    return all(covers(written, box, buffer) for each, box in pairs if not each.is_write)


def _reduces_over(held: Sequence[loop.ForOp], access: Access) -> bool:
    """Whether one of the loops carries the accumulator of a reduction."""
    block = loop.owning_block(access.op)
    if block is None or not block.is_reduction or not access.is_write:
        return False
    carried = {each.induction_variable for each in held}
    for kind, binding in zip(block.iter_kinds, block.bindings.data.results, strict=True):
        used = {block.operands[i] for i in used_dims(binding)}
        if kind is loop.IterKind.REDUCE and not used.isdisjoint(carried):
            return True
    return False


def _box_of_all(boxes: Sequence[Box], buffer: SSAValue, has_tails: bool = False) -> Box:
    """Return the bounding box of several boxes, clipped to the buffer unless it `has_tails`."""
    box = reduce(lambda a, b: union(a, b, buffer, clipped=False), boxes)
    if has_tails:
        return box
    pairs = zip(box.dims, whole_buffer(buffer).dims, strict=True)
    return Box(box.operands, tuple(w if dim.extent >= w.extent else dim for dim, w in pairs))


def _place(alloc: loop.AllocOp, before: Operation | None, rewriter: PatternRewriter) -> None:
    assert before is not None
    if before.parent is not alloc.parent:
        move_before([alloc], before)
        rewriter.notify_op_modified(alloc)


def _shrink(
    alloc: loop.AllocOp,
    touches: Sequence[Access],
    box: Box,
    known: Knowledge,
    rewriter: PatternRewriter,
) -> None:
    type_ = alloc.result.type
    assert isa(type_, MemRefType)
    pairs = zip(box.dims, whole_buffer(alloc.result).dims, strict=True)
    moved = [position for position, (dim, whole) in enumerate(pairs) if dim != whole]
    if not moved:
        return
    extents = [
        dim.extent if position in moved else extent
        for position, (dim, extent) in enumerate(zip(box.dims, extents_of(type_), strict=True))
    ]
    new_type = sized_memref(extents, type_.get_element_type(), type_.memory_space)
    # A tile that is both read and written has two accesses.
    for access in {(each.op, each.tile): each for each in touches}.values():
        _rebase(access, box, moved, known, rewriter)
    new = loop.AllocOp.create(
        result_types=[new_type], properties=alloc.properties, attributes=alloc.attributes
    )
    rewriter.replace(alloc, new)


def _rebase(
    access: Access,
    box: Box,
    moved: Sequence[int],
    known: Knowledge,
    rewriter: PatternRewriter,
) -> None:
    """Make an access relative to the box's corner."""
    op = access.op
    if isinstance(op, loop.LoadOp) and op.default is not None:
        _replace_default(op, moved, extents_of(access.buffer.type), rewriter)
    # Other tiles of an intrinsic may already be rebased.
    first = op.tiles[access.tile].first if isinstance(op, loop.IntrinOp) else op.map.data.results
    exprs, values = list(first), list(op.indices)
    for position in moved:
        base = box.dims[position].base
        visible = {p: _visible(box.operands[p], op, known) for p in sorted(used_dims(base))}
        dims = [visible.get(p, value) for p, value in enumerate(box.operands)]
        exprs[position] = exprs[position] - over(base, dims, values)
    map, values = known.simplify(exprs, values)
    if isinstance(op, loop.IntrinOp):
        op.set_tile(access.tile, map.results, values)
    else:
        set_access(op, map, values)


def _visible(value: SSAValue, op: Operation, known: Knowledge) -> SSAValue:
    """Return a loop variable as seen in the block around `op`: a block variable bound to it."""
    block = loop.owning_block(op)
    if block is None or value in block.iter_vars:
        return value
    operands = tuple(block.operands)
    for variable, binding in zip(block.iter_vars, block.bindings.data.results, strict=True):
        if isinstance(binding, AffineDimExpr) and operands[binding.position] is value:
            return variable
    extent = known.ranges[value][1] + 1
    variable = block.body.block.insert_arg(IndexType(), len(block.iter_vars))
    variable.name_hint = f"{value.name_hint or 'v'}_base"
    known.ranges[variable] = (0, extent - 1)
    merged, values = unique_operands(
        AffineMap(
            len(operands) + 1,
            0,
            (*block.bindings.data.results, AffineDimExpr(len(operands))),
        ),
        [*operands, value],
    )
    new_kinds = [*block.iter_kinds, loop.IterKind.SPATIAL]
    block.set_variables(new_kinds, [*block.live_domain, extent])
    block.rebind(merged.results, values)
    return variable


def _replace_default(
    op: loop.LoadOp, moved: Sequence[int], shape: Sequence[Extent], rewriter: PatternRewriter
) -> None:
    """Select the default explicitly, because the smaller buffer has other bounds.

    The box covers every index that the load may use, so the load itself is in bounds.
    """
    default = op.default
    assert default is not None
    new = inside_test(op, {position: shape[position] for position in moved})
    otherwise = arith.ConstantOp(default)
    choice = SelectOp(new[-1].results[0], op.result, otherwise.result)
    op.result.replace_all_uses_with(choice.result)
    choice.operands[1] = op.result
    rewriter.insert([*new, otherwise, choice], InsertPoint.after(op))
    if len(moved) == len(shape):
        op.default = None
