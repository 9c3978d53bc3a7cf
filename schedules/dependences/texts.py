"""Texts of accesses for messages."""

from __future__ import annotations

from io import StringIO

from xdsl.ir import Operation, SSAValue
from xdsl.printer import Printer

from tcopt.dialects.loop import BlockOp, LoadOp, StoreOp, owning_block
from tcopt.schedules.state.state import block_label, value_label
from tcopt.support.syntax.access_syntax import print_expr


def access_text(op: Operation, buffer: SSAValue) -> str:
    """Return an access with its block: `the store %y[%v + 1] of block "scan"`."""
    place = value_label(buffer)
    if isinstance(op, LoadOp | StoreOp):
        indices = [_index_text(op, position) for position in range(len(op.map.data.results))]
        place = f"{place}[{', '.join(indices)}]"
    kind = "load" if isinstance(op, LoadOp) else "store" if isinstance(op, StoreOp) else op.name
    block = owning_block(op)
    owner = f" of block {block_label(block)}" if block is not None else ""
    return f"the {kind} {place}{owner}"


def block_text(block: BlockOp | None) -> str:
    """Return `block "mm"`, or a text for code outside of blocks."""
    return "code outside of blocks" if block is None else f"block {block_label(block)}"


class _Names(Printer):
    """Prints values by their names in the source."""

    def print_ssa_value(self, value: SSAValue) -> str:
        text = value_label(value)
        self.print_string(text)
        return text


def _index_text(op: LoadOp | StoreOp, position: int) -> str:
    out = StringIO()
    print_expr(_Names(out), op.map.data.results[position], op.indices)
    return out.getvalue()
