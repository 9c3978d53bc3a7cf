"""Common parts of the two inlining primitives."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr

from tcopt.dialects.loop import BlockOp, LoadOp, StoreOp
from tcopt.schedules.analysis.regions import variables_of, writes_of
from tcopt.schedules.edits.bodies import IndexExpr
from tcopt.schedules.state.failure import illegal
from tcopt.schedules.state.state import State, alloc_of, block_label, value_label


def pointwise_store(state: State, block: BlockOp, buffer: SSAValue, primitive: str) -> StoreOp:
    """Return the only store of a block that computes `buffer` element by element.

    Raises:
        ScheduleError: the block reduces, stores more than once, or its store is not indexed by its
            variables.
    """
    label = block_label(block)
    if block.is_reduction:
        raise illegal(primitive, "block", f"block {label} is a reduction", op=block)
    stores = [op for op in block.body.block.ops if isinstance(op, StoreOp)]
    if len(stores) != 1 or len(state.writers(buffer)) != 1 or len(writes_of(block, buffer)) != 1:
        reason = f"{value_label(buffer)} is not written by one store of block {label}"
        raise illegal(primitive, "block", reason, op=block)
    access = writes_of(block, buffer)[0]
    variables = variables_of(access, block)
    if not moving_variables(block) <= variables.keys() or any(
        offset for _, offset in variables.values()
    ):
        reason = f"the indices of its store into {value_label(buffer)} are not its variables"
        raise illegal(primitive, "block", reason, op=block)
    return stores[0]


def moving_variables(block: BlockOp) -> set[int]:
    """Positions of the variables that a body uses and that have more than one value."""
    pairs = enumerate(zip(block.iter_vars, block.domain, strict=True))
    return {p for p, (v, extent) in pairs if v.first_use is not None and extent > 1}


def single_values(block: BlockOp) -> dict[SSAValue, IndexExpr]:
    """The index 0 for each variable that has no other value."""
    zero = IndexExpr(AffineConstantExpr(0), ())
    pairs = zip(block.iter_vars, block.domain, strict=True)
    return {v: zero for v, extent in pairs if extent == 1}


def check_temporary(state: State, buffer: SSAValue, block: BlockOp, primitive: str) -> None:
    """Raise ScheduleError if `buffer` is an argument of the function."""
    if alloc_of(buffer) is None:
        reason = f"{value_label(buffer)} is an argument of the function and must be written"
        raise illegal(primitive, "block", reason, op=block)


def check_body(block: BlockOp, primitive: str) -> None:
    """Raise ScheduleError unless the body is straight-line scalar code."""
    for op in block.body.block.ops:
        vector = isinstance(op, LoadOp | StoreOp) and op.lanes is not None
        if op.regions or vector:
            raise illegal(primitive, "block", f"its body holds a {op.name}", op=block)


def erase_alloc(buffer: SSAValue) -> None:
    """Erase the allocation of a buffer that has no uses left."""
    alloc = alloc_of(buffer)
    if alloc is not None and buffer.first_use is None:
        erase(alloc)


def erase(op: Operation) -> None:
    """Detach an op from its block and erase it."""
    op.detach()
    op.erase()
