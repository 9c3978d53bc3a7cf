"""reverse_compute_inline: append a consumer to its producer."""

from __future__ import annotations

from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, SSAValue

from tcopt.dialects.loop import BlockOp, LoadOp, StoreOp
from tcopt.dialects.size import extents_of
from tcopt.schedules.analysis.regions import reads_of, variables_of
from tcopt.schedules.dependences.order import check_move, check_single
from tcopt.schedules.edits.bodies import IndexExpr, substitute_indices
from tcopt.schedules.edits.inlining import (
    check_body,
    check_temporary,
    erase,
    erase_alloc,
    moving_variables,
    pointwise_store,
    single_values,
)
from tcopt.schedules.edits.nest import hoist_alloc
from tcopt.schedules.state.failure import illegal
from tcopt.schedules.state.state import (
    State,
    alloc_of,
    block_label,
    buffers_read,
    precedes,
    value_label,
    written_buffer,
)

_NAME = "reverse_compute_inline"


def reverse_compute_inline(state: State, block: BlockOp) -> None:
    """Replace a producer's store by the computation of its consumer.

        loop.block "add" (%vi: spatial 64 = %i) {
          ...
          loop.store %s, %t[%vi] : memref<64xf32>
        }
        ...
        loop.block "relu" (%vi: spatial 64 = %i) {
          %a = loop.load %t[%vi] : memref<64xf32>
          %r = arith.maximumf %a, %zero : f32
          loop.store %r, %y[%vi] : memref<64xf32>

    becomes

        loop.block "add" (%vi: spatial 64 = %i) {
          ...
          %r = arith.maximumf %s, %zero : f32
          loop.store %r, %y[%vi] : memref<64xf32>

    Args:
        block: a block without a reduction, the only reader of a buffer of the function, indexed by
            its own variables; it reads each element once.
    Raises:
        ScheduleError: the block does not meet these conditions; its producer reduces, or there are
            several producers; or another input is not ready when the producer runs.
    """
    target = written_buffer(block, _NAME)
    if block.is_reduction:
        raise illegal(_NAME, "block", f"block {block_label(block)} is a reduction", op=block)
    check_body(block, _NAME)
    buffer, producer = _producer(state, block)
    check_temporary(state, buffer, block, _NAME)
    store = pointwise_store(state, producer, buffer, _NAME)
    check_single(state.known, _NAME, block, target)
    check_single(state.known, _NAME, producer, buffer)
    check_move(state.known, _NAME, block, producer, buffers_read(block))
    dims = _dims(block, buffer)
    for other in buffers_read(block):
        for writer in state.writers(other):
            if other is not buffer and not precedes(writer, producer):
                raise illegal(
                    _NAME,
                    "block",
                    f"its input {value_label(other)} is written by {block_label(writer)}, "
                    f"after {block_label(producer)}",
                    op=block,
                )
    _append(block, buffer, store, dims)
    state.remove_block(block, f"it was inlined into {block_label(producer)}")
    erase_alloc(buffer)
    hoist_alloc(state, target)


def _producer(state: State, block: BlockOp) -> tuple[SSAValue, BlockOp]:
    """Return the only buffer that another block writes for this block alone, and that block."""
    for buffer in buffers_read(block):
        writers = state.writers(buffer)
        others = [r for r in state.readers(buffer) if r is not block]
        if len(writers) != 1 or writers[0] is block or others or alloc_of(buffer) is None:
            continue
        if _is_elementwise(block, buffer) and not writers[0].is_reduction:
            return buffer, writers[0]
    raise illegal(
        _NAME,
        "block",
        "there is no input that one block without a reduction writes for it alone, and that it "
        "reads at its own variables",
        op=block,
    )


def _is_elementwise(block: BlockOp, buffer: SSAValue) -> bool:
    """Whether each iteration of the block reads exactly one, different element of `buffer`."""
    used = moving_variables(block)
    shape = extents_of(buffer.type)
    for access in reads_of(block, buffer):
        variables = variables_of(access, block)
        if not used <= variables.keys() or not isinstance(access.op, LoadOp):
            return False
        dims = {dim: p for p, (dim, offset) in variables.items() if offset == 0}
        if any(
            extent != 1 and (d not in dims or block.live_domain[dims[d]] != extent)
            for d, extent in enumerate(shape)
        ):
            return False
    return True


def _dims(block: BlockOp, buffer: SSAValue) -> dict[SSAValue, int]:
    """Return the dimension of `buffer` that each variable of the block indexes."""
    found = [variables_of(access, block) for access in reads_of(block, buffer)]
    dims = [{p: dim for p, (dim, _) in each.items()} for each in found]
    if any(each != dims[0] for each in dims):
        raise illegal(_NAME, "block", f"it reads {value_label(buffer)} in two ways", op=block)
    return {block.iter_vars[p]: dim for p, dim in dims[0].items()}


def _append(block: BlockOp, buffer: SSAValue, store: StoreOp, dims: dict[SSAValue, int]) -> None:
    """Replace the store by the block's computation on the stored value."""
    body = Block(arg_types=[IndexType()] * len(block.iter_vars))
    mapping: dict[SSAValue, SSAValue] = dict(zip(block.iter_vars, body.args, strict=True))
    for op in block.body.block.ops:
        if isinstance(op, LoadOp) and op.memref is buffer:
            mapping[op.result] = store.value
        else:
            body.add_op(op.clone(mapping))
    indices = tuple(store.indices)
    at = single_values(block)
    at |= {v: IndexExpr(store.map.data.results[d], indices) for v, d in dims.items()}
    replaced = {mapping[v]: each for v, each in at.items()}
    substitute_indices(body, replaced)
    target = store.parent_block()
    assert target is not None
    for op in list(body.ops):
        op.detach()
        target.insert_op_before(op, store)
    erase(store)
