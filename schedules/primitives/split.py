"""split: split a loop into a nest of several loops."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from string import ascii_lowercase

from xdsl.ir import Block
from xdsl.ir.affine import AffineDimExpr, AffineExpr

from tcopt.dialects.loop import ForOp, LoopKind
from tcopt.schedules.dependences.order import check_blocks_only, check_repeatable
from tcopt.schedules.edits.nest import (
    add_guard,
    bound_blocks,
    move_ops,
    new_loop,
    overshoot_is_clipped,
    replace_variable,
)
from tcopt.schedules.state.failure import illegal
from tcopt.schedules.state.state import State, blocks_under, buffers_written, value_label

_LETTERS = {2: "oi", 3: "omi"}
"""Suffixes of the names of new loops: outer, middle, inner."""


def split(state: State, loop: ForOp, factors: Sequence[int | None]) -> list[ForOp]:
    """Split `loop` into one loop for each factor, the first one outermost.

        loop.for %j = 0 to 1000 {
          loop.block "b" (%vj: spatial 1000 = %j) {...}

    becomes, for the factors `[None, 16]`,

        loop.for %jo = 0 to 63 {
          loop.for %ji = 0 to 16 {
            loop.block "b" (%vj: spatial 1000 = %jo * 16 + %ji) {...}

    The factors need not divide the trip count: iterations past the end are outside the block's
    domain. If they are not, as in a split of a tile, the block gets a variable that excludes them.

    Args:
        loop: a serial loop.
        factors: extents of the new loops; one may be None, and is then inferred.
    Raises:
        ScheduleError: the loop is not serial, or the factors do not cover it; or code outside of
            blocks uses its variable, or would be executed more often.
    """
    if loop.loop_kind is not LoopKind.SERIAL:
        raise illegal("split", "loop", f"it is {loop.loop_kind.value}, not serial", op=loop)
    check_blocks_only("split", "loop", loop)
    extents = _extents(loop, factors)
    name = loop.induction_variable.name_hint
    letters = _LETTERS.get(len(extents), ascii_lowercase)
    loops = [new_loop(n, name and name + letters[i % 26], loop) for i, n in enumerate(extents)]
    variables = [new.induction_variable for new in loops]
    index: AffineExpr = AffineDimExpr(0)
    for position, extent in enumerate(extents[1:], start=1):
        index = index * extent + AffineDimExpr(position)
    padded = prod(extents)
    if padded > loop.trip_count:
        check_repeatable("split", "factors", loop)
    # The variable of a loop with one iteration is in no binding, but added iterations would run its
    # blocks again, as those of a loop whose iterations repeat the same work.
    is_bound = loop.trip_count > 1 and not _writes_shared(state, loop)
    blocks = bound_blocks(loop) if is_bound else list(blocks_under(loop))
    unclipped = (
        [b for b in blocks if not overshoot_is_clipped(b, loop, padded)]
        if padded > loop.trip_count
        else []
    )
    replace_variable(loop, index, variables)
    for block in unclipped:
        add_guard(block, index, variables, loop.trip_count)
    innermost: Block = loops[-1].body.block
    move_ops(loop.body.block, innermost)
    for outer, inner in pairwise(loops):
        outer.body.block.add_op(inner)
    loops[0].attributes.update(loop.attributes)
    parent = loop.parent_block()
    assert parent is not None
    parent.insert_op_before(loops[0], loop)
    loop.detach()
    loop.erase()
    state.gone[loop] = f"it was split into {', '.join(value_label(v) for v in variables)}"
    return loops


def _writes_shared(state: State, loop: ForOp) -> bool:
    """Whether a block inside writes a buffer that another run of the block may depend on."""
    shared = state.known.shared
    if not shared:
        return False
    return any(buffer in shared for op in blocks_under(loop) for buffer in buffers_written(op))


def _extents(loop: ForOp, factors: Sequence[int | None]) -> list[int]:
    known = [f for f in factors if f is not None]
    if len(factors) < 2:
        raise illegal("split", "factors", f"{list(factors)} makes no nest; give two or more")
    if len(factors) - len(known) > 1:
        raise illegal("split", "factors", f"{list(factors)} leaves more than one to be inferred")
    if any(f < 1 for f in known):
        raise illegal("split", "factors", f"{list(factors)} holds a factor below 1")
    product = prod(known)
    if len(known) == len(factors) and product < loop.trip_count:
        raise illegal(
            "split",
            "factors",
            f"their product {product} is less than the loop's {loop.trip_count} iterations",
            op=loop,
            hint="leave one factor to be inferred",
        )
    inferred = max(-(-loop.trip_count // product), 1)
    return [inferred if f is None else f for f in factors]
