"""Handlers of recurrent layers: RNN, GRU and LSTM as loops over time.

The product of the whole sequence with the input weights is a single matrix product before the loop.
Each iteration adds the product of the last hidden state with the recurrent weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.dialects.graph.core.types import AnyTensor, type_of
from tcopt.frontends.onnx.context.activations import Activation, activations
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import handler
from tcopt.frontends.onnx.context.scans import scan

States = list[SSAValue]
Product = Callable[[NodeContext, SSAValue, SSAValue, States], SSAValue]
"""Function that multiplies data by rows of weights, given the scales of the weights."""


@dataclass(frozen=True)
class Weights:
    """Parameters of one direction.

    Attributes:
        w: [gates * hidden, input], input weights.
        r: [gates * hidden, hidden], recurrent weights.
        b: [2 * gates * hidden], biases for both; None for zeros.
        peepholes: [3 * hidden], weights of an LSTM's cell state in gates i, o, f.
        w_scales, r_scales: scales and zero points of quantised w and r; empty otherwise.
    """

    w: SSAValue
    r: SSAValue
    b: SSAValue | None
    peepholes: SSAValue | None
    w_scales: States
    r_scales: States


@dataclass(frozen=True)
class RecurrentStep:
    """One iteration of a cell, on values of shape [batch, ...].

    Attributes:
        ctx: context for new ops.
        projected: product of the input with its weights, including biases, for all gates.
        states: the hidden state, followed by the cell state of an LSTM.
        r, r_scales, recurrent_bias, peepholes: see `Weights`; the bias is [gates * hidden].
        functions: activation functions.
        multiply: product of a state with recurrent weights.
    """

    ctx: NodeContext
    projected: SSAValue
    states: States
    r: SSAValue
    r_scales: States
    recurrent_bias: SSAValue | None
    peepholes: SSAValue | None
    functions: Sequence[Activation]
    multiply: Product

    @property
    def hidden(self) -> int:
        """Size of the hidden state."""
        return self.ctx.shape(self.states[0])[-1]

    def part(self, value: SSAValue, gate: int, count: int = 1) -> SSAValue:
        """Return gates `gate` to `gate + count` of a value [batch or 1, gates * hidden]."""
        extents = [self.ctx.shape(value)[0], count * self.hidden]
        return self.ctx.emit(graph.SliceOp(value, (0, gate * self.hidden), extents))

    def rows(self, gate: int, count: int) -> SSAValue:
        """Return the recurrent weights of some gates."""
        extents = [count * self.hidden, self.hidden]
        return self.ctx.emit(graph.SliceOp(self.r, (gate * self.hidden, 0), extents))

    def product(self, state: SSAValue, rows: SSAValue) -> SSAValue:
        """Multiply a state by recurrent weights."""
        return self.multiply(self.ctx, state, rows, self.r_scales)

    def add(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.ctx.emit(graph.AddOp(a, b))

    def mul(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.ctx.emit(graph.MulOp(a, b))

    def apply(self, function: int, value: SSAValue) -> SSAValue:
        """Apply activation number `function` to the clipped value."""
        limit = self.ctx.get_float("clip", 0.0)
        if limit > 0:
            value = self.ctx.emit(graph.ClipOp(value, min=-limit, max=limit))
        return self.functions[function](self.ctx, value)

    def one_minus(self, value: SSAValue) -> SSAValue:
        return self.ctx.emit(graph.SubOp(self.ctx.literal(1.0, value), value))


Cell = Callable[[RecurrentStep], States]


def _product(ctx: NodeContext, x: SSAValue, rows: SSAValue, scales: States) -> SSAValue:
    return ctx.emit(graph.MatmulOp(x, rows, transpose_b=True))


def _no_scales(ctx: NodeContext, place: int, direction: int) -> States:
    return []


def _rnn(step: RecurrentStep) -> States:
    """Compute h' = f(x W + h R)."""
    (h,) = step.states
    return [step.apply(0, step.add(step.projected, step.product(h, step.r)))]


def _gru(step: RecurrentStep) -> States:
    """Compute gates z (update) and r (reset), and h' = (1 - z) n + z h."""
    (h,) = step.states
    gates = step.product(h, step.rows(0, 2))
    z = step.apply(0, step.add(step.part(step.projected, 0), step.part(gates, 0)))
    r = step.apply(0, step.add(step.part(step.projected, 1), step.part(gates, 1)))
    rows = step.rows(2, 1)
    bias = None if step.recurrent_bias is None else step.part(step.recurrent_bias, 2)
    if step.ctx.get_bool("linear_before_reset", 0):
        new = step.product(h, rows)
        new = step.mul(r, new if bias is None else step.add(new, bias))
    else:
        new = step.product(step.mul(r, h), rows)
        new = new if bias is None else step.add(new, bias)
    n = step.apply(1, step.add(step.part(step.projected, 2), new))
    return [step.add(step.mul(step.one_minus(z), n), step.mul(z, h))]


def _lstm(step: RecurrentStep) -> States:
    """Compute gates i (input), o (output), f (forget), and c' = f c + i g(n), h' = o h(c')."""
    h, c = step.states
    gates = step.add(step.projected, step.product(h, step.r))

    def gate(number: int, peephole: int, cell: SSAValue) -> SSAValue:
        value = step.part(gates, number)
        if step.peepholes is not None:
            value = step.add(value, step.mul(step.part(step.peepholes, peephole), cell))
        return step.apply(0, value)

    i = gate(0, 0, c)
    f = step.one_minus(i) if step.ctx.get_bool("input_forget", 0) else gate(2, 2, c)
    n = step.apply(1, step.part(gates, 3))
    new_c = step.add(step.mul(f, c), step.mul(i, n))
    o = gate(1, 1, new_c)
    return [step.mul(o, step.functions[2](step.ctx, new_c)), new_c]


@dataclass(frozen=True)
class RecurrentLayer:
    """Definition of a kind of recurrent layer.

    Attributes:
        cell: computes one iteration.
        gates: number of gates whose weights are stacked.
        defaults: default activations.
        split_bias: number of trailing gates whose recurrent bias is added by the cell.
        states: number of states passed between iterations.
        product: multiplies data by weights.
        scales: returns the scales of weights, given their operand index and the direction.
    """

    cell: Cell
    gates: int
    defaults: tuple[str, ...]
    split_bias: int = 0
    states: int = 1
    product: Product = _product
    scales: Callable[[NodeContext, int, int], States] = _no_scales


_RNN = RecurrentLayer(_rnn, 1, ("Tanh",))
_GRU = RecurrentLayer(_gru, 3, ("Sigmoid", "Tanh"), split_bias=1)
LSTM = RecurrentLayer(_lstm, 4, ("Sigmoid", "Tanh", "Tanh"), states=2)


@handler("RNN", since=7)
def rnn(ctx: NodeContext) -> list[SSAValue | None]:
    """Recurrent layer without gates; activations are given per direction."""
    return recurrent_layer(ctx, _RNN)


@handler("GRU", since=7)
def gru(ctx: NodeContext) -> list[SSAValue | None]:
    """Gated recurrent unit; weights are stacked in the order z, r, n."""
    return recurrent_layer(ctx, _GRU)


@handler("LSTM", since=7)
def lstm(ctx: NodeContext) -> list[SSAValue | None]:
    """Long short-term memory; weights are stacked in the order i, o, f, n."""
    return recurrent_layer(ctx, LSTM)


def recurrent_layer(ctx: NodeContext, layer: RecurrentLayer) -> list[SSAValue | None]:
    """Emit a layer with operands in ONNX's order; return all hidden states and the last states."""
    states = layer.states
    x = ctx.input(0)
    ctx.check(ctx.rank(x) == 3, f"x {list(ctx.shape(x))} should have three dimensions")
    batch_first = ctx.get_bool("layout", 0)
    if batch_first:
        x = ctx.emit(graph.TransposeOp(x, (1, 0, 2)))
    directions = _directions(ctx)
    hidden = _hidden(ctx, layer, len(directions))
    functions = activations(ctx, len(directions), layer.defaults)
    slices: list[SSAValue] = []
    finals: list[list[SSAValue]] = [[] for _ in range(states)]
    for number, reverse in enumerate(directions):
        weights = _weights(ctx, layer, number, hidden)
        initial = [_initial(ctx, x, 5 + s, number, hidden, batch_first) for s in range(states)]
        results = _direction(ctx, layer, x, weights, initial, functions[number], reverse)
        for column, value in zip(finals, results[:states], strict=True):
            column.append(value)
        slices += results[states:]
    y = _stack(ctx, slices, 2 if batch_first else 1, batch_first) if slices else None
    lasts = [_stack(ctx, column, 1 if batch_first else 0, False) for column in finals]
    return [y, *lasts]


def _directions(ctx: NodeContext) -> list[bool]:
    """Return whether each direction is reversed."""
    name = ctx.get_string("direction", "forward")
    known = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}
    ctx.check(name in known, f"there is no direction {name!r}")
    return known[name]


def _hidden(ctx: NodeContext, layer: RecurrentLayer, directions: int) -> int:
    """Return the size of the state, on which all parameters must agree."""
    x, w, r = (ctx.shape(ctx.input(place)) for place in range(3))
    hidden = r[-1] if len(r) == 3 else 0
    rows = layer.gates * hidden
    ctx.check(w == (directions, rows, x[-1]), f"w {list(w)} does not fit x {list(x)}")
    ctx.check(r == (directions, rows, hidden), f"r {list(r)} does not fit w {list(w)}")
    declared = ctx.get_int("hidden_size", hidden)
    ctx.check(declared == hidden, f"hidden_size {declared} differs from that of r, {hidden}")
    bias, peepholes = ctx.optional_input(3), ctx.optional_input(7)
    for value, count in ((bias, 2 * layer.gates), (peepholes, 3)):
        if value is not None:
            ctx.check(
                ctx.shape(value) == (directions, count * hidden),
                f"b or p {list(ctx.shape(value))} does not fit r {list(r)}",
            )
    return hidden


def _weights(ctx: NodeContext, layer: RecurrentLayer, number: int, hidden: int) -> Weights:
    def direction(place: int) -> SSAValue | None:
        value = ctx.optional_input(place)
        if value is None:
            return None
        known = ctx.known(value)
        if known is not None:
            # Remains a constant, which the loop body can contain.
            part = known[number] if known.ndim == 3 else known[number : number + 1]
            return ctx.builder.constant(part, value.name_hint)
        shape = ctx.shape(value)
        start = [number, *(0 for _ in shape[1:])]
        part = value if shape[0] == 1 else ctx.emit(graph.SliceOp(value, start, (1, *shape[1:])))
        return ctx.emit(graph.ReshapeOp(part, shape[1:] if len(shape) == 3 else (1, shape[1])))

    w, r = direction(1), direction(2)
    assert w is not None and r is not None
    w_scales, r_scales = (layer.scales(ctx, place, number) for place in (1, 2))
    return Weights(w, r, direction(3), direction(7), w_scales, r_scales)


def _initial(
    ctx: NodeContext, x: SSAValue, place: int, number: int, hidden: int, batch_first: bool
) -> SSAValue:
    """Return the initial state of a direction, [batch, hidden]."""
    batch = ctx.shape(x)[1]
    value = ctx.optional_input(place)
    if value is None:
        return ctx.splat((batch, hidden), ctx.builder.dtype_of(x).type(0))
    if batch_first:
        value = ctx.emit(graph.TransposeOp(value, (1, 0, 2)))
    shape = ctx.shape(value)
    fits = len(shape) == 3 and shape[1:] == (batch, hidden) and number < shape[0]
    ctx.check(fits, f"an initial state {list(shape)} does not fit [.., {batch}, {hidden}]")
    one = ctx.emit(graph.SliceOp(value, (number, 0, 0), (1, batch, hidden)))
    return ctx.emit(graph.ReshapeOp(one, (batch, hidden)))


def _direction(
    ctx: NodeContext,
    layer: RecurrentLayer,
    x: SSAValue,
    weights: Weights,
    initial: States,
    functions: Sequence[Activation],
    reverse: bool,
) -> list[SSAValue]:
    """Return the last states of a direction, followed by all hidden states if they are used."""
    steps = ctx.shape(x)[0]
    projected, recurrent_bias = _project(ctx, layer, x, weights)
    lengths = _lengths(ctx, steps)
    scanned = [projected]
    fixed = [weights.r, *weights.r_scales]
    fixed += [v for v in (recurrent_bias, weights.peepholes) if v is not None]
    if lengths is not None:
        times = ctx.positions(steps, lengths)
        scanned.append(ctx.emit(graph.ReshapeOp(times, (steps, 1, 1))))
        fixed.append(lengths)
    collect = ctx.output_used(0)

    def body(inner: NodeContext, values: list[SSAValue]) -> list[SSAValue]:
        old, rest = values[: len(initial)], values[len(initial) :]
        parameters = iter(rest[len(scanned) :])
        step = RecurrentStep(
            inner,
            rest[0],
            old,
            next(parameters),
            [next(parameters) for _ in weights.r_scales],
            None if recurrent_bias is None else next(parameters),
            None if weights.peepholes is None else next(parameters),
            functions,
            layer.product,
        )
        new = layer.cell(step)
        row = new[0]
        if lengths is not None:
            # After the end of a sequence, its state is kept and its outputs are zero.
            going = inner.emit(graph.CompareOp(rest[1], next(parameters), predicate="lt"))
            zero = inner.literal(0.0, row)
            row = inner.emit(graph.SelectOp(going, row, zero))
            new = [inner.emit(graph.SelectOp(going, a, b)) for a, b in zip(new, old, strict=True)]
        return [*new, row] if collect else new

    slices: list[AnyTensor] = [type_of(initial[0])] if collect else []
    return scan(ctx, body, steps, initial, scanned, fixed, slices, reverse=reverse)


def _project(
    ctx: NodeContext, layer: RecurrentLayer, x: SSAValue, weights: Weights
) -> tuple[SSAValue, SSAValue | None]:
    """Return the product of all inputs with their weights, and the bias that the cell must add."""
    steps, batch, width = ctx.shape(x)
    rows = ctx.shape(weights.w)[0]
    flat = ctx.emit(graph.ReshapeOp(x, (steps * batch, width)))
    product = layer.product(ctx, flat, weights.w, weights.w_scales)
    own: SSAValue | None = None
    if weights.b is not None:
        given = ctx.emit(graph.SliceOp(weights.b, (0, 0), (1, rows)))
        recurrent = ctx.emit(graph.SliceOp(weights.b, (0, rows), (1, rows)))
        if layer.split_bias:
            own = recurrent
            early = rows - rows // layer.gates * layer.split_bias
            mask = (np.arange(rows) < early).astype(ctx.builder.dtype_of(x)).reshape(1, rows)
            recurrent = ctx.emit(graph.MulOp(recurrent, ctx.array(mask)))
        bias = ctx.emit(graph.AddOp(given, recurrent))
        product = ctx.emit(graph.AddOp(product, bias))
    return ctx.emit(graph.ReshapeOp(product, (steps, batch, rows))), own


def _lengths(ctx: NodeContext, steps: int) -> SSAValue | None:
    """Return the sequence lengths as [batch, 1]; None if all sequences have full length."""
    value = ctx.optional_input(4)
    if value is not None:
        ctx.require(value, 0, steps, "sequence_lens")
    known = ctx.known(value)
    if value is None or (known is not None and bool(np.all(known >= steps))):
        return None
    ctx.check(ctx.rank(value) == 1, "sequence_lens should have one dimension")
    return ctx.emit(graph.ReshapeOp(value, (ctx.shape(value)[0], 1)))


def _stack(ctx: NodeContext, values: list[SSAValue], axis: int, batch_first: bool) -> SSAValue:
    """Stack the values of directions along a new axis, optionally with the batch axis first."""
    parts: list[SSAValue] = []
    for value in values:
        if batch_first:
            value = ctx.emit(graph.TransposeOp(value, (1, 0, 2)))
        shape = list(ctx.shape(value))
        shape.insert(axis, 1)
        parts.append(ctx.emit(graph.ReshapeOp(value, shape)))
    return parts[0] if len(parts) == 1 else ctx.emit(graph.ConcatOp(parts, axis=axis))
