"""A core of the VDLA as hardware, in Amaranth: it executes encoded instructions.

`core.py` puts it together: `fetch.py` hands instructions to the queues of three units (`units.py`),
whose transfers share a port (`port.py`) and move words between memory and entries (`memories.py`);
`arithmetic.py` has what the compute unit does to registers, the matrix unit and the alu.

It is a core of a small machine: a port of 16 bits, one cycle for a row, a matrix unit of 2 x 2.
All other facts are those of the target that it is given.
"""

from vdla_core.core import Core

__all__ = ["Core"]
