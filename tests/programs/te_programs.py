"""Random tensor-expression programs with the numpy value of every tensor."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st

from tcopt.dialects.te import api as te
from tcopt.dialects.te.function_sizes import FunctionSizes
from tcopt.support.arithmetic.sizes import evaluate, is_fixed, lower_bound, named_size


@dataclass
class Program:
    """Placeholders with arrays, and every tensor made so far with its numpy value.

    Attributes:
        sizes: numbers of the named sizes that inputs may have as extents.
    """

    draw: st.DrawFn
    sizes: dict = field(default_factory=dict)
    inputs: list = field(default_factory=list)
    pool: list = field(default_factory=list)

    def number(self, low, high):
        return self.draw(st.integers(low, high))

    def pick(self, rank=None):
        """Return a tensor of a rank, or of any rank but 0, with its value."""
        fitting = [t for t in self.pool if t[0].ndim == rank or (rank is None and t[0].ndim)]
        return self.draw(st.sampled_from(fitting)) if fitting else None

    def add_input(self):
        rank = self.number(1, 3)
        shape = tuple(self.extent() for _ in range(rank))
        seed = self.number(0, 1000)
        numbers = [evaluate(extent, self.sizes) for extent in shape]
        array = np.random.default_rng(seed).uniform(-2, 2, numbers).astype(np.float32)
        tensor = te.placeholder(shape, "f32", f"x{len(self.inputs)}")
        self.inputs.append((tensor, array))
        self.pool.append((tensor, array))

    def extent(self):
        """Return a number, or a size."""
        name = self.draw(st.sampled_from([None, *self.sizes])) if self.sizes else None
        return self.number(1, 5) if name is None else named_size(name, 1, 6)

    def add(self, name, shape, function, value):
        stage = te.compute(shape, function, name=name)
        self.pool.append((stage, np.asarray(value, np.float32)))


def unary(p):
    x, a = p.pick()
    kind = p.number(0, 4)
    expression, value = [
        (lambda e: te.tanh(e), np.tanh),
        (lambda e: te.maximum(e, 0.0), lambda v: np.maximum(v, 0)),
        (lambda e: te.exp(te.minimum(e, 2.0)), lambda v: np.exp(np.minimum(v, 2))),
        (lambda e: te.sin(e) * te.sin(e) + 0.5, lambda v: np.sin(v) ** 2 + np.float32(0.5)),
        (lambda e: te.select(e > 0.5, -e, e / 3.0), lambda v: np.where(v > 0.5, -v, v / 3)),
    ][kind]
    p.add("unary", x.shape, lambda *i: expression(x[i]), value(a))


def binary(p):
    x, a = p.pick()
    same = [pair for pair in p.pool if pair[0].shape == x.shape]
    y, b = p.draw(st.sampled_from(same))
    p.add("binary", x.shape, lambda *i: x[i] * 0.5 - y[i], a * np.float32(0.5) - b)


def broadcast(p):
    x, a = p.pick()
    extent = p.number(1, 4)
    p.add(
        "broadcast",
        (extent, *x.shape),
        lambda n, *i: x[i] + te.cast(n, "f32"),
        a + np.arange(extent, dtype=np.float32).reshape(-1, *[1] * a.ndim),
    )


def pad(p):
    x, a = p.pick()
    low = [p.number(0, 2) for _ in x.shape]
    high = [p.number(0, 2) for _ in x.shape]
    default = p.draw(st.sampled_from([0.0, -1.0, 3.5]))
    shape = [extent + i + j for extent, i, j in zip(x.shape, low, high, strict=True)]
    p.add(
        "pad",
        shape,
        lambda *i: x.read(tuple(v - o for v, o in zip(i, low, strict=True)), default=default),
        np.pad(a, np.stack([low, high], axis=1), constant_values=default),
    )


def strided_slice(p):
    x, a = p.pick()
    starts = [p.number(0, lower_bound(extent) - 1) for extent in x.shape]
    steps = [p.number(1, 2) for _ in x.shape]
    value = a[tuple(slice(s, None, t) for s, t in zip(starts, steps, strict=True))]
    p.add(
        "slice",
        [(n - s + t - 1) // t for n, s, t in zip(x.shape, starts, steps, strict=True)],
        lambda *i: x[tuple(v * t + s for v, s, t in zip(i, starts, steps, strict=True))],
        value,
    )


def transpose(p):
    x, a = p.pick()
    perm = p.draw(st.permutations(range(x.ndim)))
    value = a.transpose(perm)
    p.add(
        "transpose",
        [x.shape[axis] for axis in perm],
        lambda *i: x[tuple(i[list(perm).index(axis)] for axis in range(x.ndim))],
        value,
    )


def flatten(p):
    x, a = p.pick()
    if not is_fixed(x.shape[1:]):
        return
    strides = [int(np.prod(x.shape[axis + 1 :])) for axis in range(x.ndim)]
    p.add(
        "flatten",
        (x.shape[0] * strides[0],),
        lambda i: x[
            (i // strides[0], *(i // s % n for s, n in zip(strides[1:], x.shape[1:], strict=True)))
        ],
        a.reshape(-1),
    )


def reduce(p):
    x, a = p.pick()
    axis = p.number(0, x.ndim - 1)
    k = te.reduce_axis(x.shape[axis], "k")
    combine, value = p.draw(
        st.sampled_from([(te.sum, np.sum), (te.max, np.max), (te.min, np.min), (te.prod, np.prod)])
    )
    shape = x.shape[:axis] + x.shape[axis + 1 :]
    p.add(
        "reduce",
        shape,
        lambda *i: combine(x[(*i[:axis], k, *i[axis:])], axis=k),
        value(a, axis=axis),
    )


def pool(p):
    x, a = p.pick()
    window, stride = p.number(1, 3), p.number(1, 2)
    extent = (x.shape[-1] + 1) // stride
    number = (a.shape[-1] + 1) // stride
    k = te.reduce_axis(window, "k")
    padded = np.pad(a, [(0, 0)] * (a.ndim - 1) + [(1, window + 1)], constant_values=-np.inf)
    columns = [padded[..., j : j + stride * number : stride][..., :number] for j in range(window)]
    p.add(
        "pool",
        (*x.shape[:-1], extent),
        lambda *i: te.max(
            te.maximum(x.read((*i[:-1], i[-1] * stride + k - 1), default=-9.0), -9.0), axis=k
        ),
        np.maximum(np.max(columns, axis=0), -9),
    )


def matmul(p):
    left = p.pick(2)
    if left is None:
        return
    x, a = left
    fitting = [t for t in p.pool if t[0].ndim == 2 and t[0].shape[0] == x.shape[1]]
    if not fitting:
        return
    y, b = p.draw(st.sampled_from(fitting))
    k = te.reduce_axis(x.shape[1], "k")
    p.add(
        "matmul",
        (x.shape[0], y.shape[1]),
        lambda i, j: te.sum(x[i, k] * y[k, j], axis=k),
        a @ b,
    )


def concat(p):
    x, a = p.pick()
    first = x.shape[0]
    p.add(
        "concat",
        (2 * first, *x.shape[1:]),
        lambda n, *i: te.if_then_else(n < first, x[(n, *i)], -x[(n - first, *i)]),
        np.concatenate([a, -a]),
    )


def gather(p):
    x, a = p.pick()
    extent = x.shape[0]
    rows = (np.arange(len(a)) * 3 + 1) % len(a)

    def element(n, *i):
        row = (te.cast(n, "i32") * 3 + 1) % extent
        return x[(te.index(row), *i)]

    p.add("gather", x.shape, element, a[rows])


STEPS = [
    unary,
    binary,
    broadcast,
    pad,
    strided_slice,
    transpose,
    flatten,
    reduce,
    pool,
    matmul,
    concat,
    gather,
]


def draw_program(program, max_steps):
    """Draw inputs and stages; return the results with their values."""
    for _ in range(program.number(1, 2)):
        program.add_input()
    for _ in range(program.number(1, max_steps)):
        step = program.draw(st.sampled_from(STEPS))
        step(program)
        while program.pool[-1][1].size > 400 or program.pool[-1][0].ndim > 4:
            program.pool.pop()
    results = [program.pool[-1]]
    if program.draw(st.booleans()):
        results.append(program.draw(st.sampled_from(program.pool)))
    return results


@st.composite
def programs(draw, max_steps=7):
    """(te.func, input arrays, expected outputs)."""
    program = Program(draw)
    results = draw_program(program, max_steps)
    function = te.func("f", [t for t, _ in program.inputs], [t for t, _ in results])
    return function, [a for _, a in program.inputs], [a for _, a in results]


@st.composite
def sized_programs(draw, max_steps=7):
    """(te.func, numbers of its sizes by name, input arrays, expected outputs)."""
    program = Program(draw, {"n": draw(st.integers(1, 6)), "m": draw(st.integers(1, 6))})
    results = draw_program(program, max_steps)
    sizes = FunctionSizes()
    function = te.func("f", [t for t, _ in program.inputs], [t for t, _ in results], sizes)
    numbers = {
        symbol.name: evaluate(value, program.sizes)
        for symbol, value in zip(sizes.symbols, sizes.values, strict=True)
    }
    return function, numbers, [a for _, a in program.inputs], [a for _, a in results]
