"""The quick forms of xDSL's methods do what those methods say they do."""

import pytest
from xdsl.builder import ImplicitBuilder
from xdsl.dialects import arith, scf, test
from xdsl.dialects.builtin import IntegerAttr, IntegerType, VectorType, f32, i32
from xdsl.ir import Block, Operation, Region
from xdsl.ir.affine import AffineDimExpr
from xdsl.utils.hints import isa

from tcopt.support import quick_ir, registry

assert registry.quick_ir is quick_ir


def _users(value):
    return [(use.operation, use.index) for use in value.uses]


def test_they_are_in_place():
    assert Operation.walk is quick_ir._walk


def test_uses_follow_operands():
    block = Block(arg_types=[f32, f32])
    a, b = block.args
    op = arith.AddfOp(a, a)
    assert sorted(index for _, index in _users(a)) == [0, 1]
    op.operands[1] = b
    assert _users(a) == [(op, 0)] and _users(b) == [(op, 1)]
    assert op.lhs is a and op.rhs is b and op.operands[-1] is b
    op.operands = (b, b)
    assert not a.uses and sorted(index for _, index in _users(b)) == [0, 1]
    assert op.operands[:].types == (f32, f32)
    op.erase()
    assert not b.uses


def test_defaults_are_filled_in_without_sharing():
    block = Block(arg_types=[f32])
    ops = [arith.AddfOp.create(operands=[*block.args, *block.args], result_types=[f32])] * 2
    assert "fastmath" in ops[0].properties
    other = arith.AddfOp.create(operands=[*block.args, *block.args], result_types=[f32])
    assert other.properties is not ops[0].properties


def test_values_in_use_cannot_be_erased():
    op = test.TestOp(result_types=[f32])
    user = test.TestOp(operands=[op.results[0]])
    with pytest.raises(ValueError, match="still has uses"):
        op.erase()
    assert user.operands[0] is op.results[0]


def _ops(count):
    return [test.TestOp(attributes={"n": IntegerAttr(n, i32)}) for n in range(count)]


def test_ops_are_linked_in_order():
    first, second, third, fourth = _ops(4)
    block = Block([second])
    block.insert_op_before(first, second)
    block.add_op(fourth)
    block.insert_op_before(third, fourth)
    assert list(block.ops) == [first, second, third, fourth]
    assert list(reversed(block.ops)) == [fourth, third, second, first]
    second.detach()
    block.add_op(second)
    assert list(block.ops) == [first, third, fourth, second]
    with pytest.raises(ValueError, match="already attached"):
        Block([first])


def test_an_op_cannot_go_into_itself():
    block = Block()
    op = test.TestOp(regions=[Region(block)])
    with pytest.raises(ValueError, match="contained in the operation"):
        block.add_op(op)


def test_ops_may_be_removed_on_a_walk():
    inner = _ops(3)
    outer = test.TestOp(regions=[Region(Block(inner))])
    seen = []
    for op in outer.walk():
        seen.append(op)
        if op in inner:
            op.detach()
    assert seen == [outer, *inner]
    assert outer.regions[0].block.is_empty


def test_walks_in_other_orders():
    inner = _ops(2)
    outer = test.TestOp(regions=[Region(Block(inner))])
    assert list(outer.walk(reverse=True)) == [outer, *reversed(inner)]
    assert list(outer.walk(region_first=True)) == [*inner, outer]


def test_groups_of_operands_and_results():
    block = Block(arg_types=[IntegerType(1), f32])
    then, otherwise = (Region(Block([scf.YieldOp(block.args[1])])) for _ in range(2))
    branch = scf.IfOp(block.args[0], [f32], then, otherwise)
    assert branch.cond is block.args[0]
    assert tuple(branch.output) == tuple(branch.results)
    assert branch.true_region is then
    assert tuple(then.block.last_op.arguments) == (block.args[1],)


def test_equal_attributes_have_equal_hashes():
    first, second = VectorType(f32, [8]), VectorType(f32, [8])
    assert first is not second and first == second and hash(first) == hash(second)
    assert VectorType(f32, [4]) not in {first: 0}
    assert hash(AffineDimExpr(1) + 2) == hash(AffineDimExpr(1) + 2)


def test_kinds_are_told_apart():
    vector = VectorType(f32, [8])
    assert isa(vector, VectorType) and not isa(f32, VectorType)
    assert not isa(vector, VectorType[IntegerType])
    op = arith.ConstantOp(IntegerAttr(1, i32))
    assert isinstance(op, Operation) and not isinstance(op, arith.AddfOp | scf.IfOp)


def test_implicit_builders_see_new_ops():
    block = Block()
    with ImplicitBuilder(block):
        op = arith.ConstantOp(IntegerAttr(1, i32))
    assert list(block.ops) == [op]


def test_names_keep_their_rules():
    value = test.TestOp(result_types=[f32]).results[0]
    value.name_hint = "a_1"
    assert value.name_hint == "a"
    with pytest.raises(ValueError, match="Invalid"):
        value.name_hint = "1a"
