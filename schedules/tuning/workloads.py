"""Workload keys: what a kernel computes, independent of its name and target.

Records and lock files are keyed by workload. The text of a workload is that of its `te.func`
without names. It excludes the target, so that results from one machine can be reused on another.
"""

from __future__ import annotations

import hashlib
from math import prod

from xdsl.dialects.builtin import ModuleOp

from tcopt.dialects.target import TARGET_ATTRIBUTE
from tcopt.dialects.te import ComputeOp, FuncOp
from tcopt.support.syntax.canonical_text import canonical_text

_KEY_BYTES = 12


def workload_text(function: FuncOp) -> str:
    """Return the canonical text of a function under the name `@kernel`, without its target."""
    placed = function.attributes.pop(TARGET_ATTRIBUTE, None)
    try:
        return canonical_text(function, "kernel")
    finally:
        if placed is not None:
            function.attributes[TARGET_ATTRIBUTE] = placed


def workload_key(function: FuncOp) -> str:
    """Return a hash of the workload's text: equal for equal kernels of any model and any target."""
    return key_of(workload_text(function))


def key_of(text: str) -> str:
    """Return a hash of the text of a workload, target or schedule."""
    return hashlib.blake2b(
        text.encode("utf-8", "surrogatepass"), digest_size=_KEY_BYTES
    ).hexdigest()


def anchor_key(function: FuncOp) -> str:
    """Return a hash of the most expensive stage: equal for kernels that differ only in epilogues.

    Results for a workload are a starting point for others with the same key.
    """
    stages = list(function.body.block.ops)
    computes = [op for op in stages if isinstance(op, ComputeOp)]
    heaviest = max(computes, key=_points, default=None)
    return key_of(canonical_text(heaviest)) if heaviest is not None else workload_key(function)


def _points(stage: ComputeOp) -> tuple[bool, int]:
    return stage.is_reduction, prod(stage.all_bounds)


def target_text(module: ModuleOp, function: FuncOp | None = None) -> str:
    """Return the target of a module as text; empty if the module has none.

    Args:
        function: a function of the module, which may be placed on an accelerator instead.
    """
    whole = module.attributes.get(TARGET_ATTRIBUTE)
    target = whole if function is None else function.attributes.get(TARGET_ATTRIBUTE, whole)
    return "" if target is None else str(target)
