"""func: the end of a kernel."""

from __future__ import annotations

from xdsl.dialects import func

from tcopt.backends.opencl.emit.registry import writes
from tcopt.backends.opencl.emit.writer import OpenClWriter


@writes(func.ReturnOp)
def write_return(k: OpenClWriter, op: func.ReturnOp) -> None:
    """Emit nothing: a kernel returns at its end."""
