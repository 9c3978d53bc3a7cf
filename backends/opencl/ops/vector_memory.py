"""vector: loads and stores. Masked and indexed accesses are emitted lane by lane."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import vector
from xdsl.ir import Attribute, SSAValue

from tcopt.backends.opencl.emit.packed import load_packed, store_packed
from tcopt.backends.opencl.emit.registry import writes
from tcopt.backends.opencl.emit.types import is_mask, lanes, mask_type
from tcopt.backends.opencl.emit.writer import PRECEDENCE, OpenClWriter, Text
from tcopt.backends.opencl.ops.vector import lane, vector_of
from tcopt.dialects import vector_


@writes(vector.LoadOp)
def write_load(k: OpenClWriter, op: vector.LoadOp) -> None:
    """Masks are bytes in memory."""
    result = op.results[0]
    if is_mask(result.type):
        k.pure(op, Text(f"{loaded_vector(k, op)} != 0", PRECEDENCE["!="]), bits=8)
    else:
        k.assign(result, loaded_vector(k, op), default=op.operands[0].name_hint or "v")


def loaded_vector(k: OpenClWriter, op: vector.LoadOp) -> str:
    """Return the expression of a contiguous vector load."""
    source, *indices = op.operands
    count = lanes(op.results[0].type)
    if k.is_packed(source):
        return load_packed(k, source, k.offset(source, indices), count)
    return f"vload{count}(0, {k.address(source, indices)})"


@writes(vector.StoreOp)
def write_store(k: OpenClWriter, op: vector.StoreOp) -> None:
    value, target, *indices = op.operands
    count = lanes(value.type)
    text = k.text(value)
    if is_mask(value.type):
        # Mask lanes are -1 for true.
        text = f"as_uchar{count}(-{k.mask(value, 8, PRECEDENCE['unary'] + 1)})"
    if k.is_packed(target):
        k.line(store_packed(k, target, k.offset(target, indices), text, count))
    else:
        k.line(f"vstore{count}({text}, 0, {k.address(target, indices)});")


@writes(vector.MaskedLoadOp)
def write_masked_load(k: OpenClWriter, op: vector.MaskedLoadOp) -> None:
    memref, *indices, mask, pass_thru = op.operands
    _load_lanes(k, op.results[0], memref, indices, range(lanes(mask.type)), mask, pass_thru)


@writes(vector_.GatherOp)
def write_gather(k: OpenClWriter, op: vector_.GatherOp) -> None:
    offsets = _offsets(k, op.index_vec)
    _load_lanes(k, op.result, op.base, op.indices, offsets, op.mask, op.pass_thru)


def _load_lanes(
    k: OpenClWriter,
    result: SSAValue,
    buffer: SSAValue,
    indices: Sequence[SSAValue],
    offsets: Sequence[int | str],
    mask: SSAValue,
    otherwise: SSAValue,
) -> None:
    """Load one element for each active lane, at its own offset from the first."""
    base = k.fresh("first")
    k.line(f"const int {base} = {k.offset(buffer, indices)};")
    kept = _named(k, otherwise)
    on = _lane_conditions(k, mask)
    elements: list[str] = []
    for number, offset in enumerate(offsets):
        other = lane(kept, number)
        if on[number] == "0":
            elements.append(other)
            continue
        element = _element(k, buffer, base, offset)
        if is_mask(result.type):
            element = f"-(int){element}"
        elements.append(element if on[number] == "-1" else f"{on[number]} ? {element} : {other}")
    k.assign(result, vector_of(_written_type(k, result.type), elements))


def _written_type(k: OpenClWriter, type: Attribute) -> str:
    return mask_type(32, lanes(type)) if is_mask(type) else k.value_type(type)


@writes(vector.MaskedStoreOp)
def write_masked_store(k: OpenClWriter, op: vector.MaskedStoreOp) -> None:
    memref, *indices, mask, value = op.operands
    _store_lanes(k, memref, indices, range(lanes(mask.type)), mask, value)


@writes(vector_.ScatterOp)
def write_scatter(k: OpenClWriter, op: vector_.ScatterOp) -> None:
    offsets = _offsets(k, op.index_vec)
    _store_lanes(k, op.base, op.indices, offsets, op.mask, op.value_to_store)


def _store_lanes(
    k: OpenClWriter,
    buffer: SSAValue,
    indices: Sequence[SSAValue],
    offsets: Sequence[int | str],
    mask: SSAValue,
    value: SSAValue,
) -> None:
    """Store each active lane, at its own offset from the first."""
    base = k.fresh("first")
    k.line(f"const int {base} = {k.offset(buffer, indices)};")
    values = _named(k, value)
    for number, (offset, on) in enumerate(zip(offsets, _lane_conditions(k, mask), strict=True)):
        if on == "0":
            continue
        element = lane(values, number)
        if is_mask(value.type):
            element = f"-{element}"
        if k.is_packed(buffer):
            store = store_packed(k, buffer, _sum(base, offset), element)
        else:
            store = f"{_element(k, buffer, base, offset)} = {element};"
        k.line(store if on == "-1" else f"if ({on}) {store}")


def _element(k: OpenClWriter, buffer: SSAValue, base: str, offset: int | str) -> str:
    if k.is_packed(buffer):
        return load_packed(k, buffer, _sum(base, offset))
    return f"{k.text(buffer)}[{_sum(base, offset)}]"


def _sum(base: str, offset: int | str) -> str:
    return base if offset == 0 else f"{base} + {offset}"


def _offsets(k: OpenClWriter, offsets: SSAValue) -> list[int | str]:
    """Return the offset of each lane's element from the first, as integers if they are known."""
    text = k.text(offsets)
    literal = text.partition(")(")[2].removesuffix(")")
    numbers = [part.strip() for part in literal.split(",")]
    if len(numbers) == lanes(offsets.type) and all(n.lstrip("-").isdigit() for n in numbers):
        return [int(number) for number in numbers]
    named = _named(k, offsets)
    return [lane(named, number) for number in range(lanes(offsets.type))]


def _lane_conditions(k: OpenClWriter, mask: SSAValue) -> list[str]:
    """Return a condition for each lane: `-1` if always true, `0` if always false."""
    count = lanes(mask.type)
    literal = k.text(mask).partition(f"({mask_type(32, count)})(")[2].removesuffix(")")
    bits = [part.strip() for part in literal.split(",")]
    if set(bits) <= {"-1", "0"}:
        return bits * count if len(bits) == 1 else bits
    named = _named(k, mask)
    return [lane(named, number) for number in range(count)]


def _named(k: OpenClWriter, value: SSAValue) -> str:
    """Return a value as a name or a literal, so that its lanes can be accessed."""
    text = k.text(value)
    if text.isidentifier() or (text.startswith("(") and text.count("(") == 2):
        return text
    name = k.fresh("lanes")
    k.line(f"const {k.type_of(value)} {name} = {text};")
    k.define(value, name)
    return name
