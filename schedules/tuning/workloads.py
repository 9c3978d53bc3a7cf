"""What a kernel computes, whatever it is called and whatever it is compiled for.

Records and lock files are about workloads. The text of one is that of its `te.func` without names;
the target is not part of it, so that what one machine has learned can be asked for on another.
"""

from __future__ import annotations

import hashlib

from xdsl.dialects.builtin import ModuleOp

from tcopt.dialects.target import TARGET_ATTRIBUTE
from tcopt.dialects.te import ComputeOp, FuncOp
from tcopt.support.canonical_text import canonical_text

_KEY_BYTES = 12


def workload_text(function: FuncOp) -> str:
    """The canonical text of a function under the name `@kernel`; it does not say where the
    function is placed."""
    placed = function.attributes.pop(TARGET_ATTRIBUTE, None)
    try:
        return canonical_text(function, "kernel")
    finally:
        if placed is not None:
            function.attributes[TARGET_ATTRIBUTE] = placed


def workload_key(function: FuncOp) -> str:
    """A hash of the text: equal for equal kernels of any model and any target."""
    return key_of(workload_text(function))


def key_of(text: str) -> str:
    """A hash of a workload's, a target's or a schedule's text."""
    return hashlib.blake2b(
        text.encode("utf-8", "surrogatepass"), digest_size=_KEY_BYTES
    ).hexdigest()


def anchor_key(function: FuncOp) -> str:
    """A hash of the stage that takes longest: equal where epilogues alone differ.

    What was learned of one such workload is where to begin with another.
    """
    stages = list(function.body.block.ops)
    computes = [op for op in stages if isinstance(op, ComputeOp)]
    heaviest = max(computes, key=_points, default=None)
    return key_of(canonical_text(heaviest)) if heaviest is not None else workload_key(function)


def _points(stage: ComputeOp) -> tuple[bool, int]:
    points = 1
    for extent in stage.all_extents:
        points *= extent
    return stage.is_reduction, points


def target_text(module: ModuleOp, function: FuncOp | None = None) -> str:
    """What a module is compiled for, as text; empty where it does not say.

    Args:
        function: one of it, which may be placed on an accelerator.
    """
    whole = module.attributes.get(TARGET_ATTRIBUTE)
    target = whole if function is None else function.attributes.get(TARGET_ATTRIBUTE, whole)
    return "" if target is None else str(target)
