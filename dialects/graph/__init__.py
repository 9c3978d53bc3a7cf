"""The graph dialect: operators on static tensors, weights by name, fused groups as regions.

    from tcopt.dialects import graph
    y = graph.ConvOp(x, w, strides=[2, 2], pads=[1, 1, 1, 1])

The dialect holds every op that a module of this package defines, and each is a name of the
package. `__init__.pyi`, which `make docs` writes, says the same to type checkers.
"""

import importlib
import pkgutil
from collections.abc import Iterator

from xdsl.ir import Dialect, Operation

from tcopt.dialects.graph.attributes import ATTRIBUTES, FusionKind
from tcopt.dialects.graph.dims import DimsAttr
from tcopt.dialects.graph.layout import Layout
from tcopt.dialects.graph.types import AnyTensor, tensor
from tcopt.dialects.graph.weights import WeightStore, attach_weights, weights_of

__all__ = [
    "DIALECT",
    "AnyTensor",
    "DimsAttr",
    "FusionKind",
    "Layout",
    "WeightStore",
    "attach_weights",
    "tensor",
    "weights_of",
]


def _classes() -> Iterator[type[Operation]]:
    """Classes of ops, the abstract ones among them, by module."""
    for info in pkgutil.iter_modules(__path__, __name__ + "."):
        for value in vars(importlib.import_module(info.name)).values():
            # Not by `issubclass`, which asks all subclasses of Operation before it says no.
            if isinstance(value, type) and Operation in value.__mro__:
                # A package of several modules gives what it re-exports.
                home = value.__module__
                if home == info.name or (info.ispkg and home.startswith(f"{info.name}.")):
                    yield value


_found = {cls.__name__: cls for cls in _classes() if not cls.__name__.startswith("_")}
globals().update(_found)
__all__ += sorted(_found)  # pyright: ignore[reportUnsupportedDunderAll]

# Of an abstract class all subclasses are asked whether they have one as theirs.
_DEFINED = [cls for cls in _found.values() if "get_irdl_definition" in vars(cls)]
DIALECT = Dialect("graph", _DEFINED, [*ATTRIBUTES, DimsAttr])
