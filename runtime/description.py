"""Inputs, outputs and signatures as JSON values, and back, with every value checked."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from itertools import chain
from math import prod
from typing import Any

import numpy as np

from tcopt.runtime.signature import Signature
from tcopt.runtime.specs import TensorSpec
from tcopt.support.data.named_dtypes import named_dtype
from tcopt.support.data.strings import TEXT, TEXT_NAME, dtype_text
from tcopt.support.data.structures import Count, Kind, tensor_names
from tcopt.support.files.json_facts import FactError, Facts

MOST_BYTES = 2**48
"""Maximum bytes of a tensor or memory block, above which nothing is allocated."""

_MOST_DIMENSIONS = 64


def spec_facts(spec: TensorSpec) -> dict[str, Any]:
    """Return a specification as JSON values."""
    facts = {"name": spec.name, "shape": list(spec.shape), "dtype": dtype_text(spec.dtype)}
    return {
        **facts,
        **({"dims": list(spec.dims)} if spec.dims else {}),
        **({"any_rank": True} if spec.any_rank else {}),
        **({} if spec.kind is Kind.TENSOR else {"kind": spec.kind.value}),
    }


def spec_of(facts: Facts) -> TensorSpec:
    """Return the specification encoded by `spec_facts`.

    Raises:
        FactError: the facts are malformed.
    """
    dims = tuple(facts.lists("dims", _dimension)) if "dims" in facts else ()
    shape = tuple(facts.lists("shape", _dimension))
    if max(len(shape), len(dims)) > _MOST_DIMENSIONS:
        facts.refuse("shape", f"has more than {_MOST_DIMENSIONS} dimensions")
    spec = TensorSpec(
        facts.text("name"),
        shape,
        _dtype(facts),
        dims,
        facts.flag("any_rank") if "any_rank" in facts else False,
        _kind(facts),
    )
    if prod(d for d in shape if isinstance(d, int)) * spec.dtype.itemsize > MOST_BYTES:
        facts.refuse("shape", f"is that of a tensor larger than {MOST_BYTES} bytes")
    return spec


def fixed_specs(facts: Facts, side: str) -> list[TensorSpec]:
    """Return the inputs or outputs of a program: tensors of known shapes with unique names.

    Raises:
        FactError: a specification is malformed, has an open shape, or repeats a name.
    """
    specs = [spec_of(each) for each in facts.items(side)]
    for spec in specs:
        is_check = spec.kind is Kind.CHECK and side == "outputs" and spec.dtype == np.bool_
        is_key = spec.kind is Kind.KEY and side == "inputs" and spec.dtype == np.int64
        if (spec.kind is not Kind.TENSOR and not is_check and not is_key) or spec.any_rank:
            facts.refuse(side, f"has {spec.name!r}, which is not a tensor of a known shape")
        if not all(isinstance(extent, int) for extent in spec.shape):
            facts.refuse(side, f"has {spec.name!r} with an open dimension")
        if spec.dims and len(spec.dims) != len(spec.shape):
            facts.refuse(side, f"has {spec.name!r} with names for a different number of dimensions")
    own = (Kind.CHECK, Kind.KEY)
    names = [spec.name for spec in specs if spec.kind not in own]
    if len(set(names)) < len(names):
        facts.refuse(side, "has a duplicate name")
    if any(spec.kind in own for spec in specs[: len(names)]):
        facts.refuse(side, "has a check or key before other tensors")
    return specs


def argument_facts(
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    weight_bytes: int,
    workspace_bytes: int,
) -> list[int]:
    """Return the argument description that is stored in code, as 64-bit integers: the size of each
    argument in bytes, and a hash of the tensors' types and shapes.
    """
    text = " to ".join(
        ", ".join(f"{spec.dtype.name}{list(spec.shape)}" for spec in specs)
        for specs in (inputs, outputs)
    )
    types = hashlib.blake2b(text.encode(), digest_size=8).digest()
    sizes = map(bytes_of, (*inputs, *outputs))
    return [*sizes, weight_bytes, workspace_bytes, int.from_bytes(types, "little", signed=True)]


def bytes_of(spec: TensorSpec) -> int:
    """Return the size in bytes of a tensor of known shape."""
    return prod(d for d in spec.shape if isinstance(d, int)) * spec.dtype.itemsize


def signature_facts(signature: Signature | None) -> dict[str, Any]:
    """Return a signature as JSON values; empty for None."""
    if signature is None:
        return {}
    sides = {"inputs": signature.inputs, "outputs": signature.outputs}
    facts = {side: [spec_facts(spec) for spec in specs] for side, specs in sides.items()}
    counts = {
        "input_counts": dict(signature.input_counts),
        "output_counts": dict(signature.output_counts),
    }
    return {"signature": {**facts, **counts}}


def signature_of(
    facts: Facts,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    *,
    whole: bool = True,
) -> Signature | None:
    """Return the signature encoded by `signature_facts`, checked against the program's tensors.

    Args:
        whole: whether it covers all tensors of the program; that of a stage covers some.
    Raises:
        FactError: it does not match.
    """
    if "signature" not in facts:
        return None
    own = facts.facts("signature")
    sides: list[tuple[tuple[TensorSpec, ...], dict[str, Count]]] = []
    for side, tensors in (("input", inputs), ("output", outputs)):
        specs = tuple(spec_of(each) for each in own.items(f"{side}s"))
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


def _dimension(value: Any, at: str) -> int | str | None:
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
