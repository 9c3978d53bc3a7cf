"""Vectors and hardware intrinsics in the plain translation of the loop dialect."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

from xdsl.dialects.builtin import IndexType
from xdsl.dialects.vector import BroadcastOp, ExtractOp, InsertOp
from xdsl.ir import Operation, SSAValue
from xdsl.utils.type import get_element_type_or_self

from tcopt.dialects import loop
from tcopt.dialects.intrinsics import intrinsic
from tcopt.dialects.loop.intrin import OperandTile
from tcopt.dialects.simd import LOW_BITS, CodeDotOp, DotOp, PackBitsOp, TableSumOp
from tcopt.dialects.te import ComputeOp, IndexOp, ReadOp, YieldOp
from tcopt.dialects.vector_ import ReductionOp
from tcopt.interpreters.plain_access import (
    Accesses,
    lane_offsets,
    vector_shape,
    zero_text,
)
from tcopt.interpreters.plain_scalars import Rule, convert_float, emit_scalar
from tcopt.interpreters.plain_text import (
    PlainWriter,
    element_text,
    is_float_text,
    lanes_of,
    number_text,
)
from tcopt.support.errors import UnsupportedError


def _element(value: SSAValue) -> str:
    return element_text(get_element_type_or_self(value.type))


def _broadcast(w: PlainWriter, op: Operation, names: list[str]) -> str:
    """Emit a broadcast, which adds leading dimensions."""
    assert isinstance(op, BroadcastOp)
    source, target = vector_shape(op.source.type), vector_shape(op.vector.type)
    element = _element(op.source)
    if not source:
        return w.splat(names[0], element, prod(target))
    if target[-len(source) :] != source:
        raise UnsupportedError("the plain translation does not stretch vectors", op=op)
    lanes = w.lanes(names[0], element, prod(source))
    return w.gather(lanes * (prod(target) // prod(source)), element)


def _from_elements(w: PlainWriter, op: Operation, names: list[str]) -> str:
    return w.gather(names, _element(op.results[0]))


def _step(w: PlainWriter, op: Operation, names: list[str]) -> str:
    return w.gather([str(lane) for lane in range(lanes_of(op.results[0].type))], "i64")


def _place(op: ExtractOp | InsertOp, shape: Sequence[int]) -> tuple[int, int]:
    """Return the first lane and the number of lanes of a part of a vector."""
    if op.dynamic_position:
        raise UnsupportedError("the plain translation only accesses constant lanes", op=op)
    position = op.static_position.get_values()
    count = prod(shape[len(position) :])
    start = 0
    for place, extent in zip(position, shape, strict=False):
        start = start * extent + place
    return start * count, count


def _extract(w: PlainWriter, op: Operation, names: list[str]) -> str:
    assert isinstance(op, ExtractOp)
    shape, element = vector_shape(op.vector.type), _element(op.vector)
    first, count = _place(op, shape)
    lanes = w.lanes(names[0], element, prod(shape))[first : first + count]
    return w.gather(lanes, element) if vector_shape(op.result.type) else lanes[0]


def _insert(w: PlainWriter, op: Operation, names: list[str]) -> str:
    assert isinstance(op, InsertOp)
    shape, element = vector_shape(op.dest.type), _element(op.dest)
    first, count = _place(op, shape)
    lanes = w.lanes(names[1], element, prod(shape))
    part = w.lanes(names[0], element, count) if vector_shape(op.source.type) else [names[0]]
    lanes[first : first + count] = part
    return w.gather(lanes, element)


_COMBINERS = {
    "add": ("add", "fadd"),
    "mul": ("mul", "fmul"),
    "and": ("and", ""),
    "or": ("or", ""),
    "xor": ("xor", ""),
}
_CHOICES = {
    "maximumf": "fcmp ugt",
    "maxnumf": "fcmp ogt",
    "minimumf": "fcmp ult",
    "minnumf": "fcmp olt",
    "maxsi": "icmp sgt",
    "minsi": "icmp slt",
    "maxui": "icmp ugt",
    "minui": "icmp ult",
}


def _reduction(w: PlainWriter, op: Operation, names: list[str]) -> str:
    assert isinstance(op, ReductionOp)
    element, kind = _element(op.vector), op.kind.data.value
    wide = "float" if element in ("half", "bfloat") else element
    lanes = w.lanes(names[0], element, lanes_of(op.vector.type))
    if op.acc is not None:
        lanes.insert(0, names[1])
    scalar = IndexType()
    if wide != element:
        lanes = [convert_float(w, lane, element, wide, scalar) for lane in lanes]
    total = lanes[0]
    for lane in lanes[1:]:
        if kind in _COMBINERS:
            word = _COMBINERS[kind][is_float_text(wide)]
            total = w.assign(f"{word} {wide} {total}, {lane}")
        elif kind in _CHOICES:
            flag = w.assign(f"{_CHOICES[kind]} {wide} {total}, {lane}")
            total = w.assign(f"select i1 {flag}, {wide} {total}, {wide} {lane}")
        else:
            raise UnsupportedError("the plain translation does not know this reduction", op=op)
    return convert_float(w, total, wide, element, scalar) if wide != element else total


def _dot(w: PlainWriter, op: Operation, names: list[str]) -> str:
    """Emit dot products of short groups, adding one product at a time."""
    assert isinstance(op, DotOp)
    total, factor = _element(op.acc), _element(op.lhs)
    count, group = lanes_of(op.acc.type), op.group
    is_vector = bool(vector_shape(op.acc.type))
    sums = w.lanes(names[0], total, count) if is_vector else [names[0]]
    sides = [
        _factors(w, name, factor, total, count * group, unsigned is not None)
        for name, unsigned in ((names[1], op.lhs_unsigned), (names[2], op.rhs_unsigned))
    ]
    add, multiply = ("fadd", "fmul") if is_float_text(total) else ("add", "mul")
    for lane, place in product(range(count), range(group)):
        a, b = (side[lane * group + place] for side in sides)
        term = w.assign(f"{multiply} {total} {a}, {b}")
        sums[lane] = w.assign(f"{add} {total} {sums[lane]}, {term}")
    return w.gather(sums, total) if is_vector else sums[0]


def _factors(
    w: PlainWriter, name: str, source: str, target: str, count: int, unsigned: bool
) -> list[str]:
    lanes = w.lanes(name, source, count)
    if source == target:
        return lanes
    if is_float_text(source):
        return [convert_float(w, lane, source, target, IndexType()) for lane in lanes]
    word = "zext" if unsigned else "sext"
    return [w.assign(f"{word} {source} {lane} to {target}") for lane in lanes]


def _pack_bits(w: PlainWriter, op: Operation, names: list[str]) -> str:
    """Emit the packing of bits into a word, adding one bit at a time."""
    assert isinstance(op, PackBitsOp)
    word, narrow = _element(op.acc), _element(op.x)
    is_vector = bool(vector_shape(op.acc.type))
    sums = w.lanes(names[0], word, op.bits) if is_vector else [names[0]]
    numbers = w.lanes(names[1], narrow, op.count)
    for bit, (place, number) in product(range(op.bits), enumerate(numbers)):
        moved = w.assign(f"lshr {narrow} {number}, {bit}")
        one = w.assign(f"and {narrow} {moved}, 1")
        wide = one if narrow == word else w.assign(f"zext {narrow} {one} to {word}")
        term = w.assign(f"shl {word} {wide}, {place}")
        sums[bit] = w.assign(f"add {word} {sums[bit]}, {term}")
    return w.gather(sums, word) if is_vector else sums[0]


def _table_sum(w: PlainWriter, op: Operation, names: list[str]) -> str:
    """Emit the sum of selected table entries, adding one at a time."""
    assert isinstance(op, TableSumOp)
    wide = _element(op.acc)
    count, is_vector = lanes_of(op.acc.type), bool(vector_shape(op.acc.type))
    sums = w.lanes(names[0], wide, count) if is_vector else [names[0]]
    tables = names[1 : 1 + len(op.tables)]
    kind = f"<{op.entries} x i8>"
    for number, name in enumerate(names[1 + len(op.tables) :]):
        weight, group = op.weights[number // op.groups], number % op.groups
        for lane, index in enumerate(w.lanes(name, "i8", count) if is_vector else [name]):
            at = w.assign(f"and i8 {index}, {op.entries - 1}")
            for part, width in enumerate(op.widths):
                table = tables[group * len(op.widths) + part]
                entry = w.assign(f"extractelement {kind} {table}, i8 {at}")
                term = w.assign(f"zext i8 {entry} to {wide}")
                term = w.assign(f"and {wide} {term}, {(1 << width) - 1}")
                term = w.assign(f"mul {wide} {term}, {weight << (LOW_BITS * part)}")
                sums[lane] = w.assign(f"add {wide} {sums[lane]}, {term}")
    return w.gather(sums, wide) if is_vector else sums[0]


def _code_dot(w: PlainWriter, op: Operation, names: list[str]) -> str:
    """Emit the products of codes, adding one at a time."""
    assert isinstance(op, CodeDotOp)
    bits, count = op.bits.value.data, lanes_of(op.acc.type)
    is_vector = bool(vector_shape(op.acc.type))
    sums, words = (w.lanes(n, "i32", count) if is_vector else [n] for n in names[:2])
    for field, name in enumerate(names[2:]):
        for place, factor in enumerate(_factors(w, name, "i8", "i32", 4, False)):
            for lane, word in enumerate(words):
                moved = w.assign(f"lshr i32 {word}, {8 * place + bits * field}")
                code = w.assign(f"and i32 {moved}, {(1 << bits) - 1}")
                term = w.assign(f"mul i32 {code}, {factor}")
                sums[lane] = w.assign(f"add i32 {sums[lane]}, {term}")
    return w.gather(sums, "i32") if is_vector else sums[0]


VECTOR_RULES: dict[str, Rule] = {
    "vector.broadcast": _broadcast,
    "vector.from_elements": _from_elements,
    "vector.step": _step,
    "vector.extract": _extract,
    "vector.insert": _insert,
    "vector.reduction": _reduction,
    "simd.dot": _dot,
    "simd.pack_bits": _pack_bits,
    "simd.table_sum": _table_sum,
    "simd.code_dot": _code_dot,
}


def emit_intrinsic(accesses: Accesses, op: loop.IntrinOp, who: str) -> None:
    """Emit an intrinsic by its tensor expression, element by element.

    All elements are computed before any is written, as the instruction does.
    """
    output, *inputs = op.tiles
    declared = intrinsic(op.intrin.data)
    stage = declared.compute
    arguments = declared.function.body.block.args
    tiles: dict[SSAValue, OperandTile] = {}
    others = iter(inputs)
    for name, argument in zip(declared.inputs, arguments, strict=True):
        tiles[argument] = output if name == declared.old else next(others)
    element = _element_of(output)
    word = "fadd" if is_float_text(element) else "add"
    terms = [range(extent) for extent in stage.reduction_extents]
    results: list[tuple[list[str], str]] = []
    for point in product(*(range(extent) for extent in stage.spatial_extents)):
        place = _place_of(accesses, op, output, point, who)
        if not declared.adds:
            results.append((place, _behaviour(accesses, op, stage, tiles, point, who)))
            continue
        total = accesses.read(output.buffer, place, who)
        for term in product(*terms):
            value = _behaviour(accesses, op, stage, tiles, (*point, *term), who)
            total = accesses.writer.assign(f"{word} {element} {total}, {value}")
        results.append((place, total))
    for place, value in results:
        accesses.write(output.buffer, place, value, who)


def _element_of(tile: OperandTile) -> str:
    return _element(tile.buffer)


def _place_of(
    accesses: Accesses, op: loop.IntrinOp, tile: OperandTile, point: Sequence[int], who: str
) -> list[str]:
    lane = 0
    for at, extent in zip(point, tile.extents, strict=True):
        lane = lane * extent + at
    steps = lane_offsets(tile.steps, tile.extents, lane, len(tile.first))
    places = [
        accesses.writer.assign(f"add i64 {accesses.index(expr, op.indices)}, {step}")
        for expr, step in zip(tile.first, steps, strict=True)
    ]
    if not tile.is_padded:
        accesses.check(tile.buffer, places, [True] * len(places), who)
    return places


def _read_tile(accesses: Accesses, tile: OperandTile, places: Sequence[str], who: str) -> str:
    """Read an element of a tile; out of bounds, it has a default value."""
    if not tile.is_padded:
        return accesses.read(tile.buffer, places, who)
    w, element = accesses.writer, _element_of(tile)
    inside = [
        accesses.inside(place, extent)
        for place, extent in zip(places, accesses.extents(tile.buffer), strict=True)
    ]
    return w.choose(
        w.all_of(inside),
        element,
        lambda: accesses.read(tile.buffer, places, who),
        str(tile.outside) if tile.outside else zero_text(element),
    )


def _behaviour(
    accesses: Accesses,
    op: loop.IntrinOp,
    stage: ComputeOp,
    tiles: dict[SSAValue, OperandTile],
    point: Sequence[int],
    who: str,
) -> str:
    """Emit the value of an intrinsic at one point of its axes."""
    w, values = accesses.writer, dict[SSAValue, str]()
    axes: dict[SSAValue, int] = {}
    axes.update(zip(stage.body.block.args, point, strict=True))
    values.update((axis, str(place)) for axis, place in axes.items())
    for inner in stage.body.block.ops:
        match inner:
            case YieldOp():
                return values[inner.value]
            case ReadOp():
                place = inner.map.data.eval([axes[value] for value in inner.indices], [])
                tile = tiles[inner.source]
                at = _place_of(accesses, op, tile, place, who)
                values[inner.result] = _read_tile(accesses, tile, at, who)
            case IndexOp():
                (number,) = inner.map.data.eval([axes[value] for value in inner.indices], [])
                values[inner.result] = str(number)
            case _ if inner.name == "arith.constant":
                values[inner.results[0]] = number_text(inner.properties["value"])
            case _:
                names = [values[operand] for operand in inner.operands]
                values[inner.results[0]] = emit_scalar(w, inner, names)
    raise UnsupportedError("an intrinsic that yields nothing", op=op)


__all__ = ["VECTOR_RULES", "emit_intrinsic"]
