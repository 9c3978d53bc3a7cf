"""compute_inline: recompute a producer at each read of its result."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, MemRefType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.hints import isa

from tcopt.dialects.arith_ import SelectOp
from tcopt.dialects.loop import BlockOp, LoadOp, StoreOp
from tcopt.dialects.loop.inside_tests import inside_test
from tcopt.dialects.size import extents_of
from tcopt.passes.loop.analysis.surroundings import knowledge_in
from tcopt.schedules.analysis.regions import reads_of, variables_of, writes_of
from tcopt.schedules.dependences.order import check_move, check_single
from tcopt.schedules.edits.bodies import IndexExpr, substitute_indices
from tcopt.schedules.edits.inlining import (
    check_body,
    check_temporary,
    erase,
    erase_alloc,
    pointwise_store,
    single_values,
)
from tcopt.schedules.edits.nest import check_visible, hoist_alloc
from tcopt.schedules.state.failure import illegal
from tcopt.schedules.state.state import (
    State,
    block_label,
    buffers_read,
    value_label,
    written_buffer,
)
from tcopt.support.ir.literals import number_attr

_NAME = "compute_inline"


def compute_inline(state: State, block: BlockOp) -> None:
    """Replace every read of a producer's result by its computation.

        loop.block "double" (%vi: spatial 64 = %i) {
          %a = loop.load %x[%vi] : memref<64xf32>
          %b = arith.addf %a, %a : f32
          loop.store %b, %t[%vi] : memref<64xf32>
        }
        ...
        loop.block "flip" (%vi: spatial 64 = %i) {
          %c = loop.load %t[63 - %vi] : memref<64xf32>
          loop.store %c, %y[%vi] : memref<64xf32>

    becomes

        loop.block "flip" (%vi: spatial 64 = %i) {
          %a = loop.load %x[63 - %vi] : memref<64xf32>
          %b = arith.addf %a, %a : f32
          loop.store %b, %y[%vi] : memref<64xf32>

    A read with a default becomes a select between the computed value and the default; the inlined
    loads get a default of 0 for indices out of bounds.

    Args:
        block: a block without a reduction, the only writer of a buffer of the function, whose store
            is indexed by its variables.
    Raises:
        ScheduleError: the block does not meet these conditions, or its result has no readers.
    """
    buffer = written_buffer(block, _NAME)
    check_temporary(state, buffer, block, _NAME)
    store = pointwise_store(state, block, buffer, _NAME)
    check_body(block, _NAME)
    check_single(state.known, _NAME, block, buffer)
    readers = [r for r in state.readers(buffer) if r is not block]
    if not readers:
        raise illegal(_NAME, "block", f"nothing reads {value_label(buffer)}", op=block)
    for reader in readers:
        _check_reader(block, reader, buffer)
        check_move(state.known, _NAME, block, reader, buffers_read(block))
        check_visible(_NAME, block, buffers_read(block), reader)
    variables = variables_of(writes_of(block, buffer)[0], block)
    dims = {block.iter_vars[p]: dim for p, (dim, _) in variables.items()}
    for reader in readers:
        for op in list(reader.body.walk()):
            if isinstance(op, LoadOp) and op.memref is buffer:
                _inline(op, block, store, dims)
    sources = buffers_read(block)
    state.remove_block(block, "it was inlined")
    erase_alloc(buffer)
    for source in sources:
        hoist_alloc(state, source)


def _check_reader(block: BlockOp, reader: BlockOp, buffer: SSAValue) -> None:
    for access in reads_of(reader, buffer):
        load = access.op
        if not isinstance(load, LoadOp) or load.lanes is not None:
            reason = (
                f"block {block_label(reader)} reads {value_label(buffer)} by a {access.op.name}"
            )
            raise illegal(_NAME, "block", reason, op=block)
        _check_written(block, reader, load)
        if _open_dims(load) and any(_may_trap(op) for op in block.body.block.ops):
            raise illegal(
                _NAME,
                "block",
                f"block {block_label(reader)} reads outside {value_label(buffer)}, where its "
                "integer division may fail",
                op=block,
            )


def _check_written(block: BlockOp, reader: BlockOp, load: LoadOp) -> None:
    """Check that a load reads elements that the block computes, or is out of bounds.

    Elements that are never written have any value, but computing them may access other buffers out
    of bounds.
    """
    shape, known = extents_of(load.memref.type), knowledge_in(load)
    (access,) = writes_of(block, load.memref)
    for position, (dim, _) in variables_of(access, block).items():
        extent = block.live_domain[position]
        inside = known.decide(load.map.data.results[dim], list(load.indices), extent)
        if extent != shape[dim] and inside is not True:
            label = value_label(load.memref)
            reason = (
                f"block {block_label(reader)} may read elements of {label} that it never writes"
            )
            raise illegal(_NAME, "block", reason, op=block)


def _may_trap(op: Operation) -> bool:
    return isinstance(op, arith.DivSIOp | arith.DivUIOp | arith.RemSIOp | arith.RemUIOp)


def _open_dims(load: LoadOp) -> list[int]:
    """Return the dimensions of a load with a default whose index may be out of bounds."""
    if load.default is None:
        return []
    known = knowledge_in(load)
    pairs = zip(load.map.data.results, extents_of(load.memref.type), strict=True)
    inside = [known.decide(expr, list(load.indices), extent) for expr, extent in pairs]
    return [dim for dim, holds in enumerate(inside) if holds is not True]


def _inline(load: LoadOp, block: BlockOp, store: StoreOp, dims: dict[SSAValue, int]) -> None:
    """Replace one load by the block's computation."""
    open_dims = _open_dims(load)
    indices = tuple(load.indices)
    replaced = single_values(block)
    replaced |= {v: IndexExpr(load.map.data.results[d], indices) for v, d in dims.items()}
    # The clone has separate variables, which are then replaced by the indices of the load.
    body = Block(arg_types=[IndexType()] * len(block.iter_vars))
    mapping: dict[SSAValue, SSAValue] = dict(zip(block.iter_vars, body.args, strict=True))
    for op in block.body.block.ops:
        if op is not store:
            body.add_op(op.clone(mapping))
    substitute_indices(body, {mapping[v]: e for v, e in replaced.items()})
    value = mapping.get(store.value, store.value)
    target = load.parent_block()
    assert target is not None
    for op in list(body.ops):
        op.detach()
        if open_dims and isinstance(op, LoadOp) and op.default is None:
            element = op.memref.type
            assert isa(element, MemRefType)
            op.properties["default"] = number_attr(0, element.get_element_type())
        target.insert_op_before(op, load)
    if open_dims:
        assert load.default is not None
        value = _choose(load, open_dims, value)
    load.result.replace_all_uses_with(value)
    erase(load)


def _choose(load: LoadOp, open_dims: list[int], value: SSAValue) -> SSAValue:
    """Return `value` if the load is in bounds in all of `open_dims`, and else its default."""
    assert load.default is not None
    extents = extents_of(load.memref.type)
    made = inside_test(load, {dim: extents[dim] for dim in open_dims})
    default = arith.ConstantOp(load.default)
    select = SelectOp(made[-1].results[0], value, default.result)
    block = load.parent_block()
    assert block is not None
    block.insert_ops_before([*made, default, select], load)
    return select.result
