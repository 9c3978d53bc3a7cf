"""Recognise matrix products and the roles of their variables."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir.affine import AffineBinaryOpExpr, AffineBinaryOpKind, AffineConstantExpr, AffineDimExpr

from tcopt.schedules.analysis.dots import Dot, lane_dim
from tcopt.schedules.analysis.patterns import BlockPattern, StridedAccess
from tcopt.schedules.rules.rule import Declined


@dataclass(frozen=True)
class Product:
    """A block that multiplies matrices, and the roles of its variables.

    Attributes:
        rows: the variable of the tile's rows, on which the RHS does not depend; None for a single
            row.
        columns: the variable along which vectors run.
        panel: columns of a panel of the RHS; 0 if it is stored row by row.
        dot: the hardware dot product that the RHS is stored for, if there is one.
    """

    pattern: BlockPattern
    left: StridedAccess
    right: StridedAccess
    rows: int | None
    columns: int
    panel: int
    dot: Dot | None = None

    @property
    def group(self) -> int:
        """Number of terms of a sum that are added at once."""
        return 1 if self.dot is None else self.dot.group

    @property
    def height(self) -> int:
        """Rows of the result; 1 if no operand has rows."""
        return 1 if self.rows is None else self.pattern.extents[self.rows]

    @property
    def width(self) -> int:
        """Columns of the result."""
        return self.pattern.extents[self.columns]

    @property
    def depth(self) -> int:
        """Terms of a sum."""
        return self.pattern.extents[self.pattern.reduce[0]]


def find_product(pattern: BlockPattern, dot: Dot | None = None) -> Product | Declined:
    """Return the roles of a block's variables; decline if it is not a matrix product."""
    if len(pattern.reduce) != 1 or len(pattern.terms) != 2:
        return Declined("it is not a sum over one variable of products of two operands")
    columns = pattern.spatial[-1] if pattern.spatial else -1
    if columns < 0 or not pattern.store.is_unit(columns):
        return Declined("its columns are not contiguous in the output")
    with_columns = [term for term in pattern.terms if term.uses(columns)]
    if len(with_columns) != 1:
        return Declined("both operands depend on the column")
    (right,) = with_columns
    (left,) = (term for term in pattern.terms if term is not right)
    dim = lane_dim(right, dot)
    panel = panel_width(right, columns, dim)
    if not panel and not right.is_unit(columns, dim):
        return Declined("rows of the right operand are not contiguous")
    rows = [v for v in pattern.spatial if left.uses(v) and not right.uses(v)]
    longest = max(rows, key=lambda v: (pattern.extents[v], v), default=None)
    return Product(pattern, left, right, longest, columns, panel, dot)


def panel_width(access: StridedAccess, variable: int, dim: int = -1) -> int:
    """Return the panel width b of an access at [..., v // b, ..., v % b]; 0 for other accesses.

    Args:
        dim: the dimension of `v % b`.
    """
    *before, last = access.op.map.data.results[: dim % len(access.op.map.data.results) + 1]
    width = _divisor(last, AffineBinaryOpKind.Mod)
    if width is None or access.steps[variable] is not None:
        return 0
    panels = [each for each in before if _divisor(each, AffineBinaryOpKind.FloorDiv) == width]
    return width if any(each.used_dims() == last.used_dims() for each in panels) else 0


def _divisor(expr: object, kind: AffineBinaryOpKind) -> int | None:
    if not isinstance(expr, AffineBinaryOpExpr) or expr.kind is not kind:
        return None
    if isinstance(expr.lhs, AffineDimExpr) and isinstance(expr.rhs, AffineConstantExpr):
        return expr.rhs.value
    return None
