"""Analysis of which axes of an op's operands correspond to axes of its result.

    softmax[b, i, j] over j:   x[b, i, all]
    matmul[b, i, j]:           lhs[b, i, all]    rhs[all, j]

Index `i` along an axis of the result needs only index `i` along the operand axes that follow it. A
part of the result is then the op applied to the same part of these operands. The relation is
derived from the op's tensor expression, through all of its stages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir.affine import AffineDimExpr

from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import element_type, shape_of
from tcopt.dialects.te import api as te
from tcopt.dialects.te.expr import Axis, Expr, Index, Read
from tcopt.dialects.te.functions import ComputedIndex
from tcopt.dialects.te.tensor import Stage, Tensor, children
from tcopt.support.arithmetic.affine import simplify
from tcopt.support.arithmetic.intervals import extents_to_ranges
from tcopt.support.errors import UndecidedSize

Followed = tuple[int | None, ...]
"""For each axis of a tensor, the axis of the result that it follows; None if all of it is read."""


def followed_axes(op: GraphOp, axes: Sequence[int]) -> list[Followed] | None:
    """Return, for each operand, the result axes that its axes follow.

    Args:
        axes: candidate axes of the result; axes that no operand can follow are dropped.
    Returns:
        One entry for each operand; None if the op has no tensor expression, as a reshape of sizes
        whose indices are not affine.
    """
    if op.is_opaque or not op.operands or len(op.results) != 1 or op.regions:
        return None
    sources = [te.placeholder(shape_of(value), element_type(value)) for value in op.operands]
    try:
        result = op.tensor_expression(*sources)
    except (te.ExpressionError, UndecidedSize):
        return None
    order = _consumers_first(result)
    wanted = set(axes)
    while True:
        tracing = _Tracing(wanted)
        found = tracing.run(result, order)
        if not tracing.refused:
            return [found.get(id(source), (None,) * source.ndim) for source in sources]
        wanted -= tracing.refused


class _Tracing:
    """One traversal from the result to the operands.

    Attributes:
        refused: axes of the result that are read in conflicting ways.
    """

    def __init__(self, wanted: set[int]):
        self.wanted = wanted
        self.refused: set[int] = set()
        self.found: dict[int, Followed] = {}

    def run(self, result: Tensor, order: Sequence[Tensor]) -> dict[int, Followed]:
        """Return the axes that each tensor's axes follow."""
        own = tuple(a if a in self.wanted else None for a in range(result.ndim))
        self.found[id(result)] = own
        for tensor in order:
            if isinstance(tensor, Stage):
                self._trace(tensor, self.found[id(tensor)])
        return self.found

    def _trace(self, stage: Stage, followed: Followed) -> None:
        axes = {
            id(axis): own for axis, own in zip(stage.axes, followed, strict=True) if own is not None
        }

        def visit(node: Expr | Index) -> None:
            if isinstance(node, Read):
                self._read(node, stage, axes)
            elif isinstance(node, Index) and not isinstance(node, ComputedIndex):
                self.refused |= {axes[id(d)] for d in node.dims if id(d) in axes}

        _walk(stage.body, visit)

    def _read(self, read: Read, stage: Stage, axes: dict[int, int]) -> None:
        """Record indices that equal an axis; refuse axes that are used otherwise."""
        here: list[int | None] = []
        for index, extent in zip(read.indices, read.tensor.shape, strict=True):
            used = {id(dim) for dim in index.dims} & axes.keys()
            if not used:
                here.append(None)
                continue
            axis = _exact(index)
            if axis is not None and axis.extent == extent:
                here.append(axes.get(id(axis)))
            else:
                self.refused |= {axes[each] for each in used}
                here.append(None)
        known = self.found.setdefault(id(read.tensor), tuple(here))
        for one, other in zip(known, here, strict=True):
            if one != other:
                self.refused |= {one, other} - {None}  # pyright: ignore[reportAttributeAccessIssue]


def _exact(index: Index) -> Axis | None:
    """Return the axis that an index equals, or None."""
    axes = [dim for dim in index.dims if isinstance(dim, Axis)]
    if len(axes) != len(index.dims):
        return None
    expr = simplify(index.expr, extents_to_ranges([axis.extent for axis in axes]))
    return axes[expr.position] if isinstance(expr, AffineDimExpr) else None


def _walk(root: Expr, visit: Callable[[Expr | Index], None]) -> None:
    """Visit expressions and indices, except indices of a read that are affine in axes."""
    seen: set[int] = set()
    stack: list[Expr | Index] = [root]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        visit(node)
        if isinstance(node, Read):
            stack += [d.value for i in node.indices for d in i.dims if isinstance(d, ComputedIndex)]
        elif isinstance(node, Expr):
            stack += children(node)
        else:
            stack += [dim.value for dim in node.dims if isinstance(dim, ComputedIndex)]


def _consumers_first(result: Tensor) -> list[Tensor]:
    """Return all tensors of a definition, consumers before producers."""
    order: list[Tensor] = []
    seen: set[int] = set()

    def add(tensor: Tensor) -> None:
        if id(tensor) in seen:
            return
        seen.add(id(tensor))
        if isinstance(tensor, Stage):
            for source in tensor.sources:
                add(source)
        order.append(tensor)

    add(result)
    return order[::-1]
