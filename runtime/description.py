"""Inputs, outputs and signatures as JSON values, and back, with every value checked."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from tcopt.runtime.signature import Signature
from tcopt.runtime.specs import Dimension, TensorSpec, bytes_of
from tcopt.support.arithmetic.size_parser import parse_size
from tcopt.support.arithmetic.size_terms import Symbol
from tcopt.support.arithmetic.sizes import (
    Extent,
    Size,
    bounds_of,
    lower_bound,
    named_size,
    size_text,
    upper_bound,
)
from tcopt.support.data.named_dtypes import named_dtype
from tcopt.support.data.strings import TEXT, TEXT_NAME, dtype_text
from tcopt.support.data.structures import Count, Kind, tensor_names
from tcopt.support.errors import TcoptError
from tcopt.support.files.json_facts import FactError, Facts

MOST_BYTES = 2**48
"""Maximum bytes of a tensor or memory block, above which nothing is allocated."""

_MOST_DIMENSIONS = 64


def spec_facts(spec: TensorSpec, symbols: Sequence[Symbol] = ()) -> dict[str, Any]:
    """Return a specification as JSON values.

    Args:
        symbols: the sizes that extents may have; an extent calls them s0, s1, and so on.
    """
    names = size_names(symbols)
    shape = [_extent_facts(d, names) for d in spec.shape]
    facts = {"name": spec.name, "shape": shape, "dtype": dtype_text(spec.dtype)}
    return {
        **facts,
        **({"dims": list(spec.dims)} if spec.dims else {}),
        **({"any_rank": True} if spec.any_rank else {}),
        **({} if spec.kind is Kind.TENSOR else {"kind": spec.kind.value}),
        **({"in_place_of": spec.in_place_of} if spec.in_place_of else {}),
        **({"room": [_extent_facts(d, names) for d in spec.room]} if spec.room else {}),
    }


def _extent_facts(extent: Dimension, names: Mapping[Symbol, str]) -> Any:
    return extent_facts(extent, names) if isinstance(extent, Size) else extent


def spec_of(facts: Facts, sizes: Mapping[str, Extent] = MappingProxyType({})) -> TensorSpec:
    """Return the specification encoded by `spec_facts`.

    Args:
        sizes: the sizes that extents may have, by their names in facts.
    Raises:
        FactError: the facts are malformed.
    """
    dims = tuple(facts.lists("dims", _name_or_number)) if "dims" in facts else ()
    shape = tuple(facts.lists("shape", lambda value, at: _dimension(value, at, sizes)))
    if max(len(shape), len(dims)) > _MOST_DIMENSIONS:
        facts.refuse("shape", f"has more than {_MOST_DIMENSIONS} dimensions")
    room = (
        tuple(facts.lists("room", lambda v, at: extent_of(v, at, sizes))) if "room" in facts else ()
    )
    if room and not _fit_in_room(shape, room):
        facts.refuse("room", f"has no space for {list(shape)}")
    spec = TensorSpec(
        facts.text("name"),
        shape,
        _dtype(facts),
        dims,
        facts.flag("any_rank") if "any_rank" in facts else False,
        _kind(facts),
        facts.text("in_place_of") if "in_place_of" in facts else "",
        room,
    )
    if bytes_of(spec) > MOST_BYTES:
        facts.refuse("shape", f"is that of a tensor larger than {MOST_BYTES} bytes")
    return spec


def _fit_in_room(shape: Sequence[Dimension], room: Sequence[Extent]) -> bool:
    """Whether a tensor in a room has the extents of the room, or smaller ones."""
    return len(shape) == len(room) and all(
        own == extent or (isinstance(own, int | Size) and upper_bound(own) <= lower_bound(extent))
        for own, extent in zip(shape, room, strict=True)
    )


def size_names(symbols: Iterable[Symbol]) -> dict[Symbol, str]:
    """Return the names of sizes in facts: s0, s1, and so on."""
    return {symbol: f"s{number}" for number, symbol in enumerate(symbols)}


def extent_facts(extent: Extent, names: Mapping[Symbol, str]) -> int | dict[str, str]:
    """Return an extent as a JSON value."""
    return {"size": size_text(extent, names.__getitem__)} if isinstance(extent, Size) else extent


def extent_of(value: Any, at: str, sizes: Mapping[str, Extent]) -> Extent:
    """Return the extent that `extent_facts` encoded.

    Args:
        at: the place of the value, for messages.
        sizes: the sizes that the extent may have, by their names in facts.
    Raises:
        FactError: the value is not an extent, or may be negative.
    """
    found = _dimension(value, at, sizes)
    if not isinstance(found, int | Size):
        raise FactError(f"{at} should be a number or a size")
    return found


def sizes_facts(symbols: Iterable[Symbol]) -> list[dict[str, Any]]:
    """Return sizes with their ranges as JSON values."""
    return [asdict(symbol) for symbol in symbols]


def sizes_of(facts: Facts) -> list[Symbol]:
    """Return the sizes that `sizes_facts` encoded; [] if the file has no such entry.

    Raises:
        FactError: an entry is malformed, or repeats a name.
    """
    found: list[Symbol] = []
    for each in facts.items("sizes") if "sizes" in facts else ():
        low = each.number("low", 0, MOST_BYTES)
        high = each.number("high", low, MOST_BYTES)
        multiple = each.number("multiple", 1, max(high, 1))
        symbol = Symbol(each.text("name"), low, high, multiple)
        if low % multiple or high % multiple:
            facts.refuse("sizes", f"has {symbol.name!r}, which is not a size with a range")
        found.append(symbol)
    if len({symbol.name for symbol in found}) < len(found):
        facts.refuse("sizes", "has a duplicate name")
    return found


def fixed_specs(facts: Facts, side: str, symbols: Iterable[Symbol] = ()) -> list[TensorSpec]:
    """Return the inputs or outputs of a program: tensors of known shapes with unique names.

    Args:
        symbols: the sizes that extents may have.
    Raises:
        FactError: a specification is malformed, has an open shape, or repeats a name.
    """
    symbols = list(symbols)
    sizes = extents_by_name(symbols)
    specs = [spec_of(each, sizes) for each in facts.items(side)]
    for spec in specs:
        is_check = spec.kind is Kind.CHECK and side == "outputs" and spec.dtype == np.bool_
        is_key = spec.kind is Kind.KEY and side == "inputs" and spec.dtype == np.int64
        is_size = spec.kind is Kind.SIZE and side == "outputs" and _is_count(spec, symbols)
        is_own = is_check or is_key or is_size
        if (spec.kind is not Kind.TENSOR and not is_own) or spec.any_rank:
            facts.refuse(side, f"has {spec.name!r}, which is not a tensor of a known shape")
        if not all(isinstance(extent, int | Size) for extent in spec.shape):
            facts.refuse(side, f"has {spec.name!r} with an open dimension")
        if spec.dims and len(spec.dims) != len(spec.shape):
            facts.refuse(side, f"has {spec.name!r} with names for a different number of dimensions")
    own = (Kind.CHECK, Kind.KEY, Kind.SIZE)
    names = [spec.name for spec in specs if spec.kind not in own]
    if len(set(names)) < len(names):
        facts.refuse(side, "has a duplicate name")
    if any(spec.kind in own for spec in specs[: len(names)]):
        facts.refuse(side, "has a check, key or size before other tensors")
    return specs


def _is_count(spec: TensorSpec, symbols: Iterable[Symbol]) -> bool:
    """Whether an output is the value of one of the sizes."""
    known = any(spec.name == symbol.name for symbol in symbols)
    return known and spec.dtype.kind in "iu" and bytes_of(spec) == spec.dtype.itemsize


def argument_facts(
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    weight_bytes: int,
    workspace_bytes: int,
    symbols: Sequence[Symbol] = (),
) -> list[int]:
    """Return the argument description that is stored in code, as 64-bit integers: the size of each
    argument in bytes, and a hash of the tensors' types and shapes, the sizes, and the inputs that
    results overwrite.
    """
    text = " to ".join(
        ", ".join(f"{spec.dtype.name}{list(spec.shape)}" for spec in specs)
        for specs in (inputs, outputs)
    )
    names = [spec.name for spec in inputs]
    in_place = [names.index(o.in_place_of) if o.in_place_of in names else -1 for o in outputs]
    if any(number >= 0 for number in in_place):
        text += f" in place of {in_place}"
    if symbols:
        text += f" for {sizes_facts(symbols)}"
    types = hashlib.blake2b(text.encode(), digest_size=8).digest()
    sizes = map(bytes_of, (*inputs, *outputs))
    return [*sizes, weight_bytes, workspace_bytes, int.from_bytes(types, "little", signed=True)]


def signature_facts(signature: Signature | None, symbols: Sequence[Symbol] = ()) -> dict[str, Any]:
    """Return a signature as JSON values; empty for None."""
    if signature is None:
        return {}
    sides = {"inputs": signature.inputs, "outputs": signature.outputs}
    facts = {side: [spec_facts(spec, symbols) for spec in specs] for side, specs in sides.items()}
    counts = {
        "input_counts": dict(signature.input_counts),
        "output_counts": dict(signature.output_counts),
    }
    return {"signature": {**facts, **counts}}


def signature_of(
    facts: Facts,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    symbols: Iterable[Symbol] = (),
    *,
    whole: bool = True,
) -> Signature | None:
    """Return the signature encoded by `signature_facts`, checked against the program's tensors.

    Args:
        symbols: the sizes that extents may have.
        whole: whether it covers all tensors of the program; that of a stage covers some.
    Raises:
        FactError: it does not match.
    """
    if "signature" not in facts:
        return None
    own, sizes = facts.facts("signature"), extents_by_name(symbols)
    sides: list[tuple[tuple[TensorSpec, ...], dict[str, Count]]] = []
    for side, tensors in (("input", inputs), ("output", outputs)):
        specs = tuple(spec_of(each, sizes) for each in own.items(f"{side}s"))
        counts = _counts(own.facts(f"{side}_counts"), len(tensors))
        names = chain.from_iterable(_tensors_of(own, spec, counts) for spec in specs)
        own_names = [tensor.name for tensor in tensors if tensor.kind is Kind.TENSOR]
        found = list(names)
        if found != own_names and (whole or not set(found) <= set(own_names)):
            own.refuse(f"{side}s", "do not match the program's tensors")
        sides.append((specs, counts))
    return Signature(sides[0][0], sides[1][0], sides[0][1], sides[1][1])


def _counts(facts: Facts, most: int) -> dict[str, Count]:
    values = facts.values()
    return {n: None if v is None else facts.number(n, 0, most) for n, v in values.items()}


def _tensors_of(own: Facts, spec: TensorSpec, counts: dict[str, Count]) -> Iterable[str]:
    if spec.kind is Kind.TENSOR:
        return [spec.name]
    if spec.name not in counts:
        own.refuse("signature", f"has no tensor count of {spec.name!r}")
    count = counts[spec.name]
    if spec.kind is Kind.MAPS:
        if count != 2:
            own.refuse("signature", f"says that {spec.name!r} consists of {count} tensors")
        return tensor_names(spec.name, spec.kind, count)
    if (count is None and not spec.kind.is_optional) or (
        count not in (None, 1) and not spec.kind.is_sequence
    ):
        own.refuse("signature", f"says that {spec.name!r} consists of {count} tensors")
    return tensor_names(spec.name, spec.kind, count)


def _dimension(value: Any, at: str, sizes: Mapping[str, Extent]) -> Dimension:
    """Return a dimension; one that is a size of the program is an object with its text."""
    if not isinstance(value, dict):
        return _name_or_number(value, at)
    text = cast("dict[str, Any]", value).get("size")
    if len(cast("dict[str, Any]", value)) != 1 or not isinstance(text, str):
        raise FactError(f"{at} should be a dimension")
    try:
        size = parse_size(text, sizes)
    except TcoptError as error:
        raise FactError(f"{at} is not a size: {error}") from error
    if bounds_of(size)[0] < 0:
        raise FactError(f"{at} is {size}, which may be negative")
    return size


def extents_by_name(symbols: Iterable[Symbol]) -> dict[str, Extent]:
    """Return the sizes by the names that they have in facts."""
    return {
        f"s{number}": named_size(s.name, s.low, s.high, s.multiple)
        for number, s in enumerate(symbols)
    }


def _name_or_number(value: Any, at: str) -> int | str | None:
    if isinstance(value, bool) or not isinstance(value, int | str | None):
        raise FactError(f"{at} should be a dimension")
    if isinstance(value, int) and value < 0:
        raise FactError(f"{at} is {value}, which is negative")
    return value


def _dtype(facts: Facts) -> np.dtype[Any]:
    name = facts.text("dtype")
    if name == TEXT_NAME:
        return TEXT
    try:
        dtype = named_dtype(name)
    except (TypeError, ValueError, SyntaxError):
        dtype = None
    # Reject other spellings of types, such as "f4,i8" or "O", which are never written.
    if dtype is None or dtype.name != name or dtype.hasobject or not dtype.itemsize:
        facts.refuse("dtype", f"is {name!r}, which is not an element type")
    return dtype


def _kind(facts: Facts) -> Kind:
    if "kind" not in facts:
        return Kind.TENSOR
    try:
        return Kind(facts.text("kind"))
    except ValueError:
        facts.refuse("kind", f"is {facts.text('kind')!r}, which is not a kind")
