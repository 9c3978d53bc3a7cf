"""Attributes of graph ops: enumerations, and helpers to build and read plain values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, cast

from xdsl.dialects.builtin import (
    I64,
    DenseArrayBase,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    UnitAttr,
    f64,
    i64,
)
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, SpacedOpaqueSyntaxAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.utils.str_enum import StrEnum

from tcopt.dialects.size import DimsAttr
from tcopt.support.arithmetic.sizes import is_fixed
from tcopt.support.memo import memo

Ints: TypeAlias = DenseArrayBase[I64]
Extent: TypeAlias = IntegerAttr[I64] | DimsAttr
Extents: TypeAlias = DenseArrayBase[I64] | DimsAttr
Floats: TypeAlias = DenseArrayBase[Float64Type]
Int: TypeAlias = IntegerAttr[I64]
Float: TypeAlias = FloatAttr[Float64Type]

UNIT = UnitAttr()


class FusionKind(StrEnum):
    """Fusion kinds of ops (the TVM paper, section 3)."""

    INJECTIVE = "injective"
    """Each output element comes from one element of each input."""
    REDUCTION = "reduction"
    """Input elements are combined; injective producers fuse into it."""
    COMPLEX_OUT_FUSABLE = "complex_out_fusable"
    """A compute-bound op that elementwise consumers can fuse into (convolution, matmul)."""
    OPAQUE = "opaque"
    """An op that is never fused."""


class GeluApproximation(StrEnum):
    """Approximation of gelu: `none` is exact through erf, `tanh` the usual polynomial inside
    tanh."""

    NONE = "none"
    TANH = "tanh"


class ComparePredicate(StrEnum):
    """Predicates of an elementwise comparison; floats compare ordered, except that `ne` holds for
    nan."""

    EQ = "eq"
    NE = "ne"
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"


class ReduceKind(StrEnum):
    """Kinds of reductions of graph.reduce, with ONNX's names."""

    SUM = "sum"
    MEAN = "mean"
    MAX = "max"
    MIN = "min"
    PROD = "prod"
    L1 = "l1"
    L2 = "l2"
    SUM_SQUARE = "sum_square"
    LOG_SUM = "log_sum"
    LOG_SUM_EXP = "log_sum_exp"


class Extremum(StrEnum):
    """Extrema that graph.arg_reduce looks for."""

    MAX = "max"
    MIN = "min"


class ScatterReduction(StrEnum):
    """Combinations of a scattered update with the existing element, with ONNX's names."""

    NONE = "none"
    ADD = "add"
    MUL = "mul"
    MAX = "max"
    MIN = "min"


class TreeAggregate(StrEnum):
    """Combinations of the values that several trees contribute to one target."""

    SUM = "sum"
    MIN = "min"
    MAX = "max"


class SamplePadding(StrEnum):
    """Values outside the data that graph.sample interpolates, with ONNX's names."""

    ZEROS = "zeros"
    BORDER = "border"
    REFLECTION = "reflection"


class PoolKind(StrEnum):
    """Reductions of a pooling window; `lp` is the p-norm."""

    MAX = "max"
    AVERAGE = "average"
    LP = "lp"


class PadMode(StrEnum):
    """Sources of the elements outside a padded tensor."""

    CONSTANT = "constant"
    REFLECT = "reflect"
    EDGE = "edge"
    WRAP = "wrap"


class ResizeMode(StrEnum):
    """Interpolation modes of graph.resize."""

    NEAREST = "nearest"
    LINEAR = "linear"
    CUBIC = "cubic"


class Coordinate(StrEnum):
    """Mappings of an output index to an input coordinate in graph.resize, with ONNX's names."""

    HALF_PIXEL = "half_pixel"
    HALF_PIXEL_SYMMETRIC = "half_pixel_symmetric"
    PYTORCH_HALF_PIXEL = "pytorch_half_pixel"
    ALIGN_CORNERS = "align_corners"
    TF_HALF_PIXEL_FOR_NN = "tf_half_pixel_for_nn"
    ASYMMETRIC = "asymmetric"
    TF_CROP_AND_RESIZE = "tf_crop_and_resize"


class NearestMode(StrEnum):
    """Rounding of a coordinate in nearest resizing."""

    ROUND_PREFER_FLOOR = "round_prefer_floor"
    ROUND_PREFER_CEIL = "round_prefer_ceil"
    FLOOR = "floor"
    CEIL = "ceil"


class DepthOrder(StrEnum):
    """Channel orders of depth_to_space: depth-column-row or column-row-depth."""

    DCR = "dcr"
    CRD = "crd"


@irdl_attr_definition
class FusionKindAttr(EnumAttribute[FusionKind], SpacedOpaqueSyntaxAttribute):
    """Attribute that holds a `FusionKind`."""

    name = "graph.fusion_kind"


@irdl_attr_definition
class GeluApproximationAttr(EnumAttribute[GeluApproximation], SpacedOpaqueSyntaxAttribute):
    """Attribute that holds the approximation of a gelu."""

    name = "graph.gelu_approximation"


@irdl_attr_definition
class ComparePredicateAttr(EnumAttribute[ComparePredicate], SpacedOpaqueSyntaxAttribute):
    """Attribute that holds the predicate of a comparison."""

    name = "graph.compare_predicate"


@irdl_attr_definition
class ReduceKindAttr(EnumAttribute[ReduceKind], SpacedOpaqueSyntaxAttribute):
    """Attribute that holds the kind of a reduction."""

    name = "graph.reduce_kind"


@irdl_attr_definition
class ExtremumAttr(EnumAttribute[Extremum], SpacedOpaqueSyntaxAttribute):
    """Attribute that selects argmax or argmin."""

    name = "graph.extremum"


@irdl_attr_definition
class ScatterReductionAttr(EnumAttribute[ScatterReduction], SpacedOpaqueSyntaxAttribute):
    """Attribute that holds the reduction of a scatter."""

    name = "graph.scatter_reduction"


@irdl_attr_definition
class TreeAggregateAttr(EnumAttribute[TreeAggregate], SpacedOpaqueSyntaxAttribute):
    """Attribute that holds the aggregation of a tree ensemble."""

    name = "graph.tree_aggregate"


@irdl_attr_definition
class SamplePaddingAttr(EnumAttribute[SamplePadding], SpacedOpaqueSyntaxAttribute):
    """Attribute that holds the padding mode of graph.sample."""

    name = "graph.sample_padding"


@irdl_attr_definition
class PoolKindAttr(EnumAttribute[PoolKind], SpacedOpaqueSyntaxAttribute):
    """Attribute that holds the kind of a pooling."""

    name = "graph.pool_kind"


@irdl_attr_definition
class PadModeAttr(EnumAttribute[PadMode], SpacedOpaqueSyntaxAttribute):
    """Attribute that holds the mode of a pad."""

    name = "graph.pad_mode"


@irdl_attr_definition
class ResizeModeAttr(EnumAttribute[ResizeMode], SpacedOpaqueSyntaxAttribute):
    """Attribute that holds the interpolation of a resize."""

    name = "graph.resize_mode"


@irdl_attr_definition
class CoordinateAttr(EnumAttribute[Coordinate], SpacedOpaqueSyntaxAttribute):
    """Attribute that holds the coordinate mapping of a resize."""

    name = "graph.coordinate"


@irdl_attr_definition
class NearestModeAttr(EnumAttribute[NearestMode], SpacedOpaqueSyntaxAttribute):
    """Attribute that holds the rounding of a nearest resize."""

    name = "graph.nearest_mode"


@irdl_attr_definition
class DepthOrderAttr(EnumAttribute[DepthOrder], SpacedOpaqueSyntaxAttribute):
    """Attribute that holds the channel order of a depth_to_space."""

    name = "graph.depth_order"


ATTRIBUTES: list[type[Attribute]] = [
    FusionKindAttr,
    GeluApproximationAttr,
    ComparePredicateAttr,
    ReduceKindAttr,
    ExtremumAttr,
    ScatterReductionAttr,
    TreeAggregateAttr,
    SamplePaddingAttr,
    PoolKindAttr,
    PadModeAttr,
    ResizeModeAttr,
    CoordinateAttr,
    NearestModeAttr,
    DepthOrderAttr,
]


@memo(4096)
def _ints(values: tuple[int, ...]) -> Ints:
    return DenseArrayBase.from_list(i64, values)


def ints(values: Sequence[int]) -> Ints:
    """Return an i64 array attribute, printed as `[1, 2]`."""
    return _ints(tuple(map(int, values)))


def extent_attr(value: int) -> Extent:
    """Return an i64 attribute, or `#size.dims<n[1:8]>` for a size."""
    return integer(value) if is_fixed((value,)) else DimsAttr((value,))


def extent_in(attr: Extent) -> int:
    """Return the value of an attribute, which may be a size."""
    return cast(int, attr.extents[0]) if isinstance(attr, DimsAttr) else attr.value.data


def extents_attr(values: Sequence[int]) -> Extents:
    """Return an i64 array attribute, or `#size.dims<n[1:8], 2>` if some values are sizes."""
    return ints(values) if is_fixed(values) else DimsAttr(tuple(values))


def floats(values: Sequence[float]) -> Floats:
    """Return an f64 array attribute, printed as `[1.0, 2.0]`."""
    return DenseArrayBase.from_list(f64, tuple(map(float, values)))


@memo(4096)
def integer(value: int) -> Int:
    """Return an i64 attribute."""
    return IntegerAttr(int(value), i64)


def real(value: float) -> Float:
    """Return an f64 attribute."""
    return FloatAttr(float(value), f64)


def flag(value: bool) -> UnitAttr | None:
    """Return a unit attribute if `value` is true, else None."""
    return UNIT if value else None


def values_of(attr: Ints | None) -> tuple[int, ...] | None:
    """Return the integers of an optional array attribute."""
    return None if attr is None else attr.get_values()


def extents_in(attr: Extents) -> tuple[int, ...]:
    """Return the integers of an attribute, some of which may be sizes."""
    return (
        cast("tuple[int, ...]", attr.extents) if isinstance(attr, DimsAttr) else attr.get_values()
    )
