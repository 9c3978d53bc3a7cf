"""The table of rules that emit OpenCL C.

```python
@writes(arith.AddfOp)
def write_addf(k: OpenClWriter, op: arith.AddfOp) -> None: ...
```
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tcopt.support.registries.rule_table import RuleTable

if TYPE_CHECKING:
    from tcopt.backends.opencl.emit.writer import OpenClWriter

WriteRule = Callable[["OpenClWriter", Any], None]

_TABLE: RuleTable[WriteRule] = RuleTable("tcopt.backends.opencl.ops")
writes = _TABLE.rule_for
rules = _TABLE.registry
write_rules = _TABLE.rules
