"""Inputs and outputs of a model that are not tensors: sequences, maps and optionals.

A caller passes a list of arrays for a sequence, and None for an optional without an element. A
program only takes arrays, one after the other, and is compiled for a given number of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from tcopt.runtime.feeds import OpenDevice, Tensor
from tcopt.runtime.specs import TensorSpec, check_names, select_feeds
from tcopt.support.data.structures import Count, Kind, tensor_names
from tcopt.support.errors import InputError

Array = NDArray[Any]
Feed: TypeAlias = "Tensor | list[Any] | None"
"""Value of an input or output: a tensor, a list of arrays or maps, or None."""


@dataclass(frozen=True)
class Signature:
    """How the tensors of a program form the inputs and outputs of its model.

    Attributes:
        inputs, outputs: as declared by the model.
        input_counts, output_counts: number of tensors of each sequence, map or optional, by name.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    input_counts: Mapping[str, Count]
    output_counts: Mapping[str, Count]


def select_values(
    specs: Sequence[TensorSpec],
    feeds: Mapping[str, Any],
    fixed_by: Mapping[str, str],
    fixed: tuple[Sequence[TensorSpec], Mapping[str, Count]] | None = None,
    open_device: OpenDevice | None = None,
) -> list[Feed]:
    """Return checked feeds as `select_feeds` does, for inputs that need not be tensors.

    Args:
        fixed_by, open_device: as for `select_feeds`.
        fixed: inputs and counts of an existing program, if any.
    Raises:
        InputError: as `select_feeds`, or a sequence is not given as a list, or its length differs
            from the program's.
    """
    check_names(specs, feeds)
    given: dict[str, Any] = {}
    counts: dict[str, Count] = {}
    for spec in specs:
        if spec.kind is Kind.TENSOR:
            given.update({spec.name: feeds[spec.name]} if spec.name in feeds else {})
            continue
        items = _items(spec, feeds)
        counts[spec.name] = None if items is None else len(items)
        if fixed is not None and fixed[1][spec.name] != counts[spec.name]:
            raise InputError(
                f"input {spec} has {_count_text(counts[spec.name])}, the model was compiled for "
                f"{_count_text(fixed[1][spec.name])}",
                hint="compile it without its shapes, so that each run may have its own",
            )
        names = tensor_names(spec.name, spec.kind, counts[spec.name])
        given.update(zip(names, items or (), strict=True))
    flat = fixed[0] if fixed is not None else [s for spec in specs for s in _parts(spec, counts)]
    return group(specs, counts, select_feeds(flat, given, fixed_by, open_device))


def _items(spec: TensorSpec, feeds: Mapping[str, Any]) -> list[Any] | None:
    """Return the elements given for an input that is not a tensor."""
    value = feeds.get(spec.name)
    if value is None:
        if spec.kind.is_optional:
            return None
        raise InputError(f"no value given for input {spec}", hint="give a list of arrays")
    if not spec.kind.is_sequence:
        return [value]
    if not isinstance(value, list | tuple):
        raise InputError(
            f"input {spec} cannot be {type(value).__name__}", hint="give a list of arrays"
        )
    return list(value)


def _parts(spec: TensorSpec, counts: Mapping[str, Count]) -> Iterator[TensorSpec]:
    """Yield the specification of each tensor of an input."""
    if spec.kind is Kind.TENSOR:
        yield spec
        return
    for name in tensor_names(spec.name, spec.kind, counts[spec.name]):
        yield spec._replace(name=name, kind=Kind.TENSOR)


def _count_text(count: Count) -> str:
    return "no element" if count is None else f"{count} tensor{'' if count == 1 else 's'}"


def group(
    specs: Sequence[TensorSpec], counts: Mapping[str, Count], arrays: Sequence[Tensor]
) -> list[Feed]:
    """Group the arrays of all inputs or outputs into their values."""
    rest = iter(arrays)
    values: list[Feed] = []
    for spec in specs:
        count = counts.get(spec.name)
        if spec.kind is Kind.MAPS:
            keys, rows = (np.asarray(next(rest)).tolist() for _ in range(2))
            values.append([dict(zip(keys, row, strict=True)) for row in rows])
        elif spec.kind.is_sequence and count is not None:
            values.append([next(rest) for _ in range(count)])
        else:
            values.append(None if spec.kind.is_optional and count is None else next(rest))
    return values


def flat_arrays(name: str, value: Feed) -> Iterator[tuple[str, Array]]:
    """Yield the arrays of an input, with their names in the program."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        maps = cast("list[dict[Any, Any]]", value)
        columns = {key: np.array([each[key] for each in maps]) for key in maps[0]}
        yield from ((f"{name}[{key}]", column) for key, column in columns.items())
    elif isinstance(value, list):
        yield from zip(tensor_names(name, Kind.SEQUENCE, len(value)), value, strict=True)
    elif value is not None:
        yield name, cast("Array", value)


def flatten(values: Sequence[Feed]) -> list[Array]:
    """Return the arrays of all inputs or outputs, in the order of the program."""
    return [array for value in values for _, array in flat_arrays("", value)]


def shape_of(value: Feed) -> tuple[object, ...] | None:
    """Return the shape of an input; for a sequence, the shapes of its tensors."""
    if isinstance(value, list):
        return tuple(array.shape for array in value)
    return None if value is None else value.shape
