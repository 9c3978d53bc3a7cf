"""The table of emit rules: one function an op, added by decorator.

```python
@emits(arith.AddfOp)
def emit_addf(e: FunctionEmitter, op: arith.AddfOp) -> None: ...
```
Rules are keyed by the op's name, so xDSL's class and our completed class of one op share
a rule. The modules of `tcopt.backends.llvm.ops` are imported on first use; a new op is a
new function there.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from xdsl.ir import Operation

if TYPE_CHECKING:
    from tcopt.backends.llvm.emitter import FunctionEmitter

EmitRule = Callable[["FunctionEmitter", Any], None]
_Rule = TypeVar("_Rule", bound=EmitRule)

_RULES: dict[str, EmitRule] = {}


def emits(*ops: type[Operation]) -> Callable[[_Rule], _Rule]:
    """Register a function as the emit rule of these op classes."""

    def register(rule: _Rule) -> _Rule:
        for op in ops:
            if op.name in _RULES:
                raise ValueError(f"two emit rules for {op.name}")
            _RULES[op.name] = rule
        return rule

    return register


def registered() -> list[EmitRule]:
    """The rules that were registered so far."""
    return list(_RULES.values())


@cache
def emit_rules() -> dict[str, EmitRule]:
    """All rules by op name, importing their modules first."""
    from tcopt.backends.llvm import ops

    for module in pkgutil.iter_modules(ops.__path__):
        importlib.import_module(f"{ops.__name__}.{module.name}")
    return _RULES
