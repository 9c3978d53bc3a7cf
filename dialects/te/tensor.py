"""Tensors of the tensor-expression language: placeholders and computed stages."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from xdsl.dialects.builtin import LocationAttr, UnknownLoc, i1
from xdsl.ir import Attribute

from tcopt.dialects.te.dtypes import DType, ExpressionError, element_type, is_unsigned
from tcopt.dialects.te.expr import (
    Axis,
    Cast,
    Expr,
    ExprLike,
    FromIndex,
    Index,
    IndexCompare,
    IndexLike,
    Number,
    Op,
    Read,
    Reduce,
    as_expr,
    as_index,
    checked,
    const,
    extent_of,
)
from tcopt.dialects.te.functions import ComputedIndex, Lookup, Scaled
from tcopt.dialects.te.ops import Combiner


class Tensor:
    """A tensor of element type `dtype`, read by indexing; extents in `shape` may be sizes."""

    def __init__(self, shape: Sequence[int], dtype: Attribute, name: str):
        self.shape = tuple(extent_of(extent) for extent in shape)
        self.dtype = dtype
        self.name = name

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def __getitem__(self, indices: IndexLike | tuple[IndexLike, ...]) -> Expr:
        """Return the element at `indices`, which must be in bounds."""
        return self._read(indices, None)

    def read(
        self, indices: IndexLike | tuple[IndexLike, ...], default: Number | None = None
    ) -> Expr:
        """Return the element at `indices`, or `default` if they are out of bounds."""
        return self._read(indices, default)

    def _read(self, indices: IndexLike | tuple[IndexLike, ...], default: Number | None) -> Expr:
        given = indices if isinstance(indices, tuple) else (indices,)
        if len(given) != self.ndim:
            raise ExpressionError(
                f"'{self.name}' of rank {self.ndim} is read with {len(given)} indices"
            )
        return Read(self, [as_index(position) for position in given], default)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name}, {list(self.shape)}, {self.dtype})"


class Placeholder(Tensor):
    """An input."""


class Uniform(Tensor):
    """A tensor filled with one constant; reads of it become the constant."""

    def __init__(self, shape: Sequence[int], dtype: Attribute, value: Number):
        super().__init__(shape, dtype, "constant")
        self.value = value

    def _read(self, indices: IndexLike | tuple[IndexLike, ...], default: Number | None) -> Expr:
        if default is None or default == self.value:
            return const(self.value, self.dtype)
        filled = compute(self.shape, lambda *axes: const(self.value, self.dtype), self.name)
        return filled.read(indices, default)


class Stage(Tensor):
    """A computed tensor: one expression for each element."""

    location: LocationAttr = UnknownLoc()

    def __init__(self, name: str, axes: Sequence[Axis], body: Expr):
        super().__init__([axis.extent for axis in axes], body.dtype, name)
        self.axes = tuple(axes)
        self.reduce_axes = body.axes if isinstance(body, Reduce) else ()
        self.body = body.term if isinstance(body, Reduce) else body
        self.combiner = _signed_combiner(body) if isinstance(body, Reduce) else None
        own = {id(axis) for axis in (*self.axes, *self.reduce_axes)}
        self.sources, axes_read = _sources_of(self.body)
        for axis in axes_read:
            if id(axis) not in own:
                what = "reduce axis" if axis.is_reduce else "axis"
                raise ExpressionError(
                    f"stage '{name}' uses {what} '{axis.name}', which does not belong to it",
                    hint="name it in te.sum(..., axis=...)" if axis.is_reduce else None,
                )


def _signed_combiner(body: Reduce) -> Combiner:
    if not is_unsigned(body.dtype):
        return body.combiner
    unsigned = {Combiner.MAX: Combiner.UMAX, Combiner.MIN: Combiner.UMIN}
    return unsigned.get(body.combiner, body.combiner)


def children(expr: Expr) -> tuple[Expr | Index, ...]:
    """Return the direct subexpressions and indices of an expression."""
    match expr:
        case Op():
            return expr.operands
        case Cast() | Lookup():
            return (expr.operand,)
        case Read():
            return expr.indices
        case FromIndex():
            return (expr.index,)
        case IndexCompare():
            return (expr.lhs, expr.rhs)
        case Scaled():
            return (expr.operand, expr.index)
        case _:
            return ()


def _sources_of(root: Expr) -> tuple[list[Tensor], list[Axis]]:
    """Return the tensors read and axes used below `root`, each once, in order of appearance."""
    tensors: dict[int, Tensor] = {}
    axes: dict[int, Axis] = {}
    seen: set[int] = set()
    stack: list[Expr | Index] = [root]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        match node:
            case Axis():
                axes[id(node)] = node
            case ComputedIndex():
                stack.append(node.value)
            case Index():
                stack.extend(reversed(node.dims))
            case _:
                if isinstance(node, Read):
                    tensors[id(node.tensor)] = node.tensor
                stack.extend(reversed(children(checked(node))))
    return list(tensors.values()), list(axes.values())


def placeholder(shape: Sequence[int], dtype: DType = "f32", name: str = "x") -> Placeholder:
    """Return an input tensor."""
    return Placeholder(shape, element_type(dtype), name)


def reduce_axis(extent: int, name: str = "k") -> Axis:
    """Return an axis to reduce over, `0 <= axis < extent`."""
    return Axis(extent, name, is_reduce=True)


def compute(
    shape: Sequence[int],
    function: Callable[..., ExprLike],
    name: str = "compute",
    dtype: DType | None = None,
) -> Stage:
    """Return a tensor whose element at `[i, j, ...]` is `function(i, j, ...)`.

    Args:
        shape: the extents of the axes; `function` is called with one `Axis` for each.
        function: builds the element's expression, or a reduction such as `te.sum(...)`.
        name: the stage's name.
        dtype: the type of an element that is a plain number or an index.
    Raises:
        ExpressionError: the expression uses axes of another stage, or nests a reduction.
    """
    names = _axis_names(function, len(shape))
    axes = [Axis(extent, axis) for extent, axis in zip(shape, names, strict=True)]
    value = function(*axes)
    if isinstance(value, Reduce):
        return Stage(name, axes, value)
    return Stage(name, axes, as_expr(value, None if dtype is None else element_type(dtype)))


def _axis_names(function: Callable[..., Any], count: int) -> list[str]:
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = [
        p for p in inspect.signature(function).parameters.values() if p.kind in positional
    ]
    names = [p.name for p in parameters if p.default is inspect.Parameter.empty][:count]
    return names + [f"i{position}" for position in range(len(names), count)]


def reduce(combiner: Combiner, term: ExprLike, axis: Axis | Iterable[Axis]) -> Reduce:
    """Return the reduction of `term` over one or more axes."""
    axes = (axis,) if isinstance(axis, Axis) else tuple(axis)
    value = as_expr(term)
    if not axes:
        raise ExpressionError(f"te.{combiner.value} needs at least one axis")
    for one in axes:
        if not one.is_reduce:
            raise ExpressionError(
                f"'{one.name}' is not a reduce axis", hint="make it with te.reduce_axis"
            )
    if value.dtype == i1 and combiner in (Combiner.SUM, Combiner.PROD):
        raise ExpressionError(f"te.{combiner.value} is not defined on i1", hint="cast first")
    return Reduce(combiner, value, axes)


def topological(outputs: Sequence[Tensor]) -> list[Tensor]:
    """Return every tensor that the outputs depend on, in topological order."""
    order: list[Tensor] = []
    done: set[int] = set()
    stack: list[tuple[Tensor, bool]] = [(tensor, False) for tensor in reversed(outputs)]
    while stack:
        tensor, expanded = stack.pop()
        if id(tensor) in done:
            continue
        if expanded or not isinstance(tensor, Stage):
            done.add(id(tensor))
            order.append(tensor)
            continue
        stack.append((tensor, True))
        stack.extend((source, False) for source in reversed(tensor.sources))
    return order
