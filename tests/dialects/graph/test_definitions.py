"""Every op's tensor expression computes what its numpy evaluation computes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from checks.te_check import check, value
from tcopt.dialects import graph
from tcopt.dialects.te import api as te

RNG = np.random.default_rng(7)


def f32(*shape, low=-2.0, high=2.0):
    return RNG.uniform(low, high, shape).astype(np.float32)


def i64(*shape, low=-9, high=9):
    return RNG.integers(low, high, shape)


def run(make, *arrays, tolerance=None, **attributes):
    """Check the op that `make` builds from values with the arrays' types and attributes."""
    op = make(*(value(array) for array in arrays), **attributes)
    return check(op, arrays, atol=tolerance)


UNARY = [
    (graph.ReluOp, -2, 2), (graph.SigmoidOp, -9, 9), (graph.TanhOp, -3, 3), (graph.ExpOp, -3, 3),
    (graph.LogOp, 0.1, 3), (graph.SqrtOp, 0, 3), (graph.RsqrtOp, 0.1, 3), (graph.ErfOp, -4, 4),
    (graph.ReciprocalOp, 0.1, 3), (graph.AbsOp, -2, 2), (graph.NegOp, -2, 2),
    (graph.FloorOp, -3, 3), (graph.CeilOp, -3, 3), (graph.RoundOp, -3, 3), (graph.SignOp, -2, 2),
    (graph.SinOp, -3, 3), (graph.CosOp, -3, 3), (graph.TanOp, -1, 1), (graph.AsinOp, -1, 1),
    (graph.AcosOp, -1, 1), (graph.AtanOp, -3, 3), (graph.SinhOp, -2, 2), (graph.CoshOp, -2, 2),
    (graph.AsinhOp, -2, 2), (graph.AcoshOp, 1, 3), (graph.AtanhOp, -0.9, 0.9),
    (graph.SoftplusOp, -30, 30), (graph.GeluOp, -3, 3), (graph.SiluOp, -4, 4),
    (graph.HardSigmoidOp, -4, 4), (graph.HardSwishOp, -4, 4), (graph.LeakyReluOp, -2, 2),
    (graph.EluOp, -2, 2), (graph.SeluOp, -2, 2), (graph.MishOp, -4, 4),
    (graph.TanhSoftplusOp, -30, 30),
    (graph.IdentityOp, -2, 2), (graph.IsNanOp, -2, 2), (graph.IsInfOp, -2, 2),
]  # fmt: skip


@pytest.mark.parametrize("cls, low, high", UNARY, ids=lambda v: getattr(v, "name", None))
def test_unary(cls, low, high):
    run(cls, f32(3, 5, low=low, high=high))
    run(cls, f32(low=low, high=high))


def test_unary_special_values():
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 0.5, 1.5, 2.5, -0.5], np.float32)
    for cls in (graph.IsNanOp, graph.IsInfOp, graph.RoundOp, graph.ReluOp, graph.AbsOp):
        run(cls, special)
    assert np.isnan(run(graph.SignOp, special)[4])


def test_activation_attributes():
    x = f32(4, 4, low=-4, high=4)
    run(graph.GeluOp, x, approximate="tanh")
    run(graph.HardSigmoidOp, x, alpha=0.3, beta=0.4)
    run(graph.LeakyReluOp, x, alpha=0.3)
    run(graph.EluOp, x, alpha=0.3)
    run(graph.SeluOp, x, alpha=0.3, gamma=2.0)
    run(graph.ClipOp, x, min=-1.0, max=1.0)
    run(graph.ClipOp, x, max=1.0)
    run(graph.ClipOp, i64(5), min=-1)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64], ids=str)
def test_other_floats(dtype):
    x, w = f32(1, 4, 5, 5).astype(dtype), f32(4, 4, 3, 3).astype(dtype)
    run(graph.SigmoidOp, x)
    run(graph.AddOp, x, x)
    run(graph.ConvOp, x, w, pads=[1] * 4, tolerance=0.2)
    run(graph.SoftmaxOp, x, axis=1)
    run(graph.ReduceOp, x, kind="mean", axes=[2, 3])
    run(graph.MatmulOp, x, x, tolerance=0.1)
    run(graph.PoolOp, x, kind="average", kernel=[2, 2], pads=[1] * 4)


BINARY = [graph.AddOp, graph.SubOp, graph.MulOp, graph.MaxOp, graph.MinOp, graph.PreluOp]


@pytest.mark.parametrize("cls", BINARY, ids=lambda c: c.name)
@pytest.mark.parametrize(
    "shapes", [((3, 4), (3, 4)), ((3, 4), (4,)), ((3, 1), (1, 4)), ((), (2, 3)), ((2, 0), (0,))]
)
def test_binary(cls, shapes):
    run(cls, f32(*shapes[0]), f32(*shapes[1]))
    run(cls, i64(*shapes[0]), i64(*shapes[1]))


def test_division_power_and_remainder():
    run(graph.DivOp, f32(3, 4), f32(4, low=0.5))
    assert run(graph.DivOp, np.array([7, -7]), np.array([2, 2])).tolist() == [3, -3]
    run(graph.PowOp, f32(3, 4, low=0.1), f32(4))
    run(graph.PowOp, i64(5), np.array([0, 1, 2, 3, 2]))
    a, b = np.array([7, -7, 7, -7]), np.array([3, 3, -3, -3])
    assert run(graph.ModOp, a, b).tolist() == [1, 2, -2, -1]
    assert run(graph.ModOp, a, b, fmod=True).tolist() == [1, -1, 1, -1]
    run(graph.ModOp, f32(9), f32(9, low=0.5), fmod=True)
    run(graph.ModOp, f32(9), f32(9, low=0.5))


def test_logic_and_selection():
    a, b = RNG.random((2, 3, 4)) > 0.5
    for cls in (graph.AndOp, graph.OrOp, graph.XorOp):
        run(cls, a, b)
        run(cls, i64(3), i64(3))
    run(graph.NotOp, a)
    for predicate in ("eq", "ne", "lt", "le", "gt", "ge"):
        run(graph.CompareOp, i64(9, high=0), i64(9), predicate=predicate)
        run(graph.CompareOp, f32(9), f32(1), predicate=predicate)
    run(graph.SelectOp, a, f32(3, 4), f32(4))
    run(graph.SelectOp, a[:1], f32(3, 4), f32())


@pytest.mark.parametrize("source", ["f4", "i8", "u1", "?", "f8", "i4"])
@pytest.mark.parametrize("target", ["f4", "i8", "u1", "?", "f2", "i4"])
def test_cast(source, target):
    x = RNG.uniform(0, 3, (5, 3)).astype(source)
    element = graph.tensor((), graph.core.types.element_of(np.dtype(target))).element_type
    run(graph.CastOp, x, element=element)


KINDS = ["sum", "mean", "max", "min", "prod", "l1", "l2", "sum_square", "log_sum", "log_sum_exp"]


@pytest.mark.parametrize("kind", KINDS)
def test_reduce(kind):
    x = f32(2, 3, 4, low=0.2)
    for axes in ([0], [1, 2], [-1], [0, 1, 2]):
        for keepdims in (False, True):
            run(graph.ReduceOp, x, kind=kind, axes=axes, keepdims=keepdims)
    if kind not in ("log_sum", "log_sum_exp", "l2", "mean"):
        run(graph.ReduceOp, i64(2, 5), kind=kind, axes=[1])
    run(graph.ReduceOp, x, kind=kind, axes=[])


def test_reduce_edges():
    run(graph.ReduceOp, RNG.random((3, 4)) > 0.5, kind="max", axes=[1])
    run(graph.ReduceOp, f32(2, 0, 3), kind="sum", axes=[1])
    run(graph.ReduceOp, f32(2, 0, 3), kind="max", axes=[1])
    rows = np.array([[-np.inf, -np.inf], [np.inf, 1.0], [1e4, 1e4]], np.float32)
    run(graph.ReduceOp, rows, kind="log_sum_exp", axes=[1])


@pytest.mark.parametrize("kind", ["max", "min"])
def test_arg_reduce(kind):
    x = i64(3, 7, 2, low=0, high=3)
    for last in (False, True):
        for keep in (False, True):
            run(graph.ArgReduceOp, x, kind=kind, axis=1, keepdims=keep, select_last=last)
    nans = f32(3, 4)
    nans[1, 2] = np.nan
    run(graph.ArgReduceOp, nans, kind=kind, axis=1)


@pytest.mark.parametrize("batch", [((), ()), ((2,), ()), ((2, 1), (3,)), ((1,), (4,))])
def test_matmul(batch):
    for ta in (False, True):
        for tb in (False, True):
            a = f32(*batch[0], *((4, 3) if ta else (3, 4)))
            b = f32(*batch[1], *((5, 4) if tb else (4, 5)))
            run(graph.MatmulOp, a, b, transpose_a=ta, transpose_b=tb)


CONVOLUTIONS = [
    ((1, 3, 7, 8), (4, 3, 3, 3), {}),
    ((2, 3, 7, 8), (4, 3, 3, 2), {"pads": [1, 0, 2, 1], "strides": [2, 1]}),
    ((1, 4, 9, 9), (6, 2, 3, 3), {"groups": 2, "dilations": [2, 3], "pads": [2] * 4}),
    ((1, 4, 6, 6), (4, 1, 3, 3), {"groups": 4, "pads": [1] * 4}),
    ((1, 4, 6, 6), (8, 1, 3, 3), {"groups": 4, "strides": [2, 2]}),
    ((1, 5, 4, 4), (3, 5, 1, 1), {}),
    ((2, 3, 9), (4, 3, 4), {"strides": [3], "pads": [1, 2]}),
    ((1, 2, 4, 5, 4), (3, 2, 2, 3, 1), {"pads": [0, 1, 0, 1, 0, 0]}),
    ((1, 2, 7, 7), (3, 2, 3, 3), {"strides": [3, 3], "pads": [1, 1, 0, 1]}),
]


@pytest.mark.parametrize("x, w, options", CONVOLUTIONS, ids=str)
def test_conv(x, w, options):
    run(graph.ConvOp, f32(*x), f32(*w), **options)


TRANSPOSED = [
    ((1, 3, 4, 5), (3, 4, 3, 3), {}),
    ((2, 3, 4, 5), (3, 4, 3, 2), {"strides": [2, 3], "pads": [1, 0, 1, 1]}),
    ((1, 4, 4, 4), (4, 3, 3, 3), {"groups": 2, "strides": [2, 2], "output_pads": [1, 0]}),
    ((1, 4, 4, 4), (4, 1, 2, 2), {"groups": 4, "strides": [2, 2]}),
    ((1, 4, 4, 4), (4, 2, 2, 2), {"groups": 4, "strides": [2, 1], "dilations": [2, 3]}),
    ((1, 2, 5), (2, 3, 4), {"strides": [5], "output_pads": [4], "pads": [2, 1]}),
    ((1, 2, 3, 3), (2, 2, 1, 1), {"strides": [2, 2], "output_pads": [1, 1]}),
    ((1, 2, 5, 5), (2, 2, 2, 2), {"pads": [2, 2, 1, 1]}),
]


@pytest.mark.parametrize("x, w, options", TRANSPOSED, ids=str)
def test_conv_transpose(x, w, options):
    run(graph.ConvTransposeOp, f32(*x), f32(*w), **options)


POOLS = [
    ((1, 2, 6, 6), {"kernel": [2, 2], "strides": [2, 2]}),
    ((1, 2, 7, 8), {"kernel": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ((1, 2, 7, 8), {"kernel": [3, 2], "strides": [2, 3], "pads": [1, 0, 0, 1], "ceil_mode": True}),
    ((1, 2, 9, 9), {"kernel": [3, 2], "dilations": [2, 3], "pads": [1, 1, 2, 2]}),
    ((2, 3, 10), {"kernel": [4], "strides": [3], "ceil_mode": True}),
    ((1, 2, 4, 4, 4), {"kernel": [2, 2, 2], "strides": [2, 1, 2]}),
    ((1, 2, 2, 2), {"kernel": [3, 3], "strides": [2, 2], "pads": [1] * 4, "ceil_mode": True}),
]


@pytest.mark.parametrize("kind", ["max", "average", "lp"])
@pytest.mark.parametrize("x, options", POOLS, ids=str)
def test_pool(kind, x, options):
    data = f32(*x)
    run(graph.PoolOp, data, kind=kind, **options)
    if kind == "average":
        run(graph.PoolOp, data, kind=kind, count_include_pad=True, **options)
    if kind == "lp":
        run(graph.PoolOp, data, kind=kind, p=3, **options)
    if kind == "max":
        run(graph.PoolOp, (data * 50).astype(np.int8), kind=kind, **options)
        run(graph.PoolOp, (data + 50).astype(np.uint8), kind=kind, **options)


def test_softmax():
    for axis in (0, 1, -1):
        run(graph.SoftmaxOp, f32(2, 3, 4, low=-50, high=50), axis=axis)
        run(graph.LogSoftmaxOp, f32(2, 3, 4, low=-50, high=50), axis=axis)


def test_normalizations():
    x = f32(2, 6, 3, 4)
    c = [f32(6, low=0.5) for _ in range(4)]
    run(graph.BatchNormOp, x, *c, epsilon=0.001)
    run(graph.InstanceNormOp, x, c[0], c[1])
    for groups in (1, 2, 6):
        run(graph.GroupNormOp, x, c[0], c[1], groups=groups)
    run(graph.LayerNormOp, x, f32(4), f32(4), axis=-1)
    run(graph.LayerNormOp, x, f32(6, 1, 4), f32(3, 4), axis=1, epsilon=0.1)
    run(graph.LayerNormOp, x, f32(4), axis=0)
    run(graph.RmsNormOp, x, f32(3, 4), axis=2)
    for size in (1, 3, 4, 5):
        run(graph.LrnOp, x, size=size, alpha=0.3, beta=0.6, bias=1.5)
    run(graph.LrnOp, x, size=5)
    for size in (1, 2, 5, 9):
        run(graph.LrnOp, f32(2, 3, 5, 2, 4), size=size, alpha=0.3, beta=0.6, blocked=True)


def test_lrn_of_blocks_is_that_of_channels():
    x = f32(2, 12, 3, 2)
    blocks = np.moveaxis(x.reshape(2, 3, 4, 3, 2), 2, -1)
    plain = run(graph.LrnOp, x, size=5, alpha=0.5)
    blocked = run(graph.LrnOp, np.ascontiguousarray(blocks), size=5, alpha=0.5, blocked=True)
    np.testing.assert_allclose(np.moveaxis(blocked, -1, 2).reshape(x.shape), plain, rtol=1e-6)


RESHAPES = [
    ((2, 3, 4), (6, 4)), ((2, 3, 4), (2, 12)), ((24,), (2, 3, 4)), ((2, 3, 4), (4, 3, 2)),
    ((1, 6, 1), (2, 1, 3)), ((), (1, 1)), ((1,), ()), ((2, 3, 4, 5), (6, 20)), ((4, 6), (2, 12)),
    ((3, 4, 5), (5, 4, 3)), ((2, 0, 3), (0, 6)), ((6, 4), (-1, 8)),
]  # fmt: skip


@pytest.mark.parametrize("source, target", RESHAPES, ids=str)
def test_reshape(source, target):
    run(graph.ReshapeOp, f32(*source), shape=target)


def test_movement():
    run(graph.TransposeOp, f32(2, 3, 4), perm=[2, 0, 1])
    run(graph.TransposeOp, f32(2, 3, 4))
    run(graph.BroadcastToOp, f32(3, 1), shape=[2, 3, 4])
    run(graph.BroadcastToOp, f32(3, 4), shape=[1])
    run(graph.TileOp, f32(2, 3, 4), reps=[2, 1, 3])
    run(graph.TileOp, f32(2, 3), reps=[0, 1])
    for mode in ("dcr", "crd"):
        run(graph.DepthToSpaceOp, f32(2, 12, 3, 4), blocksize=2, mode=mode)
    run(graph.SpaceToDepthOp, f32(2, 3, 4, 6), blocksize=2)
    for upper in (False, True):
        for k in (-1, 0, 2, -4, 5, -(2**63), 2**63 - 1):
            run(graph.TriluOp, f32(2, 4, 5), k=k, upper=upper)


def test_slice_and_concat():
    run(graph.SliceOp, f32(4, 5), starts=[1, 0], extents=[2, 3])
    run(graph.SliceOp, f32(4, 5), starts=[3, 4], extents=[2, 3], steps=[-1, -2])
    run(graph.SliceOp, f32(4, 5), starts=[0, 0], extents=[0, 2], steps=[1, 3])
    run(lambda *a: graph.ConcatOp(a, axis=1), f32(2, 3), f32(2, 1), f32(2, 4))
    run(lambda *a: graph.ConcatOp(a, axis=-1), f32(2, 3), f32(2, 0), f32(2, 4))
    run(lambda *a: graph.ConcatOp(a, axis=0), f32(2, 3))


def test_pad():
    x = f32(3, 4)
    run(graph.PadOp, x, low=[1, 0], high=[0, 2])
    run(graph.PadOp, x, low=[-1, 2], high=[1, -1])
    run(graph.PadOp, x, np.float32(3.5), low=[1, 0], high=[0, 2])
    run(graph.PadOp, x, np.float32(3.5), low=[0, 0], high=[0, 0])
    for mode in ("reflect", "edge", "wrap"):
        for low, high in (([2, 3], [1, 2]), ([0, 1], [2, 0]), ([-1, 2], [1, -1]), ([0, 0], [0, 0])):
            run(graph.PadOp, x, low=low, high=high, mode=mode)
        for low, high in (([2, 6], [1, 3]), ([0, -3], [0, 6]), ([0, 0], [0, 9])):
            run(graph.PadOp, f32(3, 12), low=low, high=high, mode=mode, unit=3)


def test_gather():
    x = f32(4, 5, 6)
    run(graph.GatherOp, x, np.array([[0, -1], [3, 2]]))
    run(graph.GatherOp, x, np.array(2), axis=1)
    run(graph.GatherOp, x, np.array([1, 5], np.int32), axis=2)
    run(graph.GatherElementsOp, x, i64(3, 2, 6, low=-5, high=5), axis=1)
    run(graph.GatherNdOp, x, np.array([[0, 1], [3, -1]]))
    run(graph.GatherNdOp, x, np.array([[[0, 1, 2]], [[3, 4, 5]]]))
    run(graph.GatherNdOp, x, i64(4, 2, 1, low=0, high=5), batch_dims=1)
    pair = np.array([2.0, 5.0], np.float32)
    for axis in (0, 1, -1):
        run(graph.OneHotOp, i64(3, 2, low=-6, high=6), pair, depth=4, axis=axis)
    run(graph.OneHotOp, np.array([1, 5], np.uint8), pair, depth=3)


def test_gather_outside_reads_the_nearest_element():
    x, far = f32(4, 5), np.array([4, -5, 2**62, -(2**63), 2**63 - 1, -1])
    run(graph.GatherOp, x, far)
    run(graph.GatherElementsOp, x[:, :3], np.tile(far[:4, None], 3), axis=0)
    run(graph.GatherNdOp, x, np.stack([far, far[::-1]], 1))
    # A narrow index type cannot represent the extent.
    run(graph.GatherOp, f32(300), np.array([-128, -1, 0, 127], np.int8))
    run(graph.GatherOp, f32(300), np.array([0, 255], np.uint8))
    run(graph.GatherOp, f32(3), np.array([0, 2**63, 2**64 - 1], np.uint64))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.uint64])
def test_outside(dtype):
    limits = np.iinfo(dtype)
    inside = np.array([[0, 3], [4, 99]], dtype)
    run(graph.OutOfBoundsOp, inside, low=-100, high=99)
    for number in (limits.min, limits.max, 100):
        run(graph.OutOfBoundsOp, np.array([1, number, 2], dtype), low=-100, high=99)
    run(graph.OutOfBoundsOp, inside, low=0, high=-1)
    run(graph.OutOfBoundsOp, inside[0, 1], low=3, high=3)


def test_constants():
    run(lambda: graph.ConstantOp.literal(np.full((2, 3), 4, np.float32)))
    for axis in (0, 1):
        run(graph.IotaOp, shape=(3, 4), element=graph.core.types.i64, axis=axis)


COORDINATES = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]


@pytest.mark.nightly(every=3)
@pytest.mark.parametrize("coordinate", [*COORDINATES, "half_pixel_symmetric"])
@pytest.mark.parametrize("sizes", [(8, 10), (2, 3), (7, 1), (4, 5)], ids=str)
def test_resize(coordinate, sizes):
    x = f32(1, 2, 4, 5)
    sizes = (1, 2, *sizes)
    for nearest in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
        run(graph.ResizeOp, x, sizes=sizes, coordinate=coordinate, nearest_mode=nearest)
    for mode in ("linear", "cubic"):
        run(graph.ResizeOp, x, sizes=sizes, mode=mode, coordinate=coordinate)


def test_resize_scales_and_crop():
    x = f32(1, 1, 4, 4)
    for scale in (0.6, 0.8, 1.7, 2.0, 3.0):
        scales = [1, 1, scale, scale]
        run(graph.ResizeOp, x, scales=scales)
        run(graph.ResizeOp, x, scales=scales, mode="linear")
        run(graph.ResizeOp, x, scales=scales, mode="cubic", exclude_outside=True)
    crop = {"coordinate": "tf_crop_and_resize", "extrapolation": 10.0}
    roi = [0, 0, 0.4, 0.6, 1, 1, 1.2, 1.7]
    for mode in ("nearest", "linear"):
        run(graph.ResizeOp, x, sizes=[1, 1, 3, 3], mode=mode, roi=roi, **crop)


LAYOUTS = [
    ("NCHW", "NCHW16c", (1, 32, 2, 3), None), ("NCHW", "NCHW4c", (1, 6, 2, 3), None),
    ("NCHW8c", "NCHW", (1, 2, 2, 3, 8), (1, 13, 2, 3)), ("NCHW", "NHWC", (1, 3, 2, 4), None),
    ("OIHW", "OIHW4i8o", (8, 4, 3, 3), None), ("NCHW8c", "NCHW4c", (1, 2, 2, 2, 8), None),
    ("NCHW1c", "NCHW", (1, 2, 2, 2, 1), None), ("NCHW", "NCHW1c", (1, 2, 2, 2), None),
]  # fmt: skip


@pytest.mark.parametrize("src, dst, shape, result", LAYOUTS, ids=str)
def test_layout_transform(src, dst, shape, result):
    x = f32(*shape)
    run(graph.LayoutTransformOp, x, src=src, dst=dst, shape=result)


@pytest.mark.nightly(every=3)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_sample(mode, padding):
    for half in (False, True):
        options = {"mode": mode, "padding": padding, "half_border": half}
        run(graph.SampleOp, f32(2, 3, 5, 4), f32(2, 2, 6, low=-9, high=9), **options)
    run(graph.SampleOp, f32(1, 2, 1), f32(1, 1, 5), mode=mode, padding=padding)
    options = {"mode": mode, "padding": padding, "channels_last": True}
    run(graph.SampleOp, f32(2, 5, 4, 3), f32(2, 2, 6, low=-9, high=9), **options)


def test_shifts():
    for dtype in (np.int8, np.int32, np.int64):
        info = np.iinfo(dtype)
        x = RNG.integers(info.min, info.max, (20,), dtype)
        places = RNG.integers(0, 70, (20,)).astype(dtype)
        run(graph.ShiftLeftOp, x, places)
        run(graph.ShiftRightOp, x, places)


def test_reverse_sequence():
    run(graph.ReverseSequenceOp, f32(4, 5, 2), np.array([0, 3, 5, 1]), axis=1, batch_axis=0)
    run(graph.ReverseSequenceOp, f32(4, 3), np.array([4, 2, 1]), axis=0, batch_axis=1)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_steps_of_resizing_that_no_integers_have(mode: str):
    x = value(np.zeros((1, 2, 4, 6), np.float32))
    op = graph.ResizeOp(x, sizes=[1, 2, 1, 1], scales=[1, 1, 1e-25, 1], mode=mode)
    assert op.tensor_expression(te.placeholder((1, 2, 4, 6), name="x")).shape == (1, 2, 1, 1)


def test_every_op_is_a_name_of_the_package() -> None:
    for op in graph.DIALECT.operations:
        assert getattr(graph, op.__name__) is op
        assert op.__name__ in graph.__all__  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("pads", [(0, 0, 0, 0), (1, 0, 2, 1)])
@pytest.mark.parametrize(
    ("strides", "dilations"), [((2, 1), (1, 2)), ((3, 2), (2, 1)), ((1, 1),) * 2]
)
@pytest.mark.parametrize("block", [(2, 3), (3, 2)])
def test_col2im(block, strides, dilations, pads):
    """Phases of strides, taps outside every phase, and blocks that do not overlap."""
    image = (8, 9)
    rows = zip(image, block, strides, dilations, pads[:2], pads[2:], strict=True)
    positions = [(n + a + b - (k - 1) * d - 1) // s + 1 for n, k, s, d, a, b in rows]
    options = {"strides": strides, "dilations": dilations, "pads": pads}
    run(graph.Col2ImOp, f32(2, 3, *block, *positions), image=image, **options)
