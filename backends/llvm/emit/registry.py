"""The table of emit rules.

```python
@emits(arith.AddfOp)
def emit_addf(e: FunctionEmitter, op: arith.AddfOp) -> None: ...
```
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tcopt.support.registries.rule_table import RuleTable

if TYPE_CHECKING:
    from tcopt.backends.llvm.emit.emitter import FunctionEmitter

EmitRule = Callable[["FunctionEmitter", Any], None]

_TABLE: RuleTable[EmitRule] = RuleTable("tcopt.backends.llvm.ops")
emits = _TABLE.rule_for
rules = _TABLE.registry
emit_rules = _TABLE.rules
