"""unroll: loops marked `unroll` become straight-line code."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from tcopt.passes.kernel.register_slots import constant_index
from tcopt.support.errors import PassFailedError


@dataclass(frozen=True)
class Unroll(ModulePass):
    """Unrolls every `scf.for` that has the attribute `unroll`, inner loops first.

    The bounds and step must be constants.

    ```mlir
    scf.for %i = %c0 to %c2 step %c1 {
      memref.store %v, %m[%i] : memref<2xf32>
    } {unroll}
    ```
    becomes
    ```mlir
    memref.store %v, %m[%c0] : memref<2xf32>
    memref.store %v, %m[%c1] : memref<2xf32>
    ```
    """

    name = "unroll"

    max_trips: int = 1024
    """Loops that run more often are an error, as the code would grow without bound."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for block in op.body.blocks:
            self._visit(block)

    def _visit(self, block: Block) -> None:
        for op in tuple(block.ops):
            for region in op.regions:
                for inner in region.blocks:
                    self._visit(inner)
            if isinstance(op, scf.ForOp) and "unroll" in op.attributes:
                self._unroll(op)

    def _unroll(self, loop: scf.ForOp) -> None:
        low, high, step = (constant_index(v) for v in (loop.lb, loop.ub, loop.step))
        if low is None or high is None or step is None or step < 1:
            raise PassFailedError(
                "the bounds and step of a loop to be unrolled should be constants", op=loop
            )
        trips = max(0, -(-(high - low) // step))
        if trips > self.max_trips:
            raise PassFailedError(
                f"the loop runs {trips} times, too often to be unrolled",
                op=loop,
                hint=f"the limit is max-trips={self.max_trips}",
            )
        parent = loop.parent
        assert parent is not None
        carried: list[SSAValue] = list(loop.iter_args)
        for trip in range(trips):
            new, carried = _copy_body(loop, low + trip * step, carried)
            parent.insert_ops_before(new, loop)
        for old, value in zip(loop.results, carried, strict=True):
            old.replace_all_uses_with(value)
        loop.detach()
        loop.erase()


def _copy_body(
    loop: scf.ForOp, number: int, carried: list[SSAValue]
) -> tuple[list[Operation], list[SSAValue]]:
    """One round of a loop: its ops, and the values it yields."""
    block = loop.body.block
    induction, *arguments = block.args
    constant = arith.ConstantOp(IntegerAttr(number, induction.type))  # pyright: ignore
    values: dict[SSAValue, SSAValue] = {induction: constant.result}
    values.update(zip(arguments, carried, strict=True))
    new: list[Operation] = [constant]
    for op in block.ops:
        if op is block.last_op:
            break
        new.append(op.clone(value_mapper=values))
    terminator = block.last_op
    assert isinstance(terminator, scf.YieldOp)
    return new, [values.get(v, v) for v in terminator.operands]
