"""Registry of the rules that translate PTX instructions to LLVM IR.

```python
@executes("shl")
def shift_left(e: PtxKernelWriter, i: PtxInstruction) -> None: ...
```
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tcopt.interpreters.ptx.text import PtxInstruction
from tcopt.support.registries.registration import Registry
from tcopt.support.registries.registry import import_all

if TYPE_CHECKING:
    from tcopt.interpreters.ptx.kernel_writer import PtxKernelWriter

PtxRule = Callable[["PtxKernelWriter", PtxInstruction], None]

rules: Registry[str, PtxRule] = Registry(
    "rule of tcopt.interpreters.ptx.ops for", partial(import_all, "tcopt.interpreters.ptx.ops")
)
"""Rules by opcode; a rule handles all modifiers of its opcode."""


def executes(*opcodes: str) -> Callable[[PtxRule], PtxRule]:
    """Return a decorator that registers a function as the rule for some opcodes.

    Raises:
        InputError: an opcode already has a rule.
    """

    def register(rule: PtxRule) -> PtxRule:
        for opcode in opcodes:
            rules.add(opcode, rule)
        return rule

    return register
