"""A VDLA core as hardware, in Amaranth: it executes encoded instructions.

`core.py` assembles it: `fetch.py` passes instructions to the queues of three units (`units.py`),
whose transfers share a port (`port.py`) and move words between memory and entries (`memories.py`);
`arithmetic.py` implements the compute unit's register operations, the matrix unit and the ALU.

It is a core of a small machine: a port of 16 bits, one cycle for a row, a matrix unit of 2 x 2. All
other parameters are those of the given target.
"""

from vdla_core.core import Core

__all__ = ["Core"]
