"""The fast constructors build the same IR as xDSL's own methods."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from xdsl.dialects import arith, func, memref, scf, test
from xdsl.dialects.builtin import (
    DenseArrayBase,
    FloatAttr,
    IndexType,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    TensorType,
    VectorType,
    f32,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from tcopt.dialects import loop, sched, te
from tcopt.dialects.arith_ import CmpiOp
from tcopt.dialects.graph import ReluOp
from tcopt.dialects.table import ScaleOp
from tcopt.support.ir.literals import number_list, segment_sizes
from tcopt.support.ir.quick_ir import (
    AttributeNumbers,
    append_op,
    append_ops,
    copy_name,
    erase_op,
    insert_ops,
    keep_name,
    new_op,
    ops_of,
    ops_with_regions,
    walk_ops,
)

BUFFER = MemRefType(f32, [8, 8])


def _facts(op: Operation) -> dict[str, Any]:
    """Return everything about an op, its uses and its position."""
    return {
        "kind": type(op),
        "operands": [id(value) for value in op.operands],
        "uses": [(use.operation is op, use.index) for use in op._operand_uses],
        "results": [(r.type, r.index, r.owner is op, r.name_hint) for r in op.results],
        "properties": op.properties,
        "attributes": op.attributes,
        "location": op.location,
        "successors": list(op.successors),
        "regions": [(region.parent is op, len(region.blocks)) for region in op.regions],
        "parent": op.parent,
        "neighbours": (op.prev_op, op.next_op),
    }


def _uses(value: SSAValue) -> list[tuple[type[Operation], int]]:
    return [(type(use.operation), use.index) for use in value.uses]


def _arguments(*types: Attribute) -> Sequence[SSAValue]:
    return Block(arg_types=types).args


CASES: list[tuple[type[Operation], list[Attribute], list[Attribute], dict[str, Attribute]]] = [
    (arith.AddiOp, [IndexType(), IndexType()], [IndexType()], {}),
    (arith.MulfOp, [f32, f32], [f32], {}),
    (arith.ConstantOp, [], [i32], {"value": IntegerAttr(3, i32)}),
    (memref.LoadOp, [BUFFER, IndexType(), IndexType()], [f32], {}),
    (memref.StoreOp, [f32, BUFFER, IndexType(), IndexType()], [], {}),
    (test.TestOp, [f32, f32], [i32, f32], {"prop1": FloatAttr(1.0, f32)}),
]


@pytest.mark.parametrize(("kind", "inputs", "results", "properties"), CASES)
def test_new_op_is_created(
    kind: type[Operation],
    inputs: list[Attribute],
    results: list[Attribute],
    properties: dict[str, Attribute],
) -> None:
    values = _arguments(*inputs)
    extra = {"a": IntegerAttr(1, i64)}
    expected = kind.create(
        operands=values, result_types=results, properties=properties, attributes=extra
    )
    uses = [_uses(value) for value in values]
    expected_facts = _facts(expected)
    expected.erase()
    op = new_op(kind, values, results, properties, extra)
    assert _facts(op) == expected_facts
    assert [_uses(value) for value in values] == uses
    op.verify()
    op.erase()
    assert not any(_uses(value) for value in values)


def test_an_operand_twice_has_two_uses() -> None:
    (value,) = _arguments(f32)
    first = new_op(arith.AddfOp, [value, value], [f32])
    second = new_op(arith.AddfOp, [value, first.results[0]], [f32])
    assert {(use.operation, use.index) for use in value.uses} == {
        (first, 0),
        (first, 1),
        (second, 0),
    }
    second.erase()
    first.erase()
    assert value.first_use is None


def _load(memref: SSAValue, i: SSAValue, j: SSAValue, mask: SSAValue, body: Region) -> Operation:
    map_ = AffineMap.identity(2)
    type_ = VectorType(f32, [4])
    return loop.LoadOp(memref, map_, [i, j], lanes=[0, 1], mask=mask, result_type=type_)


def _scalar_load(
    memref: SSAValue, i: SSAValue, j: SSAValue, mask: SSAValue, body: Region
) -> Operation:
    return loop.LoadOp(memref, AffineMap.identity(2), [i, j], default=FloatAttr(0.0, f32))


def _store(memref: SSAValue, i: SSAValue, j: SSAValue, mask: SSAValue, body: Region) -> Operation:
    (value,) = _arguments(f32)
    return loop.StoreOp(value, memref, AffineMap.identity(2), [i, j])


def _guard(memref: SSAValue, i: SSAValue, j: SSAValue, mask: SSAValue, body: Region) -> Operation:
    return loop.GuardOp(AffineMap.identity(2), [i, j], [5, 6], body)


def _for(memref: SSAValue, i: SSAValue, j: SSAValue, mask: SSAValue, body: Region) -> Operation:
    return loop.ForOp(4, body)


def _index(memref: SSAValue, i: SSAValue, j: SSAValue, mask: SSAValue, body: Region) -> Operation:
    expr = AffineExpr.dimension(0) + AffineExpr.dimension(1)
    return loop.IndexOp(AffineMap(2, 0, (expr,)), [i, j])


def _split(memref: SSAValue, i: SSAValue, j: SSAValue, mask: SSAValue, body: Region) -> Operation:
    (nest,) = _arguments(sched.LoopType())
    return sched.SplitOp(nest, [None, 4])


def _compare(memref: SSAValue, i: SSAValue, j: SSAValue, mask: SSAValue, body: Region) -> Operation:
    return CmpiOp(i, j, "slt")


def _scale(memref: SSAValue, i: SSAValue, j: SSAValue, mask: SSAValue, body: Region) -> Operation:
    (x,) = _arguments(f32)
    return ScaleOp(x, i, [1.0, 2.0])


def _read(memref: SSAValue, i: SSAValue, j: SSAValue, mask: SSAValue, body: Region) -> Operation:
    (source,) = _arguments(TensorType(f32, [8, 8]))
    return te.ReadOp(source, AffineMap.identity(2), [i, j], FloatAttr(0.0, f32))


def _relu(memref: SSAValue, i: SSAValue, j: SSAValue, mask: SSAValue, body: Region) -> Operation:
    (x,) = _arguments(TensorType(f32, [8, 8]))
    return ReluOp(x)


MAKERS = [
    _load,
    _scalar_load,
    _store,
    _guard,
    _for,
    _index,
    _split,
    _compare,
    _scale,
    _read,
    _relu,
]


@pytest.mark.parametrize("make", MAKERS)
def test_constructors_give_what_creating_gives(make: Callable[..., Operation]) -> None:
    mask = VectorType(IntegerAttr.from_bool(True).type, [4])
    memref_, i, j, lanes = _arguments(BUFFER, IndexType(), IndexType(), mask)
    body = Region(Block(arg_types=[IndexType()] if make is _for else []))
    op = make(memref_, i, j, lanes, body)
    facts, regions = _facts(op), [op.detach_region(region) for region in tuple(op.regions)]
    assert all(use.operation is op for value in op.operands for use in value.uses)
    again = type(op).create(
        operands=op.operands,
        result_types=op.results.types,
        properties=op.properties,
        attributes=op.attributes,
        regions=regions,
    )
    assert _facts(again) == facts
    again.verify()


def _body(*ops: Operation) -> Block:
    block = Block()
    block.add_ops(ops)
    return block


def _constants(count: int) -> list[Operation]:
    return [arith.ConstantOp(IntegerAttr(n, i32)) for n in range(count)]


def _links(block: Block) -> tuple[list[Operation], list[Operation]]:
    """Yield the ops of a block forwards and backwards."""
    back: list[Operation] = []
    op = block.last_op
    while op is not None:
        assert op.parent is block
        back.append(op)
        op = op.prev_op
    return list(block.ops), back[::-1]


def test_ops_are_appended_and_inserted() -> None:
    ops = _constants(7)
    block = Block()
    append_op(block, ops[2])
    append_ops(block, ops[5:])
    insert_ops(ops[:2], ops[2])
    insert_ops(ops[3:5], ops[5])
    insert_ops([], ops[0])
    assert _links(block) == (ops, ops)


@pytest.mark.parametrize("place", [0, 1, 3])
def test_erased_ops_leave_their_block(place: int) -> None:
    ops = _constants(4)
    block = _body(*ops)
    (value,) = _arguments(f32)
    used = new_op(arith.AddfOp, [value, value], [f32])
    block.add_op(used)
    erase_op(used)
    erase_op(ops.pop(place))
    assert value.first_use is None
    assert _links(block) == (ops, ops)


def test_the_only_op_is_erased() -> None:
    block = _body(*_constants(1))
    erase_op(block.ops.first or ModuleOp([]))
    assert block.is_empty and block.last_op is None


def _module() -> ModuleOp:
    """Loops in a function, one of them with an empty body."""
    zero = arith.ConstantOp(IntegerAttr(0, IndexType()))
    inner = scf.ForOp(zero, zero, zero, [], Region(Block([scf.YieldOp()], arg_types=[IndexType()])))
    outer_body = Block([*_constants(2), inner, scf.YieldOp()], arg_types=[IndexType()])
    outer = scf.ForOp(zero, zero, zero, [], Region(outer_body))
    function = func.FuncOp("f", ((), ()), Region(Block([zero, outer, func.ReturnOp()])))
    return ModuleOp([function, func.FuncOp.external("g", [], [])])


def test_walks_are_in_the_order_of_xdsl() -> None:
    module = _module()
    everything = list(module.walk())
    assert list(walk_ops(module)) == everything
    assert ops_of(module, scf.ForOp) == [op for op in everything if type(op) is scf.ForOp]
    inside = [op for op in everything if op is not module and op.regions]
    assert list(ops_with_regions(module.body.block)) == inside


def test_attributes_have_the_number_of_equal_ones() -> None:
    numbers = AttributeNumbers()
    first, second = VectorType(f32, [4]), VectorType(f32, [8])
    assert numbers.number(first) == numbers.number(VectorType(f32, [4]))
    assert numbers.number(first) != numbers.number(second)


def test_names_are_copied_or_kept() -> None:
    old, new, named = _arguments(f32, f32, f32)
    old.name_hint, named.name_hint = "x", "y"
    keep_name(old, named)
    keep_name(old, new)
    assert (new.name_hint, named.name_hint) == ("x", "y")
    copy_name(old, named)
    assert named.name_hint == "x"


def test_lists_of_numbers_are_those_of_xdsl() -> None:
    op = loop.LoadOp(_arguments(BUFFER)[0], AffineMap.constant_map(0), [])
    assert op.properties["operandSegmentSizes"] == segment_sizes(1, 0, 0)
    assert segment_sizes(1, 2, 0) == DenseArrayBase.from_list(i32, [1, 2, 0])
    assert number_list(3, -1) == DenseArrayBase.from_list(i64, [3, -1])
