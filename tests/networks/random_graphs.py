"""Random graph-level networks for hypothesis: convolutional and general ones."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import Block, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects import graph
from tcopt.dialects.graph.core.types import like, shape_of
from tcopt.dialects.graph.core.weights import WeightStore, attach_weights

_MAX_ELEMENTS = 3000


@dataclass
class Net:
    """A function under construction: its values so far, inputs and weights."""

    rng: random.Random
    channels: tuple[int, ...]
    block: Block = field(default_factory=Block)
    values: list[SSAValue] = field(default_factory=list)
    arrays: list[np.ndarray] = field(default_factory=list)
    store: WeightStore = field(default_factory=WeightStore)

    def number(self, low: int, high: int) -> int:
        return self.rng.randint(low, high)

    def choice(self, options: Sequence):
        return self.rng.choice(options)

    def maybe(self) -> bool:
        return self.rng.random() < 0.5

    def pick(self, rank: int | None = None) -> SSAValue | None:
        """Return a value of a rank, usually one of the newest."""
        fitting = [v for v in self.values if rank is None or len(shape_of(v)) == rank]
        if not fitting:
            return None
        return fitting[-1 - min(self.number(0, 3), len(fitting) - 1)]

    def array(self, shape: Sequence[int], scale: float = 1.0) -> np.ndarray:
        rng = np.random.default_rng((self.number(0, 99), *shape))
        return (rng.standard_normal(shape) * scale).astype(np.float32)

    def input(self, *shape: int) -> None:
        array = self.array(shape)
        self.arrays.append(array)
        self.values.append(self.block.insert_arg(like(array), len(self.block.args)))

    def constant(self, shape: Sequence[int], scale: float = 1.0) -> SSAValue:
        return self.insert(
            graph.ConstantOp.add_weight(self.store, self.array(shape, scale), "w"), keep=False
        )

    def insert(self, op: graph.GraphOp, keep: bool = True) -> SSAValue:
        self.block.add_op(op)
        if keep:
            self.values.append(op.results[0])
        return op.results[0]

    def step(self, steps: Sequence[Step]) -> None:
        """Take a random step; if it creates no op, or a large value, nothing is left behind."""
        try:
            op = self.choice(steps)(self)
        except VerifyException:
            op = None
        if op is not None and 0 < np.prod(op.shape) <= _MAX_ELEMENTS:
            self.insert(op)
        users = {use.operation for value in self.values for use in value.uses}
        for user in users:
            if user.parent_block() is None:
                user.drop_all_references()

    def module(self) -> ModuleOp:
        """Return the function with the last value and one more as results."""
        results = [self.values[-1]]
        other = self.pick()
        if other is not None and other not in (results[0], *self.block.args):
            results.append(other)
        self.block.add_op(func.ReturnOp(*results))
        types = ([a.type for a in self.block.args], [r.type for r in results])
        main = func.FuncOp("main", types, Region(self.block))
        names = {
            "graph.inputs": [f"x{n}" for n in range(len(self.arrays))],
            "graph.outputs": [f"y{n}" for n in range(len(results))],
        }
        attributes = {k: ArrayAttr([StringAttr(n) for n in v]) for k, v in names.items()}
        module = ModuleOp([main], attributes)
        attach_weights(module, self.store)
        module.verify()
        return module


class Case(NamedTuple):
    """A module, printed as its text, and arrays for its inputs."""

    module: ModuleOp
    arrays: list[np.ndarray]

    def __repr__(self) -> str:
        return f"\n{self.module}\n"


Step = Callable[[Net], graph.GraphOp | None]


def convolution(net: Net) -> graph.GraphOp | None:
    """A plain, strided, padded, dilated, grouped or depthwise convolution."""
    x = net.pick(4)
    if x is None:
        return None
    channels = shape_of(x)[1]
    kind = net.choice(["full", "full", "full", "depthwise", "groups"])
    groups = {"full": 1, "depthwise": channels, "groups": 2}[kind]
    out = channels if kind == "depthwise" else net.choice(net.channels)
    if channels % groups or out % groups:
        return None
    kernel = [net.choice([1, 1, 2, 3]) for _ in range(2)]
    shape = (out, channels // groups, *kernel)
    w = net.constant(shape, float(np.prod(shape[1:])) ** -0.5)
    return graph.ConvOp(
        x,
        w,
        groups=groups,
        strides=[net.choice([1, 1, 2]) for _ in range(2)],
        dilations=[net.choice([1, 1, 1, 2]) for _ in range(2)],
        pads=[net.choice([0, 1, 1, 2]) for _ in range(4)],
    )


def unary(net: Net) -> graph.GraphOp | None:
    """A bounded or slowly growing function."""
    x = net.pick()
    op = net.choice([graph.ReluOp, graph.SigmoidOp, graph.TanhOp, graph.GeluOp, graph.SiluOp])
    return op(x)


def with_constant(net: Net) -> graph.GraphOp | None:
    """Arithmetic with a constant: scalar, per channel in three spellings, per pixel, full."""
    x = net.pick()
    shape = shape_of(x)
    shapes = [(), (1,), shape, shape[1:], shape[-1:], tuple(1 for _ in shape)]
    if len(shape) == 4:
        channels = shape[1]
        shapes += [(channels, 1, 1), (1, channels, 1, 1), (1, 1, *shape[2:]), (1, *shape[1:])]
    op = net.choice([graph.AddOp, graph.MulOp, graph.SubOp, graph.MaxOp])
    operands = [x, net.constant(net.choice(shapes))]
    return op(*(operands if net.maybe() else reversed(operands)))


def residual(net: Net) -> graph.GraphOp | None:
    """Arithmetic of two values that broadcast."""
    x, y = net.pick(), net.pick()
    op = net.choice([graph.AddOp, graph.MulOp, graph.MinOp])
    return op(x, y)


def pool(net: Net) -> graph.GraphOp | None:
    """Max or average pooling, with pads and strides."""
    x = net.pick(4)
    if x is None:
        return None
    kernel = [net.number(1, 3) for _ in range(2)]
    return graph.PoolOp(
        x,
        kind=net.choice(["max", "average"]),
        kernel=kernel,
        strides=[net.number(1, 2) for _ in range(2)],
        pads=[net.number(0, k - 1) for k in kernel] * 2,
        count_include_pad=net.maybe(),
        ceil_mode=net.maybe(),
    )


def concat(net: Net) -> graph.GraphOp | None:
    """Concatenation along any axis, of values with equal other extents."""
    x = net.pick()
    shape = shape_of(x)
    axis = min(net.choice([1, 1, 1, 0, 2, 3]), len(shape) - 1)
    alike = [
        v
        for v in net.values
        if len(s := shape_of(v)) == len(shape)
        and all(a == b for i, (a, b) in enumerate(zip(s, shape, strict=True)) if i != axis)
    ]
    return graph.ConcatOp([x, net.choice(alike)], axis=axis)


def mean(net: Net) -> graph.GraphOp | None:
    """Spatial reduction, keeping the dimensions or not."""
    x = net.pick(4)
    if x is None:
        return None
    kind = net.choice(["mean", "max", "sum"])
    return graph.ReduceOp(x, kind=kind, axes=[2, 3], keepdims=net.maybe())


def reduce(net: Net) -> graph.GraphOp | None:
    """Reduction over one axis."""
    x = net.pick()
    axis = net.number(0, len(shape_of(x)) - 1)
    kind = net.choice(["mean", "max", "l2", "log_sum_exp"])
    return graph.ReduceOp(x, kind=kind, axes=[axis], keepdims=net.maybe())


def normalization(net: Net) -> graph.GraphOp | None:
    """Softmax or layer normalisation along an axis."""
    x = net.pick()
    shape = shape_of(x)
    axis = net.number(0, len(shape) - 1)
    if net.maybe():
        return graph.SoftmaxOp(x, axis=axis)
    return graph.LayerNormOp(x, net.constant(shape[axis:]), net.constant(shape[axis:]), axis=axis)


def movement(net: Net) -> graph.GraphOp | None:
    """A transpose, reshape, slice or pad."""
    x = net.pick()
    shape = shape_of(x)
    rank = len(shape)
    kind = net.choice(["transpose", "flatten", "slice", "pad"])
    if kind == "transpose":
        return graph.TransposeOp(x, perm=net.rng.sample(range(rank), rank))
    if kind == "flatten":
        return graph.ReshapeOp(x, (shape[0], int(np.prod(shape[1:]))))
    if kind == "slice":
        starts = [net.number(0, min(1, n - 1)) for n in shape]
        steps = [net.choice([1, 1, 2]) for _ in shape]
        extents = [
            (n - first + step - 1) // step
            for n, first, step in zip(shape, starts, steps, strict=True)
        ]
        return graph.SliceOp(x, starts, extents, steps)
    zero = net.insert(graph.ConstantOp.literal(np.float32(0.5)), keep=False)
    low, high = ([net.number(0, 1) for _ in shape] for _ in range(2))
    return graph.PadOp(x, zero, low=low, high=high)


def matmul(net: Net) -> graph.GraphOp | None:
    """Product with a weight matrix, on either side."""
    x = net.pick()
    inner, columns = shape_of(x)[-1], net.choice([1, 3, 10, 16, 17])
    transposed = net.maybe()
    shape = (columns, inner) if transposed else (inner, columns)
    if len(shape_of(x)) < 2:
        return None
    return graph.MatmulOp(x, net.constant(shape, inner**-0.5), transpose_b=transposed)


# Repeated entries are more likely.
CONVOLUTIONAL: tuple[Step, ...] = (
    *[convolution] * 5,
    *[unary] * 2,
    *[with_constant] * 2,
    *[residual] * 2,
    pool,
    concat,
    mean,
)
FREE: tuple[Step, ...] = (
    *CONVOLUTIONAL,
    *[reduce, normalization, movement, matmul] * 2,
)


@st.composite
def networks(
    draw: st.DrawFn,
    steps: tuple[Step, ...] = FREE,
    channels: tuple[int, ...] = (1, 3, 4, 8, 10, 16, 24),
    max_steps: int = 10,
) -> Case:
    """A module with one function @main, and arrays for its inputs.

    Only the number of steps and a seed are drawn: with few examples, individually drawn choices
    mostly give the same short networks.
    """
    seed, count = draw(st.integers(0, 1 << 20)), draw(st.integers(2, max_steps))
    net = Net(random.Random(seed), channels)
    net.input(net.number(1, 2), net.choice(channels), net.number(1, 9), net.number(1, 19))
    for _ in range(count):
        net.step(steps)
    if len(net.values) == 1:
        net.insert(graph.ReluOp(net.values[0]))
    return Case(net.module(), net.arrays)
