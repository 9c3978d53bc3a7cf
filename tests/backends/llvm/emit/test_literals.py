"""Constants in LLVM's syntax, and their known properties."""

from __future__ import annotations

import math

import llvmlite.binding as llvm
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import (
    BFloat16Type,
    DenseIntOrFPElementsAttr,
    VectorType,
    f32,
    f64,
    i1,
    i8,
    i32,
)

from tcopt.backends.llvm.emit.literals import dense_constant, literal
from tcopt.backends.llvm.emit.types import DOUBLE, FLOAT, HALF, I1, I8, I32, LlvmType, llvm_type

FLOATS = st.sampled_from([HALF, FLOAT, DOUBLE])
SHORT = st.lists(st.integers(-128, 127), min_size=1, max_size=5)


@pytest.mark.parametrize(
    ("type", "mangled"),
    [
        (VectorType(f32, [2, 8]), "v16f32"),
        (VectorType(i1, [3]), "v3i1"),
        (BFloat16Type(), "i16"),
        (f64, "f64"),
    ],
)
def test_names_of_intrinsics(type, mangled):
    assert llvm_type(type).mangled == mangled


@given(SHORT, st.sampled_from([i8, i32]))
def test_integers_are_known_lane_by_lane(values, element):
    attr = DenseIntOrFPElementsAttr.from_list(VectorType(element, [len(values)]), values)
    constant = dense_constant(attr)
    assert list(constant.lanes) == values
    assert (constant.number is None) == (len(set(values)) > 1)
    _parses(constant)


@given(st.lists(st.floats(width=16), min_size=1, max_size=4), FLOATS)
def test_floats_keep_their_values(values, element):
    """Includes signed zeros, infinities and NaN; a scalar is spelled like a lane."""
    constant = literal(LlvmType.vector(element, len(values)), *values)
    kept = zip(constant.lanes, values, strict=True)
    assert all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in kept)
    _parses(constant)
    _parses(literal(element, values[0]))


def test_floats_are_rounded():
    """Float literals round to the nearest value of their type, including infinity."""
    assert literal(FLOAT, 0.1).number == float(np.float32(0.1))
    assert literal(LlvmType.vector(HALF, 2), 65520, 65521).number == math.inf


def test_only_a_zero_without_sign_is_no_bits():
    pair = LlvmType.vector(FLOAT, 2)
    assert literal(pair, 0.0, 0.0) == "zeroinitializer"
    assert literal(pair, -0.0, -0.0) == "splat (float 0x8000000000000000)"
    assert literal(pair, 0.0, -0.0).number is None


def test_brain_floats_are_their_bits():
    type = VectorType(BFloat16Type(), [2])
    constant = dense_constant(DenseIntOrFPElementsAttr.from_list(type, [1.0, -2.0]))
    assert constant.lanes == (0x3F80, 0xC000)


def test_masks():
    mask = literal(LlvmType.vector(I1, 3), True, True, False)
    assert mask == "<i1 true, i1 true, i1 false>"
    assert literal(LlvmType.vector(I8, 4), *[7] * 4) == "splat (i8 7)"
    assert LlvmType.vector(I32, 0) is I32


def _parses(constant):
    """LLVM parses it as a constant of its type, with the same bits."""
    text = f"@x = constant {constant.type} {constant}"
    llvm.parse_assembly(text).verify()
    assert np.size(constant.lanes) == constant.type.lanes or not constant.type.lanes
