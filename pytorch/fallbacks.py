"""Parts of a PyTorch model that run outside of compiled code."""

from __future__ import annotations

import warnings
from typing import Any


class FallbackWarning(UserWarning):
    """A part of a PyTorch model is run by PyTorch instead of compiled code."""


def warn_of_fallback(reason: str) -> None:
    """Warn that PyTorch runs a part of a model.

    Args:
        reason: one sentence without a full stop that names the operator or argument.
    """
    warnings.warn(FallbackWarning(f"PyTorch runs a graph: {reason}"), stacklevel=2)


def warn_of_graph_break(graph: Any) -> None:
    """Warn that PyTorch splits a model after a graph of Dynamo, if it does.

    Args:
        graph: the graph, which has Dynamo's reason for its end.
    """
    reason = getattr(graph, "compile_subgraph_reason", None)
    if reason is None or not reason.graph_break:
        return
    place = f" at {reason.user_stack[-1]}" if reason.user_stack else ""
    text = " ".join(reason.reason.split("\n")[0].split())
    warnings.warn(
        FallbackWarning(f"the model is split: {text}{place}; fullgraph=True makes it an error"),
        stacklevel=2,
    )
