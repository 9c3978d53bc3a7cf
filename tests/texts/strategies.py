"""Random attributes, derived from an op's definition and current attributes."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st
from xdsl.dialects.builtin import (
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    UnitAttr,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i8,
    i32,
    i64,
)
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import IRDLOperation, OptionalDef

Strategy = st.SearchStrategy[Any]

_TEXTS = ("", "a b", 'q"\\\n\t\0', "\x7f\x1b[31m", "naïve日本", "0")
_NUMBERS = (math.nan, -math.nan, math.inf, -0.0, 1e22, 5e-324, 16777217.0)
texts = st.text(max_size=12) | st.sampled_from(_TEXTS)
floats = st.floats() | st.sampled_from(_NUMBERS)
_INTEGERS = (i1, i8, i32, i64, IntegerType(4), IndexType())
_FLOATS = (f16, bf16, f32, f64)


def integers_of(type: Any) -> Strategy:
    """Values of an integer type, including the largest."""
    bits = 64 if isinstance(type, IndexType) else type.width.data
    least, most = -(1 << bits - 1), (1 << bits - 1) - 1
    return st.sampled_from([least, most, 0, most // 2]) | st.integers(least, most)


def floats_of(type: AnyFloat) -> Strategy:
    """Values of a float type, including nan and infinities."""

    def rounded(value: float) -> float:
        try:
            return type.unpack(type.pack([value]), 1)[0]
        except OverflowError:
            return math.copysign(math.inf, value)

    return floats.map(rounded)


def numbers() -> Strategy:
    """Attributes with one number."""
    integer = st.sampled_from(_INTEGERS).flatmap(
        lambda t: integers_of(t).map(lambda v: IntegerAttr(v, t))
    )
    real = st.sampled_from(_FLOATS).flatmap(lambda t: floats_of(t).map(lambda v: FloatAttr(v, t)))
    return integer | real


def arrays(type: Any) -> Strategy:
    """Dense arrays of an element type."""
    elements = floats_of(type) if isinstance(type, AnyFloat) else integers_of(type)
    return st.lists(elements, max_size=4).map(lambda v: DenseArrayBase.from_list(type, v))


def _tensors(type: Any) -> Strategy:
    elements = floats_of(type) if isinstance(type, AnyFloat) else integers_of(type)
    return st.lists(elements, min_size=1, max_size=3).map(
        lambda v: DenseIntOrFPElementsAttr.from_list(TensorType(type, [len(v)]), v)
    )


def _symbols() -> Strategy:
    return texts.filter(bool).map(SymbolRefAttr)


def affine_exprs(dims: int) -> Strategy:
    """Index expressions, some of which divide by a non-divisor."""
    leaves = st.integers(-70, 70).map(AffineExpr.constant)
    if dims:
        leaves = leaves | st.integers(0, dims - 1).map(AffineExpr.dimension)
    divisors = st.integers(1, 9).map(AffineExpr.constant)

    def grow(inner: Strategy) -> Strategy:
        return (
            st.builds(lambda a, b: a + b, inner, inner)
            | st.builds(lambda a, b: a * b, inner, divisors)
            | st.builds(lambda a, b: a // b, inner, divisors)
            | st.builds(lambda a, b: a % b, inner, divisors)
        )

    return st.recursive(leaves, grow, max_leaves=5)


def others() -> Strategy:
    """Attributes of any kind, as users may attach to an op."""
    simple = (
        numbers()
        | texts.map(StringAttr)
        | st.just(UnitAttr())
        | _symbols()
        | st.sampled_from((i8, i64, f32, f64)).flatmap(arrays)
        | st.sampled_from((i32, f32)).flatmap(_tensors)
        | st.sampled_from((f32, i1, IndexType(), TensorType(f16, [0, 3])))
    )
    return st.recursive(
        simple,
        lambda inner: (
            st.lists(inner, max_size=3).map(ArrayAttr)
            | st.dictionaries(texts.filter(bool), inner, max_size=2).map(DictionaryAttr)
        ),
        max_leaves=3,
    )


def like(attribute: Attribute) -> Strategy:
    """Attributes of the same kind as another."""
    match attribute:
        case EnumAttribute():
            kind: Any = type(attribute)
            return st.sampled_from(list(kind.enum_type)).map(kind)
        case IntegerAttr():
            return integers_of(attribute.type).map(lambda v: IntegerAttr(v, attribute.type)) | (
                st.integers(0, 4).map(lambda v: IntegerAttr(v, i64))
            )
        case FloatAttr():
            return floats_of(attribute.type).map(lambda v: FloatAttr(v, attribute.type))
        case DenseArrayBase():
            return arrays(attribute.elt_type)
        case StringAttr():
            return texts.map(StringAttr)
        case SymbolRefAttr():
            return _symbols()
        case AffineMapAttr():
            dims, count = attribute.data.num_dims, len(attribute.data.results)
            maps = st.lists(affine_exprs(dims), min_size=count, max_size=count)
            return maps.map(lambda e: AffineMapAttr(AffineMap(dims, 0, tuple(e))))
        case _:
            return st.just(attribute) | others()


def of_kind(kind: type[Attribute]) -> Strategy:
    """Attributes of a class, or of any class if it is unknown."""
    if issubclass(kind, EnumAttribute):
        enum: Any = kind
        return st.sampled_from(list(enum.enum_type)).map(enum)
    known: dict[type[Attribute], Strategy] = {
        UnitAttr: st.just(UnitAttr()),
        IntegerAttr: st.sampled_from(_INTEGERS).flatmap(
            lambda t: integers_of(t).map(lambda v: IntegerAttr(v, t))
        ),
        FloatAttr: st.sampled_from(_FLOATS).flatmap(
            lambda t: floats_of(t).map(lambda v: FloatAttr(v, t))
        ),
        StringAttr: texts.map(StringAttr),
        SymbolRefAttr: _symbols(),
        DenseArrayBase: st.sampled_from((i64, f64)).flatmap(arrays),
        DenseIntOrFPElementsAttr: st.sampled_from((i32, f32)).flatmap(_tensors),
    }
    return known.get(kind, others())


def property_changes(op: IRDLOperation) -> Strategy:
    """Values for some of an op's properties; None removes an optional one."""
    choices: dict[str, Strategy] = {}
    for name, definition in op.get_irdl_definition().properties.items():
        present = op.properties.get(name)
        if present is not None:
            values = like(present)
        else:
            bases = definition.constr.get_bases() or {Attribute}
            values = st.sampled_from(sorted(bases, key=lambda b: b.__name__)).flatmap(of_kind)
        choices[name] = values | st.none() if isinstance(definition, OptionalDef) else values
    if not choices:
        return st.just({})
    return st.sets(st.sampled_from(sorted(choices)), max_size=3).flatmap(
        lambda names: st.fixed_dictionaries({name: choices[name] for name in sorted(names)})
    )
