"""profile: reading a clock inside generated code.

```mlir
%now = profile.clock : i64
memref.store %now, %times[%c0] : memref<8xi64>
```
The pass `instrument` inserts it around the kernel calls of the host function.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerType, i64
from xdsl.ir import Dialect
from xdsl.irdl import IRDLOperation, irdl_op_definition, result_def


@irdl_op_definition
class ClockOp(IRDLOperation):
    """Reads a monotonic clock, in nanoseconds from an arbitrary origin.

    It has a side effect, so it is neither moved nor merged.
    """

    name = "profile.clock"

    result = result_def(IntegerType(64))

    assembly_format = "attr-dict `:` type($result)"

    def __init__(self) -> None:
        super().__init__(result_types=[i64])


DIALECT = Dialect("profile", [ClockOp], [])
