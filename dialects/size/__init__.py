"""size: named sizes in types, for programs that serve a range of sizes."""

from xdsl.ir import Dialect

from tcopt.dialects.size.define import (
    DefineOp,
    are_known_at,
    defined_symbols,
    definitions_for,
    symbols_used_by,
    verify_uses,
)
from tcopt.dialects.size.dims import (
    DimsAttr,
    dims_attr,
    extents_of,
    row_major,
    sized_memref,
    sized_tensor,
    substitute_type,
    symbols_in,
)
from tcopt.dialects.size.functions import (
    SYMBOLS,
    function_symbols,
    set_function_symbols,
    size_arguments,
    size_expression,
    size_of,
    verify_call,
    verify_symbols,
)
from tcopt.dialects.size.lowered import (
    BYTES,
    TRIP,
    IndexOp,
    Measure,
    SizeValues,
    buffer_types,
    dynamic_type,
    set_buffer_types,
    sized,
    static_type,
    view_of,
)
from tcopt.dialects.size.syntax import extent_text, parse_extent, print_extent

DIALECT = Dialect("size", [DefineOp], [DimsAttr])

__all__ = [
    "BYTES",
    "DIALECT",
    "DefineOp",
    "SYMBOLS",
    "TRIP",
    "DimsAttr",
    "IndexOp",
    "Measure",
    "SizeValues",
    "are_known_at",
    "buffer_types",
    "defined_symbols",
    "definitions_for",
    "dims_attr",
    "dynamic_type",
    "extent_text",
    "extents_of",
    "function_symbols",
    "parse_extent",
    "print_extent",
    "row_major",
    "set_buffer_types",
    "set_function_symbols",
    "size_arguments",
    "size_expression",
    "size_of",
    "sized",
    "sized_memref",
    "sized_tensor",
    "static_type",
    "substitute_type",
    "symbols_in",
    "symbols_used_by",
    "verify_call",
    "verify_symbols",
    "verify_uses",
    "view_of",
]
