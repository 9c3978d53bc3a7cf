"""The loop function under schedule, and queries of primitives about it.

Only block names are cached. Readers and writers of a buffer are found through the uses of its
value, enclosing loops through parents, so the cost of a primitive depends only on the part of the
function that it edits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from xdsl.ir import Block, Operation, SSAValue

from tcopt.dialects.loop import (
    AllocOp,
    BlockOp,
    ForOp,
    FuncOp,
    IntrinOp,
    LoadOp,
    StoreOp,
    enclosing_loops,
    owning_block,
    path_to,
)
from tcopt.schedules.state.failure import illegal
from tcopt.support.errors import ScheduleError

if TYPE_CHECKING:
    from tcopt.schedules.dependences.order import Dependences


class State:
    """A `loop.func` being scheduled.

    Attributes:
        func: the function, edited in place.
        blocks: its blocks by name.
        gone: loops and blocks that a primitive removed, with the reason.
        known: dependences between accesses to its buffers.
    """

    def __init__(self, func: FuncOp, known: Dependences):
        self.func = func
        self.known = known
        self.blocks: dict[str, BlockOp] = {b.block_name.data: b for b in blocks_under(func)}
        self.gone: dict[Operation | str, str] = {}

    def block(self, name: str) -> BlockOp:
        """Return the block of the given name.

        Raises:
            ScheduleError: there is no such block, or it was removed.
        """
        if (block := self.blocks.get(name)) is not None:
            return block
        if (reason := self.gone.get(name)) is not None:
            raise ScheduleError(f'block "{name}" is gone: {reason}')
        known = ", ".join(f'"{b.block_name.data}"' for b in blocks_under(self.func))
        raise ScheduleError(f'there is no block "{name}"', op=self.func, hint=f"there are {known}")

    def add_block(self, block: BlockOp) -> None:
        """Register a new block."""
        self.blocks[block.block_name.data] = block

    def remove_block(self, block: BlockOp, reason: str) -> None:
        """Erase a block and the loops that become empty."""
        name = block.block_name.data
        del self.blocks[name]
        self.gone[name] = reason
        parent = block.parent_op()
        block.detach()
        block.erase()
        self.prune(parent, reason)

    def prune(self, op: Operation | None, reason: str) -> None:
        """Erase `op` and enclosing loops as long as they contain nothing but unused buffers."""
        while isinstance(op, ForOp) and all(
            isinstance(child, AllocOp) and child.result.first_use is None
            for child in op.body.block.ops
        ):
            self.gone[op] = reason
            parent = op.parent_op()
            op.detach()
            op.erase()
            op = parent

    def fresh_name(self, base: str) -> str:
        """Return `base`, or `base_1`, ... if a block of that name exists or existed."""
        name, count = base, 0
        while name in self.blocks or name in self.gone:
            count += 1
            name = f"{base}_{count}"
        return name

    def readers(self, buffer: SSAValue) -> list[BlockOp]:
        """Return the blocks that read `buffer`, in no particular order."""
        return _owners(buffer, (LoadOp, IntrinOp))

    def writers(self, buffer: SSAValue) -> list[BlockOp]:
        """Return the blocks that write `buffer`, in no particular order."""
        return _owners(buffer, (StoreOp, IntrinOp))


def _owners(buffer: SSAValue, kinds: tuple[type[Operation], ...]) -> list[BlockOp]:
    found: dict[BlockOp, None] = {}
    for use in buffer.uses:
        op = use.operation
        if not isinstance(op, kinds):
            continue
        # The operands of an intrinsic are its outputs, its inputs, and then the indices.
        if isinstance(op, IntrinOp):
            is_output = use.index < len(op.outputs)
            if not is_output if kinds[0] is StoreOp else is_output and not op.reads_outputs:
                continue
        if (block := owning_block(op)) is not None:
            found[block] = None
    return list(found)


def blocks_under(op: Operation) -> Iterator[BlockOp]:
    """Yield the blocks at or below a function or loop, in program order."""
    if isinstance(op, BlockOp):
        yield op
    elif isinstance(op, ForOp | FuncOp):
        for child in op.body.block.ops:
            yield from blocks_under(child)


def loops_of(op: Operation) -> list[ForOp]:
    """Return the loops around `op`, outermost first."""
    return list(enclosing_loops(op))[::-1]


def buffers_read(block: BlockOp) -> list[SSAValue]:
    """Return the buffers that `block` reads, in the order of their first load."""
    found: dict[SSAValue, None] = {}
    for op in block.body.walk():
        match op:
            case LoadOp():
                found[op.memref] = None
            case IntrinOp():
                outputs = op.outputs if op.reads_outputs else ()
                found.update(dict.fromkeys((*outputs, *op.inputs)))
            case _:
                pass
    return list(found)


def buffers_written(block: BlockOp) -> list[SSAValue]:
    """Return the buffers that `block` writes, in the order of their first store."""
    found: dict[SSAValue, None] = {}
    for op in block.body.walk():
        match op:
            case StoreOp():
                found[op.memref] = None
            case IntrinOp():
                found.update(dict.fromkeys(op.outputs))
            case _:
                pass
    return list(found)


def written_buffer(block: BlockOp, primitive: str) -> SSAValue:
    """Return the only buffer that `block` writes.

    Raises:
        ScheduleError: the block writes no buffer, or several.
    """
    buffers = buffers_written(block)
    if len(buffers) != 1:
        raise illegal(
            primitive, "block", f"it writes {len(buffers)} buffers instead of one", op=block
        )
    return buffers[0]


def alloc_of(buffer: SSAValue) -> AllocOp | None:
    """Return the allocation of `buffer`; None for an argument of the function."""
    return buffer.owner if isinstance(buffer.owner, AllocOp) else None


def is_inside(buffer: SSAValue, loop: ForOp) -> bool:
    """Whether `buffer` is allocated inside `loop`, so that each iteration has its own."""
    alloc = alloc_of(buffer)
    return alloc is not None and loop.is_ancestor(alloc)


def precedes(first: Operation, second: Operation) -> bool:
    """Whether `first` precedes `second` in program order."""
    for a, b in zip(path_to(first), path_to(second), strict=False):
        if a is not b:
            return a.is_before_in_block(b)
    return False


def common_block(ops: Iterable[Operation], func: FuncOp) -> Block:
    """Return the innermost loop body, or the function body, that contains all of `ops`."""
    chains = [path_to(op)[:-1] for op in ops]
    body = func.body.block
    for level in zip(*chains, strict=False):
        if any(op is not level[0] for op in level) or not isinstance(level[0], ForOp):
            break
        body = level[0].body.block
    return body


def meeting_block(block: Operation, others: Iterable[Operation], func: FuncOp) -> Block:
    """Return the innermost body that contains `block` and at least one of `others`.

    This is the function body if there are no others.
    """
    shared = [common_block([block, other], func) for other in others]
    return max(shared, key=_depth, default=func.body.block)


def _depth(body: Block) -> int:
    parent = body.parent_op()
    return 0 if parent is None else len(path_to(parent))


def ancestor_in(block: Block, op: Operation) -> Operation:
    """Return the op of `block` that is or contains `op`."""
    found = block.find_ancestor_op_in_block(op)
    assert found is not None
    return found


def block_label(block: BlockOp) -> str:
    """Return the block's name in quotes, for messages."""
    return f'"{block.block_name.data}"'


def value_label(value: SSAValue) -> str:
    """Return `%name` of a value, for messages."""
    return f"%{value.name_hint or 'unnamed'}"
