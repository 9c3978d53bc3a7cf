"""The replaced methods of xDSL have the results and errors of its own."""

import pytest
from xdsl.dialects import arith, func, scf, test
from xdsl.dialects.builtin import ArrayAttr, IndexType, MemRefType, f32, i1, i32
from xdsl.ir import Attribute, Block, Region
from xdsl.ir.core import SSAValues
from xdsl.utils.hints import isa

from tcopt.support.ir import quick_xdsl

quick_xdsl.install()


def values(count: int) -> SSAValues:
    return test.TestOp(result_types=[i32] * count).results


def test_operand_groups_and_slices() -> None:
    a, b, c = values(3)
    op = func.ReturnOp(a, b, c)
    assert tuple(op.arguments) == tuple(op.operands) == (a, b, c)
    assert isinstance(op.operands[1:], SSAValues) and op.operands[1:].types == (i32, i32)
    assert op.operands[-1] is c and a.uses.get_length() == 1
    op.operands[0] = b
    assert op.arguments[0] is b and not a.uses and b.uses.get_length() == 2
    assert arith.AddiOp(a, c).rhs is c and arith.AddiOp(a, c).result.owner.name == "arith.addi"
    with pytest.raises(IndexError):
        op.operands[3]


def test_constructors_group_and_check_their_arguments() -> None:
    bound = test.TestOp(result_types=[IndexType()]).results[0]
    loop = scf.ForOp(
        bound, bound, bound, values(2), Region(Block(arg_types=[IndexType(), i32, i32]))
    )
    assert len(loop.iter_args) == len(loop.results) == 2 and loop.body.parent is loop
    with pytest.raises(ValueError, match="None"):
        arith.AddiOp.build(operands=values(2), result_types=[None])
    with pytest.raises(ValueError, match="non-variadic"):
        arith.AddiOp.build(operands=[values(2), *values(1)], result_types=[i32])
    with pytest.raises(ValueError, match="Expected 2"):
        arith.AddiOp.build(operands=values(1), result_types=[i32])


def test_successors_keep_their_uses() -> None:
    block = Block()
    op = test.TestTermOp(successors=[block])
    assert list(op.successors) == [block] and block.uses.get_length() == 1


def test_an_op_may_be_erased_while_its_block_is_iterated() -> None:
    block = Block([test.TestOp() for _ in range(3)])
    for op in block.ops:
        op.detach()
        op.erase()
    assert block.is_empty and list(block.ops) == []


def test_names_and_hashes_of_values() -> None:
    a, b = values(2)
    a.name_hint = "x_1"
    assert a.name_hint == "x" and b.name_hint is None and a.type is i32
    with pytest.raises(ValueError):
        a.name_hint = "no name"
    assert {a: 1, b: 2}[b] == 2 and a != b and a == a


def test_generic_types_and_classes_of_attributes() -> None:
    memory = MemRefType(f32, [2])
    for _ in range(2):
        assert isa(memory, MemRefType[Attribute]) and not isa(i1, MemRefType[Attribute])
        assert isa(ArrayAttr([i1]), ArrayAttr[Attribute])

    class Neither(Attribute):
        name = "neither"

    with pytest.raises(TypeError):
        Neither().__post_init__()
