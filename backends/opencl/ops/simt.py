"""simt: exchange of values within a sub-group."""

from __future__ import annotations

from tcopt.backends.opencl.emit.registry import writes
from tcopt.backends.opencl.emit.writer import OpenClWriter
from tcopt.dialects.simt import ShuffleOp


@writes(ShuffleOp)
def write_shuffle(k: OpenClWriter, op: ShuffleOp) -> None:
    text = f"sub_group_shuffle_xor({k.text(op.value)}, {op.distance})"
    k.assign(op.result, text, default="other")
