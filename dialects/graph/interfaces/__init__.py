"""What every operator says about itself: one interface a concern, with defaults.

A pass asks these methods and never lists op names. To add an operator, write a class
with operands, properties, `infer`, `compute` and `tensor_expression` in a new file of this
package's parent; the dialect finds it. An operator of which a default is not the best answer
overrides that method.

| interface | who asks |
|---|---|
| `FusionInterface` | `fuse-ops`, `decompose` |
| `MemoryInterface` | `fuse-ops`, lowering of host functions: views, slices and joins in place |
| `LayoutInterface` | `convert-layout` |
| `PaddingInterface` | `propagate-padding` |
| `PrecisionInterface` | quantisation, conversions of element types, `fold-scale` |
| `FoldingInterface` | `canonicalize` |
"""

from tcopt.dialects.graph.interfaces.folding import FoldingInterface, Simplify
from tcopt.dialects.graph.interfaces.fusion import FusionInterface
from tcopt.dialects.graph.interfaces.graph_op import GraphOp
from tcopt.dialects.graph.interfaces.layout import LayoutInterface
from tcopt.dialects.graph.interfaces.memory import MemoryInterface
from tcopt.dialects.graph.interfaces.padding import PaddingInterface
from tcopt.dialects.graph.interfaces.precision import (
    Clamp,
    Limits,
    LinearWeight,
    PrecisionInterface,
)
from tcopt.dialects.graph.interfaces.text import (
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
    "LayoutInterface",
    "Limits",
    "LinearWeight",
    "MemoryInterface",
    "PaddingInterface",
    "PrecisionInterface",
    "Simplify",
    "parse_operands",
    "parse_properties",
    "print_operands",
    "print_properties",
]
