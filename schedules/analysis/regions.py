"""Relations between a block's iteration variables and the parts of a buffer that it accesses."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import reduce

from xdsl.ir import Operation, SSAValue

from tcopt.dialects.loop import BlockOp, ForOp, is_in_block
from tcopt.dialects.loop.analysis import Access, Box, access_box, accesses, union, value_ranges
from tcopt.schedules.state.state import alloc_of, loops_of
from tcopt.support.arithmetic.affine import Dim, linear_sum


def reads_of(block: BlockOp, buffer: SSAValue) -> list[Access]:
    """Return the block's reads of `buffer`."""
    return [a for a in accesses(block) if a.buffer is buffer and not a.is_write]


def writes_of(block: BlockOp, buffer: SSAValue) -> list[Access]:
    """Return the block's writes of `buffer`."""
    return [a for a in accesses(block) if a.buffer is buffer and a.is_write]


def variable_at(access: Access, dim: int, block: BlockOp) -> tuple[int, int] | None:
    """Return `(position, offset)` if index `dim` is a variable of `block` plus a constant."""
    total = linear_sum(access.indices[dim], value_ranges(access.operands))
    match total.terms:
        case ((Dim(position=operand), 1),) if access.operands[operand] in block.iter_vars:
            return block.iter_vars.index(access.operands[operand]), total.constant
        case _:
            return None


def variables_of(access: Access, block: BlockOp) -> dict[int, tuple[int, int]]:
    """Return `{position: (dim, offset)}` of variables that alone index a dimension of `access`."""
    found: dict[int, tuple[int, int]] = {}
    for dim in range(len(access.indices)):
        if (variable := variable_at(access, dim, block)) is not None:
            found.setdefault(variable[0], (dim, variable[1]))
    return found


def box_under(
    items: Sequence[tuple[Access, Operation]], buffer: SSAValue, running: Collection[ForOp] = ()
) -> Box:
    """Return one box over several accesses, each during one execution of the op paired with it.

    Args:
        running: see `access_box`.
    """
    boxes = (access_box(a, root, running) for a, root in items)
    return reduce(lambda a, b: union(a, b, buffer), boxes)


def sharing_loops(buffer: SSAValue, loop: ForOp) -> list[ForOp]:
    """Return the loops at and around `loop` whose concurrent iterations share `buffer`.

    For shared memory, these are the loops over the threads of a thread block.
    """
    alloc = alloc_of(buffer)
    if alloc is None or not alloc.scope.data.is_shared:
        return []
    return [each for each in (*loops_of(loop), loop) if is_in_block(each)]
