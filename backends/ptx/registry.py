"""The table of rules for kernels: those of `backends.llvm`, and those that a GPU has instead.

```python
@emits_ptx(gpu.BarrierOp)
def emit_barrier(e: KernelEmitter, op: gpu.BarrierOp) -> None: ...
```
The modules of `tcopt.backends.ptx.ops` are imported on first use.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from xdsl.ir import Operation

from tcopt.backends.llvm.registry import emit_rules
from tcopt.support.registry import import_all

if TYPE_CHECKING:
    from tcopt.backends.ptx.emitter import KernelEmitter

PtxRule = Callable[["KernelEmitter", Any], None]
_Rule = TypeVar("_Rule", bound=PtxRule)

_RULES: dict[str, PtxRule] = {}


def emits_ptx(*ops: type[Operation]) -> Callable[[_Rule], _Rule]:
    """Register a function as the rule of these op classes in kernels."""

    def register(rule: _Rule) -> _Rule:
        for op in ops:
            if op.name in _RULES:
                raise ValueError(f"two PTX rules for {op.name}")
            _RULES[op.name] = rule
        return rule

    return register


@cache
def ptx_rules() -> dict[str, PtxRule]:
    """All rules by op name."""
    import_all("tcopt.backends.ptx.ops")
    return {**emit_rules(), **_RULES}
