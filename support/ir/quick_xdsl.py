"""Faster equivalents of methods of xDSL's classes.

Half of the time of a compile is spent in small methods of xDSL that passes call for every op:
accessors of operands, hashes of values, checks of types and constructors. `install` replaces them
by forms that have the same results and errors. They depend on the internals of the pinned version
of xDSL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from operator import attrgetter
from typing import Any

from xdsl import irdl
from xdsl.ir import Attribute, Data, Operation, ParametrizedAttribute, Region, SSAValue, Use
from xdsl.ir.core import BlockOps, IRWithName, OpResult, SSAValues, _IRNode
from xdsl.irdl import IRDLOperation, operations
from xdsl.irdl.operations import BaseAccessor, BeforeVariadicSingleAccessor, VarIRConstruct

# pyright: reportPrivateUsage=false

_OPERANDS = VarIRConstruct.OPERAND
_item = tuple[Any, ...].__getitem__
_set_name = IRWithName.name_hint.fset
_build_arguments = operations.irdl_build_arg_list
_initialise = Operation.__init__


def install() -> None:
    """Replace methods of xDSL's classes by faster equivalents, once."""
    for owner, name, replacement in _replacements():
        setattr(owner, name, replacement)


def _replacements() -> list[tuple[object, str, object]]:
    """Return owner, name and replacement of each method."""
    identity = object.__hash__
    return [
        (SSAValue, "__hash__", identity),
        (_IRNode, "__hash__", identity),
        (IRDLOperation, "__hash__", identity),
        (Use, "__hash__", identity),
        (SSAValue, "type", property(attrgetter("_type"))),
        (IRWithName, "name_hint", property(attrgetter("_name"), _set_name)),
        (Operation, "next_op", property(attrgetter("_next_op"))),
        (Operation, "prev_op", property(attrgetter("_prev_op"))),
        (Operation, "__init__", _init_operation),
        (SSAValues, "__getitem__", _value_or_slice),
        (BlockOps, "__iter__", _ops_of_block),
        (Attribute, "__post_init__", _check_attribute),
        (BaseAccessor, "__get__", _group),
        (BeforeVariadicSingleAccessor, "__get__", _single),
        (operations, "irdl_build_arg_list", _arguments),
        (irdl, "irdl_to_attr_constraint", _cached(irdl.irdl_to_attr_constraint)),
    ]


def _value_or_slice(values: SSAValues[SSAValue], index: int | slice) -> object:
    if index.__class__ is int:
        return _item(values, index)
    found = _item(values, index)
    return SSAValues(found) if isinstance(index, slice) else found


def _ops_of_block(ops: BlockOps) -> Iterator[Operation]:
    """Iterate over the ops of a block; the current one may be erased."""
    op = ops.block._first_op
    while op is not None:
        following = op._next_op
        yield op
        op = following


def _check_attribute(attribute: Attribute) -> None:
    attribute._verify()
    if not _is_attribute_class(type(attribute)):
        raise TypeError("Attributes should only be Data or ParametrizedAttribute")


@cache
def _is_attribute_class(kind: type[Attribute]) -> bool:
    return issubclass(kind, Data | ParametrizedAttribute)


def _group(accessor: BaseAccessor, op: Operation, kind: object = None) -> object:
    """Return the operands, results, regions or successors that a name of an op refers to."""
    construct = accessor.construct
    if construct is _OPERANDS:
        return accessor.index(op._operands)
    return accessor.index(operations.get_op_constructs(op, construct))


def _single(accessor: BeforeVariadicSingleAccessor, op: Operation, kind: object = None) -> object:
    """Return the operand, result, region or successor that a name of an op refers to."""
    construct = accessor.construct
    if construct is _OPERANDS:
        return _item(op._operands, accessor.idx)
    return operations.get_op_constructs(op, construct)[accessor.idx]


def _arguments(
    construct: VarIRConstruct,
    args: Sequence[Any],
    arg_defs: Sequence[tuple[str, Any]],
    error_prefix: str = "",
) -> tuple[list[Any], list[int]]:
    """Return the arguments of an op's constructor as one list, and the sizes of its groups."""
    count = len(args)
    if count == len(arg_defs):
        kinds: set[type[object]] = set(map(type, args))
        if not any(map(_is_group, kinds)):
            return list(args), [1] * count
    build: Callable[..., tuple[list[Any], list[int]]] = _build_arguments
    return build(construct, args, arg_defs, error_prefix)


@cache
def _is_group(kind: type[object]) -> bool:
    return kind is type(None) or issubclass(kind, Sequence)


def _init_operation(
    self: Operation,
    *,
    operands: Sequence[SSAValue] = (),
    result_types: Sequence[Attribute] = (),
    properties: Mapping[str, Attribute] = {},
    attributes: Mapping[str, Attribute] = {},
    location: Any = None,
    successors: Sequence[Any] = (),
    regions: Sequence[Region] = (),
) -> None:
    """Initialise an op; one with successors by xDSL's own method."""
    if successors:
        _initialise(
            self,
            operands=operands,
            result_types=result_types,
            properties=properties,
            attributes=attributes,
            location=location,
            successors=successors,
            regions=regions,
        )
        return
    set_values(self, operands, result_types)
    self.properties = dict(properties)
    self.attributes = dict(attributes)
    self.location = _unknown_location() if location is None else location
    self.regions = ()
    for region in regions:
        self.add_region(region)
    self.__post_init__()


def set_values(
    op: Operation, operands: Sequence[SSAValue], result_types: Sequence[Attribute]
) -> None:
    """Set the operands of a new op, and create its results."""
    uses: list[Use] = []
    for index, operand in enumerate(operands):
        use = Use(op, index)
        first = operand.first_use
        if first is not None:
            use._next_use = first
            first._prev_use = use
        operand.first_use = use
        uses.append(use)
    op._operands = SSAValues(operands)
    op._operand_uses = tuple(uses)
    op.results = SSAValues([OpResult(kind, op, i) for i, kind in enumerate(result_types)])


@cache
def _unknown_location() -> Any:
    from xdsl.dialects.builtin import UNKNOWN_LOC

    return UNKNOWN_LOC


def _cached(function: Callable[..., Any]) -> Callable[..., Any]:
    """Memoise a function; arguments that have no hash are passed on."""
    table = lru_cache(maxsize=512)(function)

    def cached(*args: Any, **kwargs: Any) -> Any:
        try:
            return table(*args, **kwargs)
        except TypeError:
            return function(*args, **kwargs)

    return cached
