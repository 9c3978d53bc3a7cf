"""Access to the constants of a module: read values and create new constants."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tcopt.dialects.graph.core.constant import ConstantOp, is_uniform
from tcopt.dialects.graph.core.types import Array, numpy_dtype, shape_of_type, type_of, zeros
from tcopt.dialects.graph.core.weights import WeightStore, attach_weights, weights_of

LITERAL_ELEMENTS = 16
"""Arrays of up to this many elements become literals, as do uniform arrays of any size."""


class Constants:
    """Reads and creates the constants of a module.

    Attributes:
        store: the module's weights, None until there is one.
    """

    def __init__(self, module: ModuleOp):
        self._module = module
        self.store = weights_of(module)

    def value(self, value: SSAValue) -> Array | None:
        """Return the array of a constant or of an empty tensor; None if it is not known."""
        op = value.owner
        if isinstance(op, ConstantOp):
            literal = op.literal_value
            if literal is not None or self.store is None:
                return literal
            return self.store.get(op.weight_name or "")
        type = type_of(value)
        if 0 in shape_of_type(type):
            return zeros(type)
        return None

    def make(self, array: Array, hint: str) -> ConstantOp:
        """Return a constant of an array: a literal, or a new weight named after `hint`."""
        if array.size <= LITERAL_ELEMENTS or is_uniform(array):
            return ConstantOp.literal(array)
        if self.store is None:
            self.store = WeightStore()
            attach_weights(self._module, self.store)
        return ConstantOp.add_weight(self.store, array, hint)

    def like(self, array: Array, source: SSAValue, change: str) -> ConstantOp:
        """Return a constant derived from another one, with its element type and a similar name."""
        name = source.owner.weight_name if isinstance(source.owner, ConstantOp) else None
        dtype = numpy_dtype(type_of(source).element_type)
        array = np.asarray(array).astype(dtype, copy=False)
        return self.make(array, f"{name or source.name_hint or 'folded'}.{change}")


class EraseUnusedConstant(RewritePattern):
    """Remove a constant that nothing uses.

        %w = graph.constant @w : tensor<8xf32>
    ->
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ConstantOp, rewriter: PatternRewriter) -> None:
        if not op.result.first_use:
            rewriter.erase(op)
