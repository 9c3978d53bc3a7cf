"""A pure value is created once, and shared only by equal computations."""

from xdsl.dialects import arith, test
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, f32, f64, i32
from xdsl.ir import Operation

from tcopt.support.ir.pure_values import PureValues, is_pure


def test_equal_values_are_made_once() -> None:
    """Differing operands, types or properties make another value; zeros have signs."""
    made: list[Operation] = []
    values = PureValues()

    def number(value: float, type=f32):
        attribute = FloatAttr(value, type)
        return values.make(arith.ConstantOp, (), type, {"value": attribute}, made.append)

    zero, one = number(0.0), number(1.0)
    assert number(1.0) is one and number(0.0) is zero
    assert len({zero, one, number(-0.0), number(1.0, f64)}) == 4 == len(made)
    a, b = (
        values.make(kind, (one, zero), f32, {}, made.append)
        for kind in (arith.AddfOp, arith.MulfOp)
    )
    swapped = values.make(arith.AddfOp, (zero, one), f32, {}, made.append)
    assert len({a, b, swapped, values.make(arith.AddfOp, (one, zero), f32, {}, made.append)}) == 3


def test_known_values() -> None:
    """An op has the value of the first equal one; attributes count."""
    values = PureValues()
    first, second = (arith.ConstantOp(IntegerAttr(1, i32)) for _ in range(2))
    marked = arith.ConstantOp(IntegerAttr(1, i32))
    marked.attributes["mark"] = IntegerAttr(0, i32)
    assert values.known(first) is values.known(second) is first.result
    assert values.known(marked) is marked.result


def test_purity() -> None:
    """Purity is determined by the traits of an op's class."""
    assert is_pure(arith.AddiOp) and is_pure(test.TestPureOp)
    assert not is_pure(test.TestOp)
