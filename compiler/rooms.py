"""Rooms of donated inputs that grow: new rows are written after the past, which is not copied."""

from __future__ import annotations

from xdsl.dialects.builtin import FunctionType, ModuleOp, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.rewriter import Rewriter

from tcopt.dialects import graph
from tcopt.dialects.graph.core.donation import DONATED, names_in, pairs_of, set_rooms
from tcopt.dialects.graph.core.types import element_type, shape_of, tensor
from tcopt.dialects.size import symbols_in
from tcopt.support.arithmetic.sizes import is_fixed, symbols_of, upper_bound


def give_rooms(module: ModuleOp) -> None:
    """Let donated inputs to which their result appends have the extents of their room.

        func.func @main(%past: tensor<9x64xf32, #size.dims<n[0:9], 64>>, %new: tensor<1x64xf32>) {
          %present = graph.concat %past, %new {axis = 0}
          func.return %present : tensor<10x64xf32, #size.dims<n[0:9] + 1, 64>>
    ->
        func.func @main(%past: tensor<10x64xf32>, %new: tensor<1x64xf32>) {
          %places = graph.broadcast_to ...        // n
          %room = graph.scatter_elements %past, %places, %new {axis = 0}
          %present = graph.slice %room {starts = [0, 0]}
          func.return %room : tensor<10x64xf32>

    The result has the type of the input, and the scatter may overwrite it. Other readers of the
    result read a slice. `graph.rooms` has the extents of the tensors in the room.
    """
    main = next(op for op in module.ops if isinstance(op, FuncOp) and op.sym_name.data == "main")
    block = main.body.block
    last = block.last_op
    assert isinstance(last, ReturnOp)
    inputs, outputs = names_in(module, "graph.inputs"), names_in(module, "graph.outputs")
    extents: dict[str, tuple[int, ...]] = {}
    for name, result in pairs_of(module, DONATED).items():
        past, number = block.args[inputs.index(name)], outputs.index(result)
        append = last.arguments[number].owner
        if not isinstance(append, graph.ConcatOp) or not _grows(past, append):
            continue
        extents |= {name: shape_of(past), result: shape_of(append.result)}
        last.operands[number] = _write_in_room(past, append)
    set_rooms(module, extents)
    main.function_type = FunctionType.from_lists(
        list(block.arg_types), [value.type for value in last.arguments]
    )


def _grows(past: BlockArgument, append: graph.ConcatOp) -> bool:
    """Whether a concatenation appends to an argument that nothing else reads, and whose extent
    follows from the inputs."""
    axis = append.axis.value.data
    (use, *others) = past.uses or (None,)
    if use is None or others or use.operation is not append or use.index or len(append.inputs) < 2:
        return False
    known = symbols_in(past.block.arg_types)
    total = shape_of(append.result)[axis]
    return not is_fixed(shape_of(past)[axis : axis + 1]) and set(symbols_of(total)) <= set(known)


def _write_in_room(past: SSAValue, append: graph.ConcatOp) -> SSAValue:
    """Replace a concatenation by a scatter into the room of its first operand; return the room."""
    axis, whole = append.axis.value.data, shape_of(append.result)
    block = append.parent_block()
    assert block is not None
    start = shape_of(past)[axis]
    room = (*whole[:axis], upper_bound(whole[axis]), *whole[axis + 1 :])
    past = Rewriter.replace_value_with_new_type(past, tensor(room, element_type(past)))

    def insert(op: Operation) -> SSAValue:
        op.location = append.location
        block.insert_op_before(op, append)
        return op.results[0]

    new = append.inputs[1]
    if len(append.inputs) > 2:
        new = insert(graph.ConcatOp(append.inputs[1:], axis=axis))
    count = shape_of(new)[axis]
    lead = [1] * len(whole)
    lead[axis] = count
    steps = insert(graph.ReshapeOp(insert(graph.IotaOp((count,), i64)), lead))
    places = insert(graph.AddOp(steps, insert(graph.SizesOp((1,), [start], i64))))
    places = insert(graph.BroadcastToOp(places, shape_of(new)))
    written = insert(graph.ScatterElementsOp(past, places, new, axis=axis))
    part = insert(graph.SliceOp(written, [0] * len(whole), whole))
    part.name_hint, written.name_hint = append.result.name_hint, append.result.name_hint
    append.result.replace_all_uses_with(part)
    append.detach()
    append.erase()
    return written
