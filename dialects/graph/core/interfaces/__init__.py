"""Interfaces of graph ops: one for each concern, with default implementations.

Passes call these methods and never list op names. To add an operator, write a class with operands,
properties, `infer`, `compute` and `tensor_expression` in a new file below `dialects/graph/`; the
dialect finds it. An operator overrides the methods whose default is not the best answer for it. A
form that only one pass chooses is a rule next to the pass (`OpFunction`).

| interface | used by |
|---|---|
| `FusionInterface` | `fuse-ops`, `decompose` |
| `MemoryInterface` | `fuse-ops`, lowering of host functions: views, in-place slices and joins |
| `PrecisionInterface` | quantisation, conversions of element types, `fold-scale` |
| `FoldingInterface` | `canonicalize` |
"""

from tcopt.dialects.graph.core.interfaces.folding import FoldingInterface, Simplify
from tcopt.dialects.graph.core.interfaces.fusion import FusionInterface
from tcopt.dialects.graph.core.interfaces.graph_op import GraphOp
from tcopt.dialects.graph.core.interfaces.memory import MemoryInterface
from tcopt.dialects.graph.core.interfaces.precision import (
    Clamp,
    LinearWeight,
    PrecisionInterface,
)
from tcopt.dialects.graph.core.interfaces.text import (
    parse_operands,
    parse_properties,
    print_operands,
    print_properties,
)

__all__ = [
    "Clamp",
    "FoldingInterface",
    "FusionInterface",
    "GraphOp",
    "LinearWeight",
    "MemoryInterface",
    "PrecisionInterface",
    "Simplify",
    "parse_operands",
    "parse_properties",
    "print_operands",
    "print_properties",
]
