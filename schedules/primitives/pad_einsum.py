"""pad_einsum: pad a contraction to whole tiles."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, i64

from tcopt.dialects.loop import AllocOp, BlockOp, ForOp, LoadOp, LoopKind, StoreOp
from tcopt.dialects.loop.analysis import binding_values, buffer_shape
from tcopt.dialects.size import extents_of
from tcopt.schedules.analysis.patterns import BlockPattern, StridedAccess, match_block
from tcopt.schedules.analysis.regions import reads_of, variable_at, variables_of, writes_of
from tcopt.schedules.dependences.order import check_single
from tcopt.schedules.edits.buffers import with_shape
from tcopt.schedules.edits.inlining import check_body
from tcopt.schedules.edits.nest import bound_blocks
from tcopt.schedules.state.failure import illegal
from tcopt.schedules.state.state import State, alloc_of, block_label, loops_of, value_label
from tcopt.support.arithmetic.affine import bounds
from tcopt.support.arithmetic.sizes import upper_bound
from tcopt.support.ir.literals import number_attr

_NAME = "pad_einsum"


def pad_einsum(state: State, block: BlockOp, multiples: Sequence[int]) -> None:
    """Round the extents of a contraction up to multiples, so that tiles divide them.

        loop.block "a_shared" (%vi: spatial 20 = %i, %vk: spatial 30 = %k) {
          %0 = loop.load %a[%vi, %vk] : memref<20x30xf16>
          loop.store %0, %a_shared[%vi, %vk] : memref<20x30xf16>
        ...
        loop.block "y" (%vi: spatial 20 = %i, %vj: spatial 24 = %j, %vk: reduce 30 = %k) {
          ... %y[%vi, %vj] + %a_shared[%vi, %vk] * %b_shared[%vk, %vj]

    becomes, for `pad_einsum(y, [16, 8, 16])`,

        loop.block "a_shared" (%vi: spatial 20 = %i, %vk: spatial 32 = %k) {
          %0 = loop.load %a[%vi, %vk] else 0.0 : memref<20x30xf16>
          loop.store %0, %a_shared[%vi, %vk] : memref<32x32xf16>
        ...
        loop.block "y" (%vi: spatial 32 = %i, %vj: spatial 24 = %j, %vk: reduce 32 = %k) {
          ...

    Both factors are 0 beyond the end of a reduction. Other points outside of the old extents
    compute arbitrary results, which nothing reads. A spatial extent that is a size is rounded up
    from its upper bound.

    Args:
        block: a contraction of two operands that is not tiled yet. It writes a buffer allocated by
            the function; each operand is also such a buffer, copied for this block alone.
        multiples: one for each of the block's variables.
    Raises:
        ScheduleError: a buffer has other uses, or an operand would not be 0 where it must be.
    """
    pattern = match_block(block)
    if pattern is None or not pattern.is_contraction or block.init is None:
        raise illegal(_NAME, "block", "it is not a contraction with a loop.init", op=block)
    if len(multiples) != len(pattern.extents) or any(each < 1 for each in multiples):
        reason = f"{list(multiples)} are not {len(pattern.extents)} positive numbers"
        raise illegal(_NAME, "multiples", reason, op=block)
    padded = [ceil(n / m) * m for n, m in zip(pattern.extents, multiples, strict=True)]
    live = block.live_domain
    # Whole tiles up to the upper bound; those beyond a size are outside of the grid.
    grown = [p for p, n in enumerate(live) if multiples[p] > 1 and padded[p] != n]
    if not grown:
        return
    for position in grown:
        if position in pattern.reduce and not isinstance(live[position], int):
            reason = f"{value_label(block.iter_vars[position])} runs over a size"
            raise illegal(_NAME, "block", reason, op=block)
    loops = {position: _own_loop(block, position) for position in grown}
    output = _output(state, pattern, grown)
    reduced = [position for position in grown if position in pattern.reduce]
    copies = [_Copy(state, block, term, reduced) for term in pattern.terms]
    for copy in copies:
        copy.grow(padded)
    extents = list(block.live_domain)
    for position in grown:
        extents[position] = padded[position]
    block.set_variables(block.iter_kinds, extents)
    for position, loop in loops.items():
        loop.extent = IntegerAttr(padded[position], i64)
    shape = list(extents_of(output.result.type))
    for position, (dim, _) in variables_of(writes_of(block, output.result)[0], block).items():
        if position in grown:
            shape[dim] = max(upper_bound(shape[dim]), padded[position])
    with_shape(output, shape)


def _own_loop(block: BlockOp, position: int) -> ForOp:
    """Return the loop that moves only one variable of the block."""
    variable = value_label(block.iter_vars[position])
    values = binding_values(block, position)
    loop = next((each for each in loops_of(block) if each.induction_variable in values), None)
    if (
        len(values) != 1
        or loop is None
        or loop.loop_kind is not LoopKind.SERIAL
        or loop.trip_count != block.domain[position]
        or bound_blocks(loop) != [block]
        or sum(loop.induction_variable in binding_values(block, p) for p in _positions(block)) != 1
    ):
        reason = f"{variable} has no loop of its own"
        hint = "pad_einsum comes before split and fuse"
        raise illegal(_NAME, "block", reason, op=block, hint=hint)
    return loop


def _positions(block: BlockOp) -> range:
    return range(len(block.iter_vars))


def _output(state: State, pattern: BlockPattern, grown: Sequence[int]) -> AllocOp:
    """Return the buffer of sums, after checking that it is indexed by the padded variables."""
    block, buffer = pattern.block, pattern.store.buffer
    alloc = alloc_of(buffer)
    if alloc is None or state.writers(buffer) != [block]:
        reason = f"{value_label(buffer)} is not an allocated buffer that only it writes"
        hint = "cache_write gives it a buffer of its own"
        raise illegal(_NAME, "block", reason, op=block, hint=hint)
    known = variables_of(writes_of(block, buffer)[0], block)
    check_single(state.known, _NAME, block, buffer)
    for reader in state.readers(buffer):
        loads = [op for op in reader.body.walk() if isinstance(op, LoadOp)]
        if any(op.memref is buffer and op.default is not None for op in loads):
            reason = f"block {block_label(reader)} reads beyond the end of {value_label(buffer)}"
            raise illegal(_NAME, "block", reason, op=block)
    for position in grown:
        if position in pattern.spatial and (position not in known or known[position][1]):
            variable = value_label(block.iter_vars[position])
            reason = f"{variable} is not an index of {value_label(buffer)}"
            raise illegal(_NAME, "block", reason, op=block)
    return alloc


class _Copy:
    """An operand, and the block that copies it.

    Args:
        reduced: padded reduce variables of the contraction.

    Attributes:
        places: variable of the copy, by the padded reduce variable that indexes the same dimension.
    """

    def __init__(self, state: State, block: BlockOp, term: StridedAccess, reduced: Sequence[int]):
        self.block, self.buffer, self.op = block, term.buffer, term.op
        label = value_label(self.buffer)
        alloc, writers = alloc_of(self.buffer), state.writers(self.buffer)
        if alloc is None or len(writers) != 1 or state.readers(self.buffer) != [block]:
            reason, hint = f"{label} is not copied for it alone", "cache_read makes a copy"
            raise illegal(_NAME, "block", reason, op=block, hint=hint)
        if any(value not in block.iter_vars for value in self.op.indices):
            raise illegal(_NAME, "block", f"an index of {label} is computed", op=block)
        self.alloc, self.writer = alloc, writers[0]
        check_single(state.known, _NAME, self.writer, self.buffer)
        check_body(self.writer, _NAME)
        stores = [op for op in self.writer.body.block.ops if isinstance(op, StoreOp)]
        moving = {p for p, n in enumerate(self.writer.domain) if n > 1}
        if len(stores) != 1 or self.writer.is_reduction or not moving <= self._written().keys():
            reason = f"{label} is not copied element by element"
            raise illegal(_NAME, "block", reason, op=block)
        self.store = stores[0]
        self.places: dict[int, int] = {}
        for position in reduced:
            place = self._variable_along(position)
            if place is None or not self._is_zero_beyond(place):
                variable = value_label(block.iter_vars[position])
                reason = f"{label} may not be 0 beyond the end of {variable}"
                raise illegal(_NAME, "block", reason, op=block)
            self.places[position] = place

    def _written(self) -> dict[int, tuple[int, int]]:
        return variables_of(writes_of(self.writer, self.buffer)[0], self.writer)

    def _variable_along(self, position: int) -> int | None:
        """Return the copy's variable for the dimension that a variable of the block indexes."""
        extent = self.block.domain[position]
        (access,) = reads_of(self.block, self.buffer)
        for dim, size in enumerate(buffer_shape(self.buffer)):
            if variable_at(access, dim, self.block) == (position, 0) and size == extent:
                for place, at in self._written().items():
                    if at == (dim, 0) and self.writer.domain[place] == extent:
                        return place
        return None

    def _is_zero_beyond(self, place: int) -> bool:
        """Whether the source of the copy is out of bounds beyond a variable's end."""
        value = self.store.value
        while isinstance(value.owner, arith.ExtFOp | arith.TruncFOp):
            value = value.owner.operands[0]
        load = value.owner
        if not isinstance(load, LoadOp) or load.mask is not None:
            return False
        if load.default is not None and load.default.value.data != 0:
            return False
        (access,) = (a for a in reads_of(self.writer, load.memref) if a.op is load)
        extent = self.writer.domain[place]
        for dim, size in enumerate(buffer_shape(load.memref)):
            found = variable_at(access, dim, self.writer)
            if found is not None and found[0] == place and extent + found[1] >= size:
                return True
        return False

    def grow(self, padded: Sequence[int]) -> None:
        """Enlarge the buffer for the new extents, and copy zeros beyond the end of reductions."""
        domain = list(self.writer.live_domain)
        for position, place in self.places.items():
            loop = _own_loop(self.writer, place)
            domain[place] = padded[position]
            loop.extent = IntegerAttr(padded[position], i64)
        if self.places:
            self.writer.set_variables(self.writer.iter_kinds, domain)
            for op in self.writer.body.block.ops:
                if isinstance(op, LoadOp) and op.default is None:
                    op.default = number_attr(0, op.result.type)
        ranges = [(0, padded[self.block.iter_vars.index(v)] - 1) for v in self.op.indices]
        reach = [bounds(expr, ranges)[1] + 1 for expr in self.op.map.data.results]
        shape = extents_of(self.buffer.type)
        with_shape(
            self.alloc,
            [max(upper_bound(old), n) for n, old in zip(reach, shape, strict=True)],
        )
