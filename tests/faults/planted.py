"""The planted faults: the edits, and the passes after which they are made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, MemRefType, ModuleOp, i64
from xdsl.ir import Operation
from xdsl.rewriter import Rewriter

from faults import edits
from faults.edits import Edit
from tcopt.dialects import loop

USER_PASSES = Path(__file__).parent / "user_passes.py"


@dataclass(frozen=True)
class Fault:
    """A fault planted after a pass.

    Attributes:
        title: description of the fault.
        level: level of the pass's output IR.
        behind: the pass whose output is edited; for a user's pass, the one before it.
        edit: the change; None if the user's pass is faulty.
        user: the user's pass, if any.
        network: the network that it is planted into.
    """

    title: str
    level: str
    behind: str
    edit: Edit | None = None
    user: str = ""
    network: str = "small"

    @property
    def culprit(self) -> str:
        """The name of the pass that the check must report."""
        return self.user or self.behind


def _scale_allocs(module: ModuleOp, name: str, number: int, dim: int, by: int) -> None:
    alloc = edits.find(module, name, number)
    assert isinstance(alloc, loop.AllocOp)
    type_ = alloc.result.type
    shape = list(type_.get_shape())
    shape[dim] += by
    Rewriter.replace_value_with_new_type(alloc.result, MemRefType(type_.get_element_type(), shape))


def _smaller_alloc(number: int, dim: int) -> Edit:
    return lambda module: _scale_allocs(module, "loop.alloc", number, dim, -1)


def _parallel_reduction(module: ModuleOp) -> None:
    """Make a serial loop that binds a reduce variable parallel."""
    for op in module.walk():
        if not isinstance(op, loop.BlockOp) or not op.is_reduction:
            continue
        kinds = zip(op.bindings.data.results, op.iter_kinds, strict=True)
        used = {
            dim for expr, kind in kinds if kind is loop.IterKind.REDUCE for dim in expr.used_dims()
        }
        for dim in used:
            parent = loop.loop_of(op.operands[dim])
            if parent is not None and parent.trip_count > 1:
                parent.properties["kind"] = loop.LoopKindAttr(loop.LoopKind.PARALLEL)
                return
    raise LookupError("no loop of a reduction")


def _hoist_alloc(module: ModuleOp) -> None:
    """Share a buffer of each parallel iteration among all."""
    for op in module.walk():
        if isinstance(op, loop.ForOp) and op.loop_kind is loop.LoopKind.PARALLEL:
            for alloc in op.body.block.ops:
                if isinstance(alloc, loop.AllocOp):
                    alloc.detach()
                    block = op.parent
                    assert block is not None
                    block.insert_op_before(alloc, op)
                    return
    raise LookupError("no buffer in a parallel loop")


def _trip(change: int, kind: loop.LoopKind, number: int = 0) -> Edit:
    def edit(module: ModuleOp) -> None:
        loops = [
            op
            for op in module.walk()
            if isinstance(op, loop.ForOp) and op.loop_kind is kind and op.trip_count > 1
        ]
        op = loops[number]
        op.properties["extent"] = IntegerAttr(op.trip_count + change, i64)

    return edit


def _drop_half(name: str) -> Edit:
    """Remove the last op of a body of several ops, if it stores."""

    def edit(module: ModuleOp) -> None:
        stores = [op for op in module.walk() if op.name == name]
        Rewriter.erase_op(stores[-1])

    return edit


def _lanes(module: ModuleOp) -> None:
    """Give a vector store a step of two."""
    for op in module.walk():
        if isinstance(op, loop.LoadOp) and op.lanes is not None:
            values = [int(v) for v in op.lanes.get_values()]
            if 1 in values:
                values[values.index(1)] = 0
                op.properties["lanes"] = DenseArrayBase.from_list(i64, values)
                return


def _swap_results_of_views(first: int, second: int) -> Edit:
    """Place two buffers at one offset of the workspace."""

    def edit(module: ModuleOp) -> None:
        views = [op for op in module.walk() if op.name == "memref.view"]
        places = [op for op in views if _is_workspace(op)]
        places[second].operands[1] = places[first].operands[1]

    return edit


def _is_workspace(op: Operation) -> bool:
    return op.operands[0].name_hint == "workspace"


def _move_view(number: int, by: int, *, weights: bool = False) -> Edit:
    def edit(module: ModuleOp) -> None:
        views = [op for op in module.walk() if op.name == "memref.view"]
        chosen = [
            op
            for op in views
            if _is_workspace(op) != weights and op.operands[1].owner.value.value.data + by >= 0  # type: ignore
        ][number]
        old = chosen.operands[1]
        folded = arith.ConstantOp.from_int_and_width(
            old.owner.value.value.data + by,  # type: ignore
            old.type,  # type: ignore
        )
        assert chosen.parent is not None
        chosen.parent.insert_op_before(folded, chosen)
        chosen.operands[1] = folded.result

    return edit


FAULTS: list[Fault] = [
    # Faults in graph passes.
    Fault("an activation is lost", "graph", "decompose", edits.bypass("graph.relu", 1)),
    Fault(
        "an activation is lost while folding", "graph", "fold-constants", edits.bypass("graph.relu")
    ),
    Fault("the bias is lost", "graph", "fold-scale", edits.bypass("graph.add", 1)),
    Fault(
        "an activation is lost between layouts",
        "graph",
        "convert-layout",
        edits.bypass("graph.relu", 2),
    ),
    Fault("the residual is lost", "graph", "winograd", edits.bypass("graph.add", 2)),
    Fault(
        "a group loses its activation",
        "graph",
        "fuse-ops",
        edits.bypass("graph.relu", 0, "graph.group"),
    ),
    # Faults in passes on tensor expressions.
    Fault(
        "reads are one element off", "te", "lower-graph-to-te", edits.shift("te.read", -1, 0, -2)
    ),
    Fault(
        "an outside element is 1",
        "te",
        "lower-graph-to-te",
        edits.constant(0.0, 1.0, "te.read", "default"),
    ),
    Fault(
        "an activation keeps what is below 0.001", "te", "te-inline", edits.constant(0.0, -0.001)
    ),
    Fault(
        "a sum becomes a difference",
        "te",
        "te-inline",
        edits.exchange("arith.addf", arith.SubfOp, 1),
    ),
    Fault("an index is merged wrongly", "te", "merge-axes", edits.shift("te.read", 1, 3, 0)),
    # Faults in loop passes.
    Fault("a reduction starts with 0.01", "loop", "lower-te-to-loop", edits.constant(0.0, 0.01)),
    Fault(
        "a border is not zero",
        "loop",
        "lower-te-to-loop",
        edits.constant(0.0, 0.5, "loop.border", "value"),
    ),
    Fault(
        "a border is one short",
        "loop",
        "lower-te-to-loop",
        edits.number("loop.border", "first", lambda n: n - 1, 2),
    ),
    Fault(
        "the last element of a block is left out",
        "loop",
        "lower-te-to-loop",
        edits.number("loop.block", "extents", lambda n: n - 1, 3),
    ),
    Fault("a side of a border is not written", "loop", "expand-borders", _drop_half("loop.store")),
    Fault("a buffer is compacted too much", "loop", "compact-buffers", _smaller_alloc(1, -1)),
    Fault("a guard is lost", "loop", "lower-blocks", edits.inline("loop.guard")),
    Fault("a store is one element off", "loop", "lower-blocks", edits.shift("loop.store", 1, 2)),
    Fault("the lanes of a load are all the first", "loop", "vectorize", _lanes),
    Fault(
        "a product is subtracted",
        "loop",
        "fuse-multiply-add",
        edits.swap_operands("vector.fma", 0, 2),
    ),
    Fault("an unrolled copy is lost", "loop", "unroll-loops", _drop_half("loop.store")),
    Fault(
        "an unrolled copy is the one before",
        "loop",
        "unroll-loops",
        edits.shift("loop.store", -1, 5, -2),
    ),
    Fault("a buffer is shared by parallel iterations", "loop", "hoist-workspace", _hoist_alloc),
    # Faults in schedules.
    Fault("a reduction is parallel", "schedule", "schedule", _parallel_reduction),
    Fault("a tile is one short", "schedule", "schedule", _trip(-1, loop.LoopKind.VECTORIZED, 2)),
    Fault(
        "a parallel loop misses its end", "schedule", "schedule", _trip(-1, loop.LoopKind.PARALLEL)
    ),
    Fault(
        "an unrolled loop ends early",
        "schedule",
        "schedule",
        _trip(-1, loop.LoopKind.UNROLLED, 1),
    ),
    # Faults in kernel passes.
    Fault("a condition is lost", "kernel", "lower-loop-to-kernel", edits.inline("scf.if")),
    Fault(
        "a loop runs once too often",
        "kernel",
        "lower-loop-to-kernel",
        edits.add_to_index("scf.for", 1, 1),
    ),
    Fault(
        "a store is far outside",
        "kernel",
        "lower-loop-to-kernel",
        edits.operand("vector.store", -1, 1 << 40),
    ),
    Fault(
        "a store is one vector outside",
        "kernel",
        "lower-loop-to-kernel",
        edits.add_to_index("vector.store", -1, 8, -1),
    ),
    Fault("a loop does not end", "kernel", "promote-registers", edits.endless()),
    Fault("registers are exchanged", "kernel", "promote-registers", edits.swap_yields),
    Fault(
        "a constant of a polynomial is wrong",
        "kernel",
        "expand-math",
        edits.exchange("arith.addf", arith.SubfOp, -1),
        network="softmax",
    ),
    Fault("a store is lost", "kernel", "promote-registers", edits.erase("vector.store")),
    # Faults in the memory plan.
    Fault(
        "two live buffers share a place", "memory plan", "plan-memory", _swap_results_of_views(1, 0)
    ),
    Fault("a buffer leaves the workspace", "memory plan", "plan-memory", _move_view(0, 1 << 30)),
    Fault("two buffers overlap by 64 bytes", "memory plan", "plan-memory", _move_view(-1, -64)),
    Fault(
        "a weight is taken 64 bytes late",
        "memory plan",
        "plan-memory",
        _move_view(0, 64, weights=True),
    ),
    Fault(
        "results are written to another buffer",
        "memory plan",
        "plan-memory",
        edits.swap_operands("func.call", -1, -2, 1),
    ),
    # Faults in user-defined passes.
    Fault("drops an activation", "graph, user's", "fuse-ops", user="user-drop-activation"),
    Fault(
        "makes a reduction parallel",
        "loop, user's",
        "apply-schedule",
        user="user-parallel-reduction",
    ),
    Fault(
        "turns a sum into a difference",
        "loop, user's",
        "unroll-loops",
        user="user-sum-to-difference",
    ),
    Fault(
        "turns a sum into a difference",
        "kernel, user's",
        "expand-math",
        user="user-sum-to-difference",
    ),
    Fault("makes an endless loop", "kernel, user's", "expand-math", user="user-endless-loop"),
    # Faults in a whole network.
    Fault(
        "an activation is lost",
        "graph",
        "decompose",
        edits.bypass("graph.relu", 3),
        network="resnet18",
    ),
    Fault(
        "an outside element is 1",
        "te",
        "lower-graph-to-te",
        edits.constant(0.0, 1.0, "te.read", "default"),
        network="resnet18",
    ),
    Fault(
        "a border is not zero",
        "loop",
        "lower-te-to-loop",
        edits.constant(0.0, 0.5, "loop.border", "value"),
        network="resnet18",
    ),
    Fault(
        "a reduction is parallel", "schedule", "schedule", _parallel_reduction, network="resnet18"
    ),
    Fault(
        "a guard is lost", "loop", "lower-blocks", edits.inline("loop.guard"), network="resnet18"
    ),
    Fault(
        "a buffer is shared by parallel iterations",
        "loop",
        "hoist-workspace",
        _hoist_alloc,
        network="resnet18",
    ),
    Fault(
        "a condition is lost",
        "kernel",
        "lower-loop-to-kernel",
        edits.inline("scf.if"),
        network="resnet18",
    ),
    Fault(
        "registers are exchanged",
        "kernel",
        "promote-registers",
        edits.swap_yields,
        network="resnet18",
    ),
    Fault(
        "two live buffers share a place",
        "memory plan",
        "plan-memory",
        _swap_results_of_views(1, 0),
        network="resnet18",
    ),
    Fault(
        "makes an endless loop",
        "kernel, user's",
        "expand-math",
        user="user-endless-loop",
        network="resnet18",
    ),
]
