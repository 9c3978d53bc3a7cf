"""The table of rules: one function an op, added by decorator.

```python
@writes(arith.AddfOp)
def write_addf(k: KernelWriter, op: arith.AddfOp) -> None: ...
```
The modules of `tcopt.backends.opencl.ops` are imported on first use.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from xdsl.ir import Operation

from tcopt.support.registry import import_all

if TYPE_CHECKING:
    from tcopt.backends.opencl.writer import KernelWriter

WriteRule = Callable[["KernelWriter", Any], None]
_Rule = TypeVar("_Rule", bound=WriteRule)

_RULES: dict[str, WriteRule] = {}


def writes(*ops: type[Operation]) -> Callable[[_Rule], _Rule]:
    """Register a function as the rule of these op classes."""

    def register(rule: _Rule) -> _Rule:
        for op in ops:
            if op.name in _RULES:
                raise ValueError(f"two rules write {op.name}")
            _RULES[op.name] = rule
        return rule

    return register


@cache
def write_rules() -> dict[str, WriteRule]:
    """All rules by op name."""
    import_all("tcopt.backends.opencl.ops")
    return _RULES
