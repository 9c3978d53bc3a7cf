"""The pipeline of a target: phases in order, each a list of passes as text.

A compile is nothing but these passes. `tcopt -p` with the same text on the imported graph
gives the same code.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tcopt.support.accuracy import ACCURACIES, DEFAULT, PRECISE, PRECISIONS
from tcopt.support.errors import UnsupportedError
from tcopt.support.pipelines import suggest


class Phase(NamedTuple):
    """A named stretch of the pipeline; `--compile-to` stops after one."""

    name: str
    passes: str


_GRAPH = (
    "fold-constants",
    "fold-shapes",
    "decompose",
    "fold-constants",
    "fold-scale",
    "canonicalize",
    "expand-conv-transpose",
    "sink-concat",
    "gather-pixels",
    "convert-layout",
    "pack-matmul",
    "winograd",
    "sink-concat",
    "fold-constants",
    "canonicalize",
    "propagate-padding",
    "fuse-ops",
)
_TE = ("lower-graph-to-te", "te-inline", "split-axes", "merge-axes")
_LOOP = ("lower-te-to-loop",)
_SCHEDULE = ("schedule{now=true}", "apply-schedule")
_KERNEL = (
    "lower-intrinsics",
    "expand-borders",
    "compact-buffers",
    "align-storage",
    "lower-blocks",
    "vectorize",
    "unroll-loops",
    "hoist-workspace",
    "lower-loop-to-kernel",
    "promote-registers",
    "transpose-gathers",
    "interleave-scatters",
    "expand-math",
    "plan-memory",
)

PHASES = ("import", "graph", "te", "loop", "schedule", "kernel", "code")
"""Names of all phases; `import` and `code` hold no passes."""


def pipeline(target: str = "cpu", accuracy: str = DEFAULT, precision: str = PRECISE) -> list[Phase]:
    """The phases of a target, in order.

    Args:
        target: `cpu` for this machine, or a named CPU such as `cpu:cortex-a72`.
        accuracy: `strict`, `default` or `fast`: which faster algorithms that round more may
            be used; see docs/accuracy.md.
        precision: `f32`, or `bf16` for layers that round their operands to bf16.
    Raises:
        UnsupportedError: there is no such target, accuracy or precision.
    """
    _check("accuracy", accuracy, ACCURACIES)
    _check("precision", precision, PRECISIONS)
    kind, _, name = target.partition(":")
    if kind != "cpu":
        raise UnsupportedError(f"there is no target '{target}'", hint=suggest(kind, {"cpu": 0}))
    set_target = f'set-target{{cpu="{name}"}}' if name else "set-target"
    graph = ",".join((set_target, *_GRAPH))
    if accuracy != DEFAULT:
        graph = graph.replace("winograd", f"winograd{{accuracy={accuracy}}}")
    if precision != PRECISE:
        graph = graph.replace("winograd", f"lower-precision{{to={precision}}},pack-dots,winograd")
    return [
        Phase("import", ""),
        Phase("graph", graph),
        Phase("te", ",".join(_TE)),
        Phase("loop", ",".join(_LOOP)),
        Phase("schedule", ",".join(_SCHEDULE)),
        Phase("kernel", ",".join(_KERNEL)),
        Phase("code", ""),
    ]


def _check(setting: str, value: str, known: Iterable[str]) -> None:
    """UnsupportedError unless a setting has a value that it may have."""
    if value not in known:
        hint = f"it is one of {', '.join(known)}"
        raise UnsupportedError(f"there is no {setting} '{value}'", hint=hint)


KERNEL_PHASES = ("loop", "schedule", "kernel")
"""The phases that each kernel goes through, and that may be run on one kernel alone."""

_HOST_ONLY = ("plan-memory", "instrument")
"""Passes of these phases that edit nothing but the host function @main."""


def kernel_phases(phases: Iterable[Phase]) -> list[Phase]:
    """What of a pipeline concerns the kernels."""
    return [
        Phase(name, ",".join(p for p in text.split(",") if p not in _HOST_ONLY))
        for name, text in phases
        if name in KERNEL_PHASES
    ]


def with_clocks(phases: list[Phase]) -> list[Phase]:
    """The same phases, with a clock around each kernel call that knows its ONNX nodes."""
    passes = {
        "te": lambda text: text.replace(_TE[0], f"{_TE[0]}{{origins=true}}"),
        "kernel": lambda text: f"{text},instrument",
    }
    return [Phase(name, passes[name](text) if name in passes else text) for name, text in phases]
