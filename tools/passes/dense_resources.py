"""Dense resources: tensors whose elements are in the `dialect_resources` section of the text.

xDSL keeps them in a global store, so copies of a module would lose them. They are therefore
converted to literals after parsing, and literals with the same values are printed as resources
again.
"""

from __future__ import annotations

from collections.abc import Mapping
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
from xdsl.printer import Printer

from tcopt.support.errors import VerificationError
from tcopt.support.locations import describe_location
from tcopt.support.syntax.parsing import NORMALIZE

_ALIGNMENT_BYTES = 4
"""A resource starts with the alignment of its elements."""


Resources = dict[Attribute, tuple[str, str]]
"""Literals that were resources, with the resource's name and text."""


def resolve_resources(ctx: Context, module: ModuleOp) -> Resources:
    """Replace the resources of a module's ops by literals; resources without data are kept.

    Returns:
        The literals, to be passed to `ResourcePrinter`.
    Raises:
        VerificationError: the data of a resource does not match its type.
    """
    builtin = ctx.get_optional_dialect(Builtin.name) or Builtin
    interface = builtin.get_interface(OpAsmDialectInterface)
    if interface is None:
        return {}
    found: Resources = {}
    try:
        for op in module.walk():
            for space in (op.attributes, op.properties):
                for name, attribute in space.items():
                    if isinstance(attribute, DenseResourceAttr):
                        handle = attribute.resource_handle.data
                        data = interface.lookup(handle)
                        if data:
                            space[name] = _literal(op, attribute, data)
                            found.setdefault(space[name], (handle, data))
                            if (normalize := getattr(op, NORMALIZE, None)) is not None:
                                normalize()
    finally:
        # All contexts share the store, which would rename equally named resources of the next text.
        interface._blob_storage.clear()  # pyright: ignore[reportPrivateUsage]
    return found


class ResourcePrinter(Printer):
    """Printer that prints literals as the resources that they were parsed from."""

    def __init__(self, stream: Any, resources: Mapping[Attribute, tuple[str, str]], **options: Any):
        super().__init__(stream, **options)
        self._resources = resources
        self._printed: dict[str, str] = {}

    def print_attribute(self, attribute: Attribute) -> None:
        found = self._resources.get(attribute) if self._resources else None
        if found is None:
            super().print_attribute(attribute)
            return
        name, text = found
        self._printed[name] = text
        self.print_string(f"dense_resource<{name}> : ")
        self.print_attribute(cast(Any, attribute).type)

    def print_resources(self) -> None:
        """Print the resource section, if any resource was printed."""
        if not self._printed:
            return
        entries = ",\n".join(f'      {name}: "{text}"' for name, text in self._printed.items())
        head, tail = "{-#\n  dialect_resources: {\n    builtin: {", "    }\n  }\n#-}"
        self.print_string(f"\n\n{head}\n{entries}\n{tail}")


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
