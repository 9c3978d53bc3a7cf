"""ONNX's node cases with ranges for the dimensions of their inputs.

The dimensions of a case are opened in the most general form that the compiler accepts: a size for
each dimension, or one for each extent; from 1 up, or from a power of two below the extent. If the
compiler refuses to open all dimensions, each group of equal extents that it accepts is opened.
Inputs whose values determine shapes become weights, as in models.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, numpy_helper

import tcopt
from conformance.cases import is_drawn, tensor_pairs
from memory.guard_pages import guarded
from memory.guarded_cases import node_cases
from tcopt.frontends.onnx.importer import import_staged, import_whole
from tcopt.frontends.onnx.model.errors import MissingValuesError
from tcopt.frontends.onnx.model.imported import Open
from tcopt.frontends.onnx.model.options import ImportOptions
from tcopt.support.arithmetic.size_ranges import SizeRange
from tcopt.support.errors import TcoptError

Dimension = tuple[str, int, int]
"""Input, axis and extent."""

_LEAST_ROOM = 16


class Range(Enum):
    """Range of an extent `e`."""

    FROM_ONE = "from 1"
    FROM_BELOW = "from a power of two"
    MULTIPLES = "multiples"

    def of(self, extent: int) -> SizeRange:
        """Return the range for an extent."""
        room = max(_LEAST_ROOM, 2 * extent)
        match self:
            case Range.FROM_ONE:
                return SizeRange(1, room)
            case Range.FROM_BELOW:
                return SizeRange(1 << (extent.bit_length() - 1), room)
            case Range.MULTIPLES:
                return SizeRange(extent, 4 * extent, extent)


@dataclass(frozen=True)
class Opening:
    """Form in which dimensions are opened.

    Attributes:
        shares: whether dimensions with equal extents share a size.
        opens_ones: whether dimensions with an extent of 1 are opened.
        range: range of the sizes.
    """

    shares: bool
    opens_ones: bool
    range: Range

    def __str__(self) -> str:
        names = "a size for each extent" if self.shares else "a size for each dimension"
        return f"{names}{'' if self.opens_ones else ' except of 1'}, {self.range.value}"


OPENINGS = tuple(
    Opening(shares, opens_ones, range_)
    for shares in (False, True)
    for opens_ones in (True, False)
    for range_ in Range
)
"""From the most general form to the least."""


@dataclass(frozen=True)
class Opened:
    """A case with ranges.

    Attributes:
        model: the model with names for the open dimensions.
        feeds: values of its inputs.
        ranges: the range of each name.
        opening: form in which dimensions are opened.
        kept: dimensions that could not be opened, each with the reason.
    """

    model: ModelProto
    feeds: Mapping[str, Any]
    ranges: Mapping[str, SizeRange]
    opening: Opening
    kept: Mapping[Dimension, str]


def sized_cases() -> list[str]:
    """Return the cases of single operators that have a dimension to open.

    Casts differ in element types only, and expanded functions consist of other cases' operators.
    """
    return sorted(
        name
        for name, case in node_cases().items()
        if "_expanded" not in name
        and not name.startswith("test_cast")
        and case.data_sets
        and any(_dimensions(case.model))
    )


def check_case(name: str) -> str | None:
    """Compile a case for ranges and run it at its sizes.

    Returns:
        None if all dimensions can be opened, and the results are as expected. Otherwise what is
        wrong, or a text that starts with `refuses` and lists the dimensions.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = opened(name)
        if found is None:
            return None
        try:
            problem = _wrong_result(name, found)
        except TcoptError as error:
            problem = f"fails with {error.code}"
        except Exception as error:
            problem = f"fails with {type(error).__name__}"
    return problem or refusal(found)


def refusal(found: Opened) -> str | None:
    """Return the text that lists the dimensions that could not be opened; None without any."""
    where = ", ".join(f"{name}[{axis}]" for name, axis, _ in found.kept)
    return f"refuses {where}" if where else None


def _wrong_result(name: str, found: Opened) -> str | None:
    program = tcopt.compile(found.model, dims=found.ranges, workers=0)
    with guarded():
        results = program.run(dict(found.feeds))
    expected = _plain(node_cases()[name].data_sets[0][1])
    for wanted, result in tensor_pairs(expected, list(results)):
        wanted = np.asarray(wanted)
        if (wanted.shape, wanted.dtype) != (result.shape, result.dtype):
            return f"{result.dtype}{list(result.shape)}, not {wanted.dtype}{list(wanted.shape)}"
        if is_drawn(name):
            continue
        if wanted.dtype.kind in "OUT":
            is_equal = bool((wanted.astype(str) == result.astype(str)).all())
        else:
            # Narrow types round between operators that a range does not fuse.
            tolerance = 2e-2 if wanted.dtype.itemsize <= 2 else 1e-3
            numbers = (each.astype(np.float64) for each in (wanted, result))
            is_equal = np.allclose(*numbers, rtol=tolerance, atol=1e-5, equal_nan=True)
        if not is_equal:
            return "wrong values"
    return None


def opened(name: str) -> Opened | None:
    """Return a case with ranges; None if the compiler refuses it with numbers too."""
    case = node_cases()[name]
    names = [value.name for value in case.model.graph.input]
    feeds = dict(zip(names, _plain(case.data_sets[0][0]), strict=False))
    try:
        model, feeds = _with_weights(case.model, feeds)
    except TcoptError:
        return None
    own = list(_dimensions(model))
    for opening in OPENINGS:
        dims = own if opening.opens_ones else [dim for dim in own if dim[2] > 1]
        if dims and _refusal(model, dims, opening) is None:
            return _opened(model, feeds, dims, opening, {})
    return _partly(model, feeds, own) if own else None


def _plain(values: Sequence[Any]) -> list[Any]:
    """Return values with arrays for tensors."""
    return [
        _plain(value)
        if isinstance(value, list)
        else numpy_helper.to_array(value)
        if isinstance(value, TensorProto)
        else value
        for value in values
    ]


def _partly(model: ModelProto, feeds: Mapping[str, Any], own: Sequence[Dimension]) -> Opened:
    """Open the groups of equal extents that are accepted, one after the other."""
    opening = OPENINGS[-1]
    accepted: list[Dimension] = []
    kept: dict[Dimension, str] = {}
    for extent in dict.fromkeys(extent for _, _, extent in own if extent > 1):
        group = [dim for dim in own if dim[2] == extent]
        if _refusal(model, [*accepted, *group], opening) is None:
            accepted += group
            continue
        for dim in group:
            reason = _refusal(model, [*accepted, dim], opening)
            if reason is None:
                accepted.append(dim)
            else:
                kept[dim] = reason
    return _opened(model, feeds, accepted, opening, kept)


def _opened(
    model: ModelProto,
    feeds: Mapping[str, Any],
    dims: Sequence[Dimension],
    opening: Opening,
    kept: Mapping[Dimension, str],
) -> Opened:
    changed, ranges = _named(model, dims, opening)
    return Opened(changed, feeds, ranges, opening, kept)


def _named(
    model: ModelProto, dims: Sequence[Dimension], opening: Opening
) -> tuple[ModelProto, dict[str, SizeRange]]:
    """Return a model with names for dimensions, and the ranges of the names."""
    changed, ranges = ModelProto(), dict[str, SizeRange]()
    changed.CopyFrom(model)
    inputs = {info.name: info for info in changed.graph.input}
    for info in changed.graph.output:
        if info.type.HasField("tensor_type"):
            info.type.tensor_type.ClearField("shape")
    for input_, axis, extent in dims:
        name = f"s{extent}" if opening.shares else f"{input_}_{axis}"
        ranges[name] = opening.range.of(extent)
        inputs[input_].type.tensor_type.shape.dim[axis].dim_param = name
    return changed, ranges


def _refusal(model: ModelProto, dims: Sequence[Dimension], opening: Opening) -> str | None:
    """Return why a model with open dimensions is refused; None if it is accepted."""
    changed, ranges = _named(model, dims, opening)
    try:
        import_staged(changed, ImportOptions(dims=ranges))
    except TcoptError as error:
        return " ".join(error.message.split())
    return None


def _dimensions(model: ModelProto) -> Iterator[Dimension]:
    """Yield the dimensions that have a number."""
    for info in model.graph.input:
        if info.type.HasField("tensor_type"):
            for axis, dim in enumerate(info.type.tensor_type.shape.dim):
                if dim.dim_value:
                    yield info.name, axis, dim.dim_value


def _deciding(model: ModelProto) -> Sequence[str]:
    """Return inputs whose values determine shapes or attributes."""
    try:
        import_whole(model, ImportOptions())
    except MissingValuesError as error:
        return error.inputs
    found = import_staged(model, ImportOptions(defines=False))
    if isinstance(found, Open) and isinstance(found.missing, MissingValuesError):
        return found.missing.inputs
    return ()


def _with_weights(
    model: ModelProto, feeds: Mapping[str, Any]
) -> tuple[ModelProto, Mapping[str, Any]]:
    """Turn the inputs into weights whose values determine shapes.

    Raises:
        TcoptError: the model is not supported.
    """
    changed = ModelProto()
    changed.CopyFrom(model)
    left = dict(feeds)
    while True:
        names = [name for name in _deciding(changed) if isinstance(left.get(name), np.ndarray)]
        if not names:
            return changed, left
        for name in names:
            changed.graph.initializer.append(numpy_helper.from_array(left.pop(name), name))
        own = [info for info in changed.graph.input if info.name not in names]
        del changed.graph.input[:]
        changed.graph.input.extend(own)
