"""Choices about single graph ops, as attributes that passes obey before their own estimates.

    %y = graph.blocked_conv %x, %w {pads = [1, 1, 1, 1], tune.winograd = 4} : ...

    tune.winograd   output tile of Winograd's algorithm; 0 for the direct form        winograd
    tune.panel      columns of a panel of constant weights; 0 leaves these as they are
                                                                                      pack-matmul
    tune.block      0 leaves an op and its operands without blocks of channels        convert-layout
    tune.parts      parts of a long reduction; 1 leaves it whole        split-reductions
    tune.fuse       0 gives an op a kernel of its own                                 fuse-ops

`tune-graph` writes them from a table, `apply-tuning` from a model's lock file. What takes an op's
place takes them over. What a choice asks for that is not possible is a remark, and the pass chooses
itself.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation

from tcopt.support.rewriting import CHOSEN

PREFIX = CHOSEN
"""How the attributes' names begin."""

WINOGRAD, PANEL, BLOCK, FUSE, PARTS = "winograd", "panel", "block", "fuse", "parts"

CHOICES: dict[str, str] = {
    WINOGRAD: "an output tile of Winograd's algorithm, or 0 for the direct form",
    PANEL: "columns of a panel of weights, or 0 for none",
    BLOCK: "0, which leaves an op without blocks of channels",
    PARTS: "the parts of a long reduction, or 1 for none",
    FUSE: "0, which gives an op a kernel of its own",
}
"""What may be chosen, and what its values are."""

ONLY_ZERO = (BLOCK, FUSE)
"""Choices that are there to be left out, or 0."""


def tuned(op: Operation, choice: str) -> int | None:
    """What is chosen for an op; None if that is left to the pass."""
    attribute = op.attributes.get(PREFIX + choice)
    return attribute.value.data if isinstance(attribute, IntegerAttr) else None
