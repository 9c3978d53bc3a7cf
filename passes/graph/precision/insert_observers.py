"""Replacement of a function's results by statistics of them.

A walk by hand: it changes the results of one function, and the module's attributes on them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    FunctionType,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    f32,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass

from tcopt.dialects.graph.core.donation import count_in
from tcopt.dialects.graph.core.types import element_type, is_float, shape_of
from tcopt.dialects.graph.elementwise.cast import CastOp
from tcopt.dialects.graph.reduction.histogram import HistogramOp
from tcopt.dialects.graph.reduction.reduce import ReduceOp
from tcopt.dialects.size import definitions_for
from tcopt.support.arithmetic.sizes import upper_bound
from tcopt.support.errors import PassFailedError
from tcopt.support.ir.rewriting import insert

_OUTPUTS, _CHECKS, _SIZES = "graph.outputs", "graph.checks", "graph.sizes"
WHOLE = "all"
"""Axis option for one statistic of the whole tensor."""

BINS = 4096


@dataclass(frozen=True)
class InsertObserversPass(ModulePass):
    """Replace results by observers, which compute statistics of them.

    The results of @main from index `keep` on are replaced by their `statistics`: `minimum`,
    `maximum` and `mean`, either of all elements or for each index along one axis (`axes`), and a
    `histogram` of the range from the minimum to the maximum element. The statistics of the result
    `x` are named `x:minimum` and so on. So a calibration runs in compiled code, and does not return
    whole tensors.

        func.func @main(%x: tensor<1x8x4x4xf32>) -> tensor<1x8x4x4xf32> {  // graph.outputs = ["y"]
          %y = graph.relu %x : tensor<1x8x4x4xf32>
          return %y : tensor<1x8x4x4xf32>
        }
    ->
        func.func @main(%x: tensor<1x8x4x4xf32>) -> (tensor<f32>, tensor<f32>) {
          %y = graph.relu %x : tensor<1x8x4x4xf32>
          %0 = graph.reduce %y {kind = min, axes = [0, 1, 2, 3]} : tensor<f32>
          %1 = graph.reduce %y {kind = max, axes = [0, 1, 2, 3]} : tensor<f32>
          return %0, %1 : tensor<f32>, tensor<f32>  // graph.outputs = ["y:minimum", "y:maximum"]
        }

    Args:
        keep: number of leading results that are kept.
        statistics: statistics of the other results.
        axes: for each of the other results, the axis that is not reduced (negative values count
            from the end), or `all`; by default `all` for each.
        bins: number of bins of histograms.
    """

    name = "insert-observers"

    keep: int = 0
    statistics: tuple[str, ...] = ("minimum", "maximum")
    axes: tuple[str, ...] = ()
    bins: int = BINS

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for statistic in self.statistics:
            if statistic not in _OBSERVERS:
                raise PassFailedError(
                    f"there is no statistic '{statistic}'",
                    hint=f"there are {', '.join(_OBSERVERS)}",
                )
        for function in op.ops:
            if isinstance(function, FuncOp) and function.sym_name.data == "main":
                _Observation(self, op, function).run()


class _Observation:
    """Rewrites the results of one function."""

    def __init__(self, options: InsertObserversPass, module: ModuleOp, function: FuncOp):
        self.options = options
        self.module = module
        self.function = function
        last = function.body.block.last_op
        assert isinstance(last, ReturnOp)
        self.last = last

    def run(self) -> None:
        """Replace the results, their names, and the function's type."""
        names, given = self._names(), list(self.last.arguments)
        checks = len(given) - count_in(self.module, _CHECKS)
        end = checks - count_in(self.module, _SIZES)
        keep = self.options.keep
        axes = self.options.axes or (WHOLE,) * max(end - keep, 0)
        if len(axes) != end - keep:
            raise PassFailedError(
                f"{len(axes)} axes for {end - keep} observed results", op=self.function
            )
        made: list[tuple[str, SSAValue]] = list(zip(names[:keep], given[:keep], strict=True))
        for name, value, axis in zip(names[keep:end], given[keep:end], axes, strict=True):
            made += self._observed(name, value, axis)
        sizes = self._used_sizes([value for _, value in made], given[end:checks])
        made += sizes
        made += zip(names[checks:], given[checks:], strict=True)
        if _SIZES in self.module.attributes:
            self.module.attributes[_SIZES] = IntegerAttr(len(sizes), i64)
        values = [value for _, value in made]
        self._forget_attributes(keep, len(values))
        self.last.operands = values
        inputs = self.function.function_type.inputs
        results = [value.type for value in values]
        self.function.properties["function_type"] = FunctionType.from_lists([*inputs], results)
        if _OUTPUTS in self.module.attributes:
            told = ArrayAttr([StringAttr(name) for name, _ in made])
            self.module.attributes[_OUTPUTS] = told

    def _used_sizes(
        self, results: Sequence[SSAValue], counts: Collection[SSAValue]
    ) -> list[tuple[str, SSAValue]]:
        """Return the values of defined sizes that results have, with the names of the sizes."""
        ops = definitions_for(self.function.body.block, results)
        return [(op.symbol.name, op.count) for op in ops if op.count in counts]

    def _observed(self, name: str, value: SSAValue, axis: str) -> Iterator[tuple[str, SSAValue]]:
        if not is_float(element_type(value)):
            raise PassFailedError(f"'{name}' is {value.type}, which is not a tensor of floats")
        if not upper_bound(prod(shape_of(value))):
            raise PassFailedError(f"'{name}' is {value.type}, which has no elements")
        if element_type(value) != f32:
            value = self._add(CastOp(value, f32))
        reduced = self._reduced(value, axis)
        for statistic in self.options.statistics:
            yield f"{name}:{statistic}", _OBSERVERS[statistic](self, value, reduced)

    def _reduced(self, value: SSAValue, axis: str) -> tuple[int, ...]:
        """Return the axes that a statistic reduces."""
        rank = len(shape_of(value))
        if axis == WHOLE:
            return tuple(range(rank))
        try:
            own = range(rank)[int(axis)]
        except (ValueError, IndexError):
            raise PassFailedError(f"{value.type} has no axis {axis}", op=self.function) from None
        return tuple(place for place in range(rank) if place != own)

    def reduce(self, value: SSAValue, kind: str, axes: tuple[int, ...]) -> SSAValue:
        """Reduce a value along axes; return it unchanged if there are none."""
        return self._add(ReduceOp(value, kind=kind, axes=axes)) if axes else value

    def histogram(self, value: SSAValue) -> SSAValue:
        """Return a histogram of the range from the minimum to the maximum element."""
        axes = tuple(range(len(shape_of(value))))
        limits = [self.reduce(value, kind, axes) for kind in ("min", "max")]
        return self._add(HistogramOp(value, *limits, bins=self.options.bins))

    def _add(self, op: Operation) -> SSAValue:
        return insert(op, self.last)

    def _names(self) -> list[str]:
        told = self.module.attributes.get(_OUTPUTS)
        if isinstance(told, ArrayAttr):
            entries = cast("Iterable[Attribute]", told)
            names = [entry.data for entry in entries if isinstance(entry, StringAttr)]
            # Checks may have no names.
            return [*names, *[""] * (len(self.last.arguments) - len(names))]
        return [f"result{number}" for number in range(len(self.last.arguments))]

    def _forget_attributes(self, keep: int, count: int) -> None:
        """Remove the attributes of results that no longer exist."""
        given = self.function.res_attrs
        if given is None:
            return
        del self.function.properties["res_attrs"]
        kept = list(given)[:keep]
        if kept and len(kept) == count:
            self.function.properties["res_attrs"] = ArrayAttr(kept)


_Observer = Callable[[_Observation, SSAValue, tuple[int, ...]], SSAValue]

_OBSERVERS: dict[str, _Observer] = {
    "minimum": lambda made, value, axes: made.reduce(value, "min", axes),
    "maximum": lambda made, value, axes: made.reduce(value, "max", axes),
    "mean": lambda made, value, axes: made.reduce(value, "mean", axes),
    "histogram": lambda made, value, axes: made.histogram(value),
}
