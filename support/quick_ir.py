"""Quicker forms of the methods of xDSL's IR that a compile spends its time in.

Most of the time of a compile goes into making ops, linking them into blocks, and looking at
their operands. The functions here do what xDSL's methods of the same names do, without the
views, iterators, checks of facts that always hold, and repeated look-ups on the way.

They are written for one version of xDSL and stay away from any other.
"""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache, lru_cache
from importlib.metadata import version
from types import FunctionType
from typing import Any

from xdsl.dialects.builtin import UNKNOWN_LOC, LocationAttr
from xdsl.ir import (
    Attribute,
    Block,
    Data,
    Operation,
    OpResult,
    ParametrizedAttribute,
    Region,
    SSAValue,
    Use,
)
from xdsl.ir import core as ir
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import IRDLOperation, OptionalDef
from xdsl.irdl import operations as irdl
from xdsl.utils import hints

# The inner parts of another package are what this file is about.
# pyright: reportPrivateUsage=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false

_VERSION = "0.74.0"

_item = tuple.__getitem__
_Defaults = tuple[tuple[str, Attribute], ...]
_NONE: Mapping[str, Attribute] = {}


def install() -> None:
    """Put the functions in the place of xDSL's methods."""
    if version("xdsl") != _VERSION:
        return
    for identity in (SSAValue, ir._IRNode, IRDLOperation, Use):
        identity.__hash__ = object.__hash__
    Operation.__init__ = _init_operation
    Operation.create = classmethod(_create)
    Operation.operands = property(ir.OpOperands, _set_operands)
    Operation.drop_all_references = _drop_all_references
    Operation.erase = _erase_operation
    Operation.walk = _walk
    IRDLOperation.__post_init__ = _fill_defaults
    ir.SSAValues.__getitem__ = _get_value
    ir.OpOperands.__getitem__ = _get_operand
    ir.OpOperands.__setitem__ = _set_operand
    ir.BlockOps.__iter__ = _iterate_block
    ir.IRWithName.name_hint = property(_get_name_hint, _set_name_hint)
    Block._attach_op = _attach
    Block.add_op = _add_op
    Block.insert_op_before = _insert_op_before
    irdl.BaseAccessor.__get__ = _get_group
    irdl.BeforeVariadicSingleAccessor.__get__ = _get_single
    irdl.BaseAttrAccessor.__get__ = _get_sized_group
    Attribute.__post_init__ = _verify_attribute
    for root in (Attribute, AffineExpr, AffineMap, ir.IRWithUses, ir._IRNode):
        for cls in _with_subclasses(root):
            if type(cls) is ABCMeta:
                cls.__class__ = _QuickMeta
            if "__hash__" in vars(cls) and is_dataclass(cls) and issubclass(cls, _HASHED):
                cls.__hash__ = _remembered(cls.__hash__)
    hints.isa.__code__ = _isa.__code__
    hints._isa_of_any_hint = _isa_of_any_hint


# Classes and attributes


class _QuickMeta(ABCMeta):
    """Classes whose instances are told by inheritance alone, which C code can see."""

    __instancecheck__ = type.__instancecheck__


_HASHED = (Attribute, AffineExpr, AffineMap)


def _with_subclasses(cls: type[Any]) -> Iterator[type[Any]]:
    yield cls
    for each in cls.__subclasses__():
        yield from _with_subclasses(each)


def _remembered(compute: Callable[[Any], int]) -> Callable[[Any], int]:
    """A hash that is computed once; without this, it is that of all parts each time."""

    def remembered(self: Any) -> int:
        try:
            return self._hash
        except AttributeError:
            found = compute(self)
            object.__setattr__(self, "_hash", found)
            return found

    return remembered


def _verify_attribute(self: Attribute) -> None:
    self._verify()
    if not isinstance(self, _KINDS):
        raise TypeError("Attributes should only be Data or ParametrizedAttribute")


_KINDS = (ParametrizedAttribute, Data)

_isa_of_any_hint = FunctionType(hints.isa.__code__, hints.isa.__globals__, "_isa_of_any_hint")


def _isa(arg: Any, hint: Any) -> bool:
    # This runs as a function of xDSL's module, with the names that are known there.
    if isinstance(hint, type):
        return isinstance(arg, hint)
    return _isa_of_any_hint(arg, hint)


# Making and erasing ops


def _init_operation(
    self: Operation,
    *,
    operands: Sequence[SSAValue] = (),
    result_types: Sequence[Attribute] = (),
    properties: Mapping[str, Attribute] = _NONE,
    attributes: Mapping[str, Attribute] = _NONE,
    location: LocationAttr | None = None,
    successors: Sequence[Block] = (),
    regions: Sequence[Region] = (),
) -> None:
    # What is left out here has its default in the class.
    if operands:
        self._operands = values = ir.SSAValues(operands)
        self._operand_uses = _add_uses(self, values)
    if result_types:
        self.results = ir.SSAValues(
            [OpResult(type_, self, index) for index, type_ in enumerate(result_types)]
        )
    self.properties = dict(properties)
    self.attributes = dict(attributes)
    self.location = UNKNOWN_LOC if location is None else location
    if successors:
        self.successors = successors
    self.regions = ()
    for region in regions:
        self.add_region(region)
    self.__post_init__()


def _create(
    cls: type[Operation],
    *,
    operands: Sequence[SSAValue] = (),
    result_types: Sequence[Attribute] = (),
    properties: Mapping[str, Attribute] = _NONE,
    attributes: Mapping[str, Attribute] = _NONE,
    location: LocationAttr | None = None,
    successors: Sequence[Block] = (),
    regions: Sequence[Region] = (),
) -> Operation:
    op = cls.__new__(cls)
    _init_operation(
        op,
        operands=operands,
        result_types=result_types,
        properties=properties,
        attributes=attributes,
        location=location,
        successors=successors,
        regions=regions,
    )
    return op


def _add_uses(op: Operation, values: Sequence[SSAValue]) -> tuple[Use, ...]:
    uses: list[Use] = []
    for index, value in enumerate(values):
        first = value.first_use
        use = Use(op, index, None, first)
        if first is not None:
            first._prev_use = use
        value.first_use = use
        uses.append(use)
    return tuple(uses)


def _fill_defaults(self: IRDLOperation) -> None:
    properties, attributes = _defaults_of(type(self))
    for name, value in properties:
        if name not in self.properties:
            self.properties[name] = value
    for name, value in attributes:
        if name not in self.attributes:
            self.attributes[name] = value
    # An implicit builder puts a method of its own there for as long as it is open.
    if Operation.__post_init__ is not _post_init:
        Operation.__post_init__(self)


_post_init = Operation.__post_init__


@cache
def _defaults_of(cls: type[IRDLOperation]) -> tuple[_Defaults, _Defaults]:
    """The properties and attributes that an op gets where it is made without them."""
    definition = cls.get_irdl_definition()
    found: list[_Defaults] = []
    for group in (definition.properties, definition.attributes):
        found.append(
            tuple(
                (name, each.default_value)
                for name, each in group.items()
                if not isinstance(each, OptionalDef) and each.default_value is not None
            )
        )
    return found[0], found[1]


def _drop_all_references(self: Operation) -> None:
    self.parent = None
    for operand, use in zip(self._operands, self._operand_uses, strict=False):
        operand.remove_use(use)
    self._operand_uses = ()
    if self._successor_uses:
        for successor, use in zip(self._successors, self._successor_uses, strict=False):
            successor.remove_use(use)
        self._successor_uses = ()
    self._successors = ()
    for region in self.regions:
        region.drop_all_references()


def _erase_operation(
    self: Operation, safe_erase: bool = True, drop_references: bool = True
) -> None:
    assert self.parent is None, "Operation with parents should first be detached before erasure."
    if drop_references:
        self.drop_all_references()
    for result in tuple.__iter__(self.results):
        if result.first_use is not None:
            result.erase(safe_erase=safe_erase)


# Operands


def _set_operands(self: Operation, new: Sequence[SSAValue]) -> None:
    values = ir.SSAValues(new)
    for operand, use in zip(self._operands, self._operand_uses, strict=False):
        operand.remove_use(use)
    self._operand_uses = _add_uses(self, values)
    self._operands = values


def _get_value(self: tuple[Any, ...], idx: Any) -> Any:
    found = _item(self, idx)
    return ir.SSAValues(found) if idx.__class__ is slice else found


def _get_operand(self: ir.OpOperands, idx: Any) -> Any:
    found = _item(self._op._operands, idx)
    return ir.SSAValues(found) if idx.__class__ is slice else found


def _set_operand(self: ir.OpOperands, idx: int, operand: SSAValue) -> None:
    op = self._op
    values = list(op._operands)
    use = op._operand_uses[idx]
    values[idx].remove_use(use)
    operand.add_use(use)
    values[idx] = operand
    op._operands = ir.SSAValues(values)


_OPERAND = irdl.VarIRConstruct.OPERAND
_RESULT = irdl.VarIRConstruct.RESULT


def _get_single(self: Any, obj: Operation, objtype: Any = None) -> Any:
    construct = self.construct
    if construct is _OPERAND:
        return _item(obj._operands, self.idx)
    if construct is _RESULT:
        return _item(obj.results, self.idx)
    return _all_of(obj, construct)[self.idx]


def _get_group(self: Any, obj: Operation, objtype: Any = None) -> Any:
    return self.index(_all_of(obj, self.construct))


def _get_sized_group(self: Any, obj: Operation, objtype: Any = None) -> Any:
    option = self.option
    sizes = option.container(obj)[option.attribute_name]
    return self.index(_unpack(sizes.data.data), _all_of(obj, self.construct))


def _all_of(op: Operation, construct: irdl.VarIRConstruct) -> Sequence[Any]:
    if construct is _OPERAND:
        return op._operands
    if construct is _RESULT:
        return op.results
    return op.regions if construct is irdl.VarIRConstruct.REGION else op.successors


@lru_cache(maxsize=4096)
def _unpack(sizes: bytes) -> tuple[int, ...]:
    """The sizes of groups, which are 32-bit integers."""
    return tuple(memoryview(sizes).cast("i"))


# Names


def _get_name_hint(self: ir.IRWithName) -> str | None:
    return self._name


def _set_name_hint(self: ir.IRWithName, name: str | None) -> None:
    self._name = None if name is None else _valid_name(type(self), name)


@lru_cache(maxsize=4096)
def _valid_name(cls: type[ir.IRWithName], name: str) -> str:
    return cls.extract_valid_name(name)


# Blocks


def _iterate_block(self: ir.BlockOps) -> Iterator[Operation]:
    return _following(self.block._first_op)


def _following(op: Operation | None) -> Iterator[Operation]:
    """An op and all after it; the one given last may be taken out."""
    while op is not None:
        following = op._next_op
        yield op
        op = following


def _walk(
    self: Operation, *, reverse: bool = False, region_first: bool = False
) -> Iterator[Operation]:
    if reverse or region_first:
        return _walk_other(self, reverse, region_first)
    return _walk_forward(self)


def _walk_forward(op: Operation) -> Iterator[Operation]:
    yield op
    for region in op.regions:
        for block in region.blocks:
            inner = block._first_op
            while inner is not None:
                following = inner._next_op
                if inner.regions:
                    yield from _walk_forward(inner)
                else:
                    yield inner
                    if inner.regions:
                        yield from _walk_regions(inner)
                inner = following


def _walk_regions(op: Operation) -> Iterator[Operation]:
    for region in op.regions:
        yield from region.walk()


def _walk_other(op: Operation, reverse: bool, region_first: bool) -> Iterator[Operation]:
    if not region_first:
        yield op
    for region in reversed(op.regions) if reverse else op.regions:
        yield from region.walk(reverse=reverse, region_first=region_first)
    if region_first:
        yield op


def _attach(self: Block, operation: Operation) -> None:
    if operation.parent is not None:
        raise ValueError("Can't add to a block an operation already attached to a block.")
    if operation.regions and operation.is_ancestor(self):
        raise ValueError("Can't add an operation to a block contained in the operation.")
    operation.parent = self


def _add_op(self: Block, operation: Operation) -> None:
    _attach(self, operation)
    last = self._last_op
    if last is None:
        self._first_op = operation
    else:
        last._next_op = operation
        operation._prev_op = last
        operation._next_op = None
    self._last_op = operation


def _insert_op_before(self: Block, new_op: Operation, existing_op: Operation) -> None:
    if existing_op.parent is not self:
        raise ValueError("Can't insert operation before operation not in current block")
    _attach(self, new_op)
    before = existing_op._prev_op
    new_op._prev_op = before
    new_op._next_op = existing_op
    existing_op._prev_op = new_op
    if before is None:
        self._first_op = new_op
    else:
        before._next_op = new_op
