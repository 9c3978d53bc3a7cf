"""Resources of a text: tensors whose elements are in its `dialect_resources` section.

xDSL keeps them in a store of the context, which no module that is printed or copied has. So they
become literals when a text has been read.
"""

from __future__ import annotations

from math import prod
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface
from xdsl.dialects.builtin import (
    Builtin,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    ModuleOp,
)
from xdsl.ir import Attribute, Operation

from tcopt.support.errors import VerificationError
from tcopt.support.locations import describe_location
from tcopt.support.parsing import NORMALIZE

_ALIGNMENT_BYTES = 4
"""A resource begins with the alignment of its elements."""


def resolve_resources(ctx: Context, module: ModuleOp) -> None:
    """Replace the resources of a module's ops by literals; those without data stay.

    Raises:
        VerificationError: the data of one does not fit its type.
    """
    builtin = ctx.get_optional_dialect(Builtin.name) or Builtin
    interface = builtin.get_interface(OpAsmDialectInterface)
    if interface is None:
        return
    try:
        for op in module.walk():
            for space in (op.attributes, op.properties):
                for name, attribute in space.items():
                    if isinstance(attribute, DenseResourceAttr):
                        data = interface.lookup(attribute.resource_handle.data)
                        if data:
                            space[name] = _literal(op, attribute, data)
                            if (normalize := getattr(op, NORMALIZE, None)) is not None:
                                normalize()
    finally:
        # The store is one for all contexts, and renames what the next text calls the same.
        interface._blob_storage.clear()  # pyright: ignore[reportPrivateUsage]


def _literal(op: Operation, resource: DenseResourceAttr, text: str) -> Attribute:
    type_: Any = resource.type
    try:
        data = bytes.fromhex(text.removeprefix("0x"))[_ALIGNMENT_BYTES:]
        size = prod(type_.get_shape()) * type_.element_type.compile_time_size
    except (ValueError, AttributeError):
        data, size = b"", -1
    if len(data) != size:
        raise VerificationError(
            f"the resource '{resource.resource_handle.data}' does not hold the elements of {type_}",
            where=describe_location(op.location),
        )
    return cast(Attribute, DenseIntOrFPElementsAttr(type_, BytesAttr(data)))
