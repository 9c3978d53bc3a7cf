"""The table of rules for kernels: those of `backends.llvm`, with replacements for GPUs.

```python
@emits_ptx(gpu.BarrierOp)
def emit_barrier(e: KernelEmitter, op: gpu.BarrierOp) -> None: ...
```
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tcopt.backends.llvm.emit.registry import emit_rules
from tcopt.support.registries.rule_table import RuleTable

if TYPE_CHECKING:
    from tcopt.backends.ptx.emitter import KernelEmitter

PtxRule = Callable[["KernelEmitter", Any], None]

_TABLE: RuleTable[PtxRule] = RuleTable("tcopt.backends.ptx.ops")
emits_ptx = _TABLE.rule_for
rules = _TABLE.registry


def ptx_rules() -> Mapping[str, PtxRule]:
    """Return all rules by op name."""
    return {**emit_rules(), **_TABLE.rules()}
