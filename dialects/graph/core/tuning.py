"""Tuning choices for single graph ops, as attributes that override the estimates of passes.

    %y = graph.blocked_conv %x, %w {pads = [1, 1, 1, 1], tune.winograd = 4} : ...

    tune.winograd   output tile of Winograd's algorithm; 0 for the direct form        winograd
    tune.panel      columns of a panel of constant weights; 0 keeps the layout
                                                                                      pack-matmul
    tune.block      0 keeps an op and its operands out of channel blocks              convert-layout
    tune.parts      parts of a long reduction; 1 does not split it
                                                                                      split-reductions
    tune.fuse       0 gives an op a kernel of its own                                 fuse-ops

`tune-graph` writes them from a table, `apply-tuning` from a model's lock file. Ops that replace an
op inherit its choices. If a choice is impossible, a remark is emitted and the pass decides itself.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation

from tcopt.support.ir.rewriting import CHOSEN

PREFIX = CHOSEN
"""Prefix of the attributes' names."""

WINOGRAD, PANEL, BLOCK, FUSE, PARTS = "winograd", "panel", "block", "fuse", "parts"

CHOICES: dict[str, str] = {
    WINOGRAD: "an output tile of Winograd's algorithm, or 0 for the direct form",
    PANEL: "columns of a panel of weights, or 0 for none",
    BLOCK: "0, which leaves an op without blocks of channels",
    PARTS: "the parts of a long reduction, or 1 for none",
    FUSE: "0, which gives an op a kernel of its own",
}
"""The possible choices, with a description of their values."""

ONLY_ZERO = (BLOCK, FUSE)
"""Choices for which the only legal value is 0."""


def tuned(op: Operation, choice: str) -> int | None:
    """Return the choice made for an op; None if the pass is to decide."""
    attribute = op.attributes.get(PREFIX + choice)
    return attribute.value.data if isinstance(attribute, IntegerAttr) else None
