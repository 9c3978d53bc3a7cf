"""Resource limits for models, as a small file can describe an unlimited amount of work."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace

from tcopt.support.arithmetic.sizes import Extent, upper_bound
from tcopt.support.errors import ImportModelError, InputError, UnsupportedError

MOST_DIMENSIONS = 64
"""NumPy's maximum rank; results are NumPy arrays."""


@dataclass(frozen=True)
class ModelLimits:
    """Limits that an imported model must not exceed.

    Attributes:
        tensor_bytes: maximum size of a tensor: input, weight or result.
        nodes: maximum number of nodes after expansion of functions, branches and loops.
        depth: maximum nesting of functions and subgraphs.
        loop_steps: maximum number of iterations of a loop that must be unrolled, or whose results
            of iterations need room while their number is unknown.
        folded_elements: maximum number of elements of a tensor that is computed during import.
        made_elements: maximum number of elements of a constant that an operator implies, such as a
            range or the matrix of a Fourier transform.
    """

    tensor_bytes: int = 2**34
    nodes: int = 50_000
    depth: int = 64
    loop_steps: int = 1024
    folded_elements: int = 1024
    made_elements: int = 2**26

    def check_size(self, shape: Sequence[Extent], itemsize: int) -> None:
        """Check that the size of a tensor is within the limit, at the upper bounds of its extents.

        Raises:
            ImportModelError: it exceeds the limit.
            UnsupportedError: it has too many dimensions.
        """
        if len(shape) > MOST_DIMENSIONS:
            raise UnsupportedError(
                f"tensors of more than {MOST_DIMENSIONS} dimensions are not supported, "
                f"got {len(shape)}",
                hint="join dimensions with Reshape",
            )
        shape = [upper_bound(extent) for extent in shape]
        size, most = math.prod(shape) * itemsize, self.tensor_bytes
        if size > most:
            raise ImportModelError(
                f"a tensor of shape {_short(shape)} is too large: {size / 2**30:.3g} GiB",
                hint=f"if this size is intended, raise the limit tensor-bytes={most}",
            )
        if math.prod(extent for extent in shape if extent) * itemsize >= 2**62:
            raise ImportModelError(
                f"a tensor of shape {_short(shape)} has no elements, but strides that overflow"
            )

    def check_made(self, *shape: int) -> None:
        """Check that a constant that is not in the model may be created with this shape.

        Raises:
            ImportModelError: it exceeds the limit.
        """
        most = self.made_elements
        if math.prod(shape) > most:
            raise ImportModelError(
                f"a constant of shape {_short(shape)} is needed, which is too large",
                hint=f"if this size is intended, raise the limit made-elements={most}",
            )


def _short(shape: Sequence[int]) -> str:
    return str(list(shape)) if len(shape) <= 16 else f"{list(shape[:16])[:-1]}..."


DEFAULT_LIMITS = ModelLimits()


def parse_limits(texts: Iterable[str]) -> ModelLimits:
    """Parse limits such as `tensor-bytes=1000000`.

    Raises:
        InputError: the limit does not exist, or its value is not a positive integer.
    """
    limits = DEFAULT_LIMITS
    names = {field.name.replace("_", "-"): field.name for field in fields(ModelLimits)}
    for text in texts:
        name, _, value = text.partition("=")
        if name not in names:
            raise InputError(f"there is no limit '{name}'", hint=f"limits are {', '.join(names)}")
        if not re.fullmatch(r"[1-9][0-9]{0,17}", value):
            raise InputError(f"'{text}' is not a limit", hint=f"write '{name}=1000'")
        limits = replace(limits, **{names[name]: int(value)})
    return limits
