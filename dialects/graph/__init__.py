"""The graph dialect: operators on static tensors, weights by name, fused groups as regions.

    from tcopt.dialects import graph
    y = graph.ConvOp(x, w, strides=[2, 2], pads=[1, 1, 1, 1])

The dialect holds every op that a module of this package defines; the names below are for
convenience.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

from xdsl.ir import Dialect, Operation

from tcopt.dialects.graph.activation import (
    ClipOp,
    EluOp,
    GeluOp,
    HardSigmoidOp,
    HardSwishOp,
    LeakyReluOp,
    MishOp,
    ReluOp,
    SeluOp,
    SigmoidOp,
    SiluOp,
    SoftplusOp,
    TanhSoftplusOp,
)
from tcopt.dialects.graph.attributes import (
    ATTRIBUTES,
    FusionKind,
)
from tcopt.dialects.graph.binary import (
    AddOp,
    AndOp,
    CompareOp,
    DivOp,
    MaxOp,
    MinOp,
    ModOp,
    MulOp,
    OrOp,
    PowOp,
    PreluOp,
    SelectOp,
    SubOp,
    XorOp,
)
from tcopt.dialects.graph.bitcast import BitcastOp
from tcopt.dialects.graph.cast import (
    CastOp,
    IsInfOp,
    IsNanOp,
)
from tcopt.dialects.graph.col2im import Col2ImOp
from tcopt.dialects.graph.concat_rows import ConcatRowsOp
from tcopt.dialects.graph.constant import (
    ConstantOp,
    IotaOp,
)
from tcopt.dialects.graph.conv import (
    ConvOp,
)
from tcopt.dialects.graph.conv_transpose import ConvTransposeOp
from tcopt.dialects.graph.cumulate import CumulateOp
from tcopt.dialects.graph.determinant import DeterminantOp
from tcopt.dialects.graph.dims import DimsAttr
from tcopt.dialects.graph.elementwise import (
    BinaryOp,
    ElementwiseOp,
    UnaryOp,
)
from tcopt.dialects.graph.gather import (
    GatherElementsOp,
    GatherNdOp,
    GatherOp,
    OneHotOp,
)
from tcopt.dialects.graph.group import (
    GroupOp,
    YieldOp,
)
from tcopt.dialects.graph.interfaces import GraphOp
from tcopt.dialects.graph.interleave import InterleaveOp
from tcopt.dialects.graph.layout import (
    Layout,
    LayoutTransformOp,
)
from tcopt.dialects.graph.lrn import LrnOp
from tcopt.dialects.graph.matmul import MatmulOp
from tcopt.dialects.graph.max_places import MaxPlacesOp
from tcopt.dialects.graph.norm import (
    BatchNormOp,
    GroupNormOp,
    InstanceNormOp,
    LayerNormOp,
    RmsNormOp,
)
from tcopt.dialects.graph.outside import OutsideOp
from tcopt.dialects.graph.pool import PoolOp
from tcopt.dialects.graph.reduce import (
    ArgReduceOp,
    ReduceOp,
)
from tcopt.dialects.graph.resize import ResizeOp
from tcopt.dialects.graph.reverse_sequence import ReverseSequenceOp
from tcopt.dialects.graph.roi_align import RoiAlignOp
from tcopt.dialects.graph.sample import SampleOp
from tcopt.dialects.graph.scan import ScanOp
from tcopt.dialects.graph.scatter import (
    ScatterElementsOp,
    ScatterNdOp,
)
from tcopt.dialects.graph.shape import (
    BroadcastToOp,
    DepthToSpaceOp,
    ReshapeOp,
    SpaceToDepthOp,
    TileOp,
    TransposeOp,
    TriluOp,
)
from tcopt.dialects.graph.shift import ShiftLeftOp, ShiftRightOp
from tcopt.dialects.graph.slice import (
    ConcatOp,
    PadOp,
    SliceOp,
)
from tcopt.dialects.graph.softmax import (
    LogSoftmaxOp,
    SoftmaxOp,
)
from tcopt.dialects.graph.sort_rows import SortRowsOp
from tcopt.dialects.graph.sum_taps import SumTapsOp
from tcopt.dialects.graph.suppress import SuppressOp
from tcopt.dialects.graph.top_k import TopKOp
from tcopt.dialects.graph.tree_ensemble import TreeEnsembleOp
from tcopt.dialects.graph.true_places import TruePlacesOp
from tcopt.dialects.graph.types import (
    AnyTensor,
    tensor,
)
from tcopt.dialects.graph.unary import (
    AbsOp,
    AcoshOp,
    AcosOp,
    AsinhOp,
    AsinOp,
    AtanhOp,
    AtanOp,
    CeilOp,
    CoshOp,
    CosOp,
    ErfOp,
    ExpOp,
    FloorOp,
    IdentityOp,
    LogOp,
    NegOp,
    NotOp,
    ReciprocalOp,
    RoundOp,
    RsqrtOp,
    SignOp,
    SinhOp,
    SinOp,
    SqrtOp,
    TanhOp,
    TanOp,
)
from tcopt.dialects.graph.weights import (
    WeightStore,
    attach_weights,
    weights_of,
)

__all__ = [
    "ShiftRightOp",
    "ShiftLeftOp",
    "SampleOp",
    "RoiAlignOp",
    "ReverseSequenceOp",
    "MaxPlacesOp",
    "DeterminantOp",
    "Col2ImOp",
    "BitcastOp",
    "AbsOp",
    "AcosOp",
    "AcoshOp",
    "AddOp",
    "AndOp",
    "AnyTensor",
    "ArgReduceOp",
    "AsinOp",
    "AsinhOp",
    "AtanOp",
    "AtanhOp",
    "BatchNormOp",
    "BinaryOp",
    "BroadcastToOp",
    "CastOp",
    "CeilOp",
    "ClipOp",
    "CompareOp",
    "ConcatOp",
    "ConcatRowsOp",
    "ConstantOp",
    "ConvOp",
    "ConvTransposeOp",
    "CosOp",
    "CoshOp",
    "CumulateOp",
    "DIALECT",
    "DepthToSpaceOp",
    "DivOp",
    "ElementwiseOp",
    "EluOp",
    "ErfOp",
    "ExpOp",
    "FloorOp",
    "FusionKind",
    "GatherElementsOp",
    "GatherNdOp",
    "GatherOp",
    "GeluOp",
    "GraphOp",
    "GroupNormOp",
    "GroupOp",
    "HardSigmoidOp",
    "HardSwishOp",
    "IdentityOp",
    "InstanceNormOp",
    "IotaOp",
    "IsInfOp",
    "IsNanOp",
    "InterleaveOp",
    "LayerNormOp",
    "Layout",
    "LayoutTransformOp",
    "LeakyReluOp",
    "LogOp",
    "LogSoftmaxOp",
    "LrnOp",
    "MatmulOp",
    "MaxOp",
    "MinOp",
    "MishOp",
    "ModOp",
    "MulOp",
    "NegOp",
    "NotOp",
    "OneHotOp",
    "OutsideOp",
    "OrOp",
    "PadOp",
    "PoolOp",
    "PowOp",
    "PreluOp",
    "ReciprocalOp",
    "ReduceOp",
    "ReluOp",
    "ReshapeOp",
    "ResizeOp",
    "RmsNormOp",
    "RoundOp",
    "RsqrtOp",
    "SelectOp",
    "ScanOp",
    "ScatterElementsOp",
    "ScatterNdOp",
    "SeluOp",
    "SigmoidOp",
    "SignOp",
    "SiluOp",
    "SinOp",
    "SinhOp",
    "SliceOp",
    "SoftmaxOp",
    "SoftplusOp",
    "SpaceToDepthOp",
    "SqrtOp",
    "SubOp",
    "TanOp",
    "TanhOp",
    "TanhSoftplusOp",
    "TileOp",
    "TopKOp",
    "TreeEnsembleOp",
    "TruePlacesOp",
    "SortRowsOp",
    "SumTapsOp",
    "SuppressOp",
    "TransposeOp",
    "TriluOp",
    "UnaryOp",
    "WeightStore",
    "XorOp",
    "YieldOp",
    "attach_weights",
    "tensor",
    "weights_of",
]


def _operations() -> Iterator[type[Operation]]:
    for info in pkgutil.iter_modules(__path__, __name__ + "."):
        module = importlib.import_module(info.name)
        for value in vars(module).values():
            # Of an abstract class all subclasses are asked whether they have one as theirs.
            if (
                isinstance(value, type)
                and value.__module__ == info.name
                and "get_irdl_definition" in vars(value)
                and issubclass(value, Operation)
            ):
                yield value


DIALECT = Dialect("graph", list(_operations()), [*ATTRIBUTES, DimsAttr])
