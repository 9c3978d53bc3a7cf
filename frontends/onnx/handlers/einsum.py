"""Handler of Einsum, by transposes, reductions and matrix products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import handler
from tcopt.frontends.onnx.handlers.shaping import reshaped
from tcopt.support.arithmetic.sizes import is_fixed


@dataclass
class _Term:
    """A value with a label for each axis."""

    value: SSAValue
    labels: list[str]


@handler("Einsum")
def einsum(ctx: NodeContext) -> SSAValue:
    """Contraction over labels that are not in the result; operands are combined left to right."""
    terms, target = _terms(ctx)
    terms = [_without_repeats(ctx, term) for term in terms]
    extents = _extents(ctx, terms)
    result = terms[0]
    for index, term in enumerate(terms[1:], 1):
        later = {label for other in terms[index + 1 :] for label in other.labels}
        result = _contract(ctx, result, term, later | set(target), extents)
    result = _summed(ctx, result, set(target))
    ctx.check(
        sorted(result.labels) == sorted(target),
        f"the result {target} has labels that no operand has",
    )
    return _arranged(ctx, result, target)


def _terms(ctx: NodeContext) -> tuple[list[_Term], list[str]]:
    """Return labelled operands and the labels of the result.

    Ellipsis axes are labelled by position.
    """
    equation = "".join(ctx.get_string("equation").split())
    left, arrow, right = equation.partition("->")
    inputs = left.split(",")
    ctx.check(
        len(inputs) == len(ctx.operands), f"{equation!r} does not match the number of operands"
    )
    terms: list[_Term] = []
    widest = 0
    for text, value in zip(inputs, ctx.inputs(), strict=True):
        rank = ctx.rank(value)
        hidden = rank - len(text.replace("...", ""))
        ctx.check(
            hidden >= 0 if "..." in text else hidden == 0, f"{text!r} does not label {rank} axes"
        )
        widest = max(widest, hidden)
        terms.append(_Term(value, _labels(ctx, text, hidden)))
    if not arrow:
        found = "".join(inputs).replace("...", "")
        right = "".join(sorted(label for label in set(found) if found.count(label) == 1))
        right = ("..." if "..." in left else "") + right
    return terms, _labels(ctx, right, widest)


def _labels(ctx: NodeContext, text: str, hidden: int) -> list[str]:
    ctx.check(text.count("...") <= 1, f"{text!r} has several ellipses")
    before, dots, after = text.partition("...")
    ctx.check((before + after).isalpha() or not before + after, f"{text!r} is not made of letters")
    return [*before, *([str(i) for i in range(-hidden, 0)] if dots else []), *after]


def _without_repeats(ctx: NodeContext, term: _Term) -> _Term:
    """Replace repeated labels by diagonals: every n + 1st element of the two merged axes."""
    value, labels = term.value, list(term.labels)
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            shape = ctx.shape(value)
            n = shape[first]
            ctx.check(n == shape[second], f"label {label!r} has different extents")
            order = [d for d in range(len(shape)) if d != second]
            order.insert(first + 1, second)
            if second != first + 1:
                value = ctx.emit(graph.TransposeOp(value, order))
            before, after = shape[:first], tuple(shape[d] for d in order[first + 2 :])
            value = reshaped(ctx, value, [*before, n * n, *after])
            if not is_fixed((n,)):
                places = ctx.emit(graph.MulOp(ctx.positions(n), ctx.sizes(n + 1)))
                value = ctx.emit(graph.GatherOp(value, places, axis=first))
            elif n > 1:
                starts, steps = [0] * (len(shape) - 1), [1] * (len(shape) - 1)
                steps[first] = n + 1
                value = ctx.emit(graph.SliceOp(value, starts, (*before, n, *after), steps))
            del labels[second]
    return _Term(value, labels)


def _extents(ctx: NodeContext, terms: list[_Term]) -> dict[str, int]:
    extents: dict[str, int] = {}
    for term in terms:
        for label, extent in zip(term.labels, ctx.shape(term.value), strict=True):
            known = extents.setdefault(label, extent)
            ctx.check(
                known == extent or 1 in (known, extent), f"label {label!r} has different extents"
            )
            extents[label] = extent if known == 1 else known
    return extents


def _contract(
    ctx: NodeContext, a: _Term, b: _Term, kept: set[str], extents: dict[str, int]
) -> _Term:
    """Contract two terms over their common labels that are not kept."""
    a = _summed(ctx, a, kept | set(b.labels))
    b = _summed(ctx, b, kept | set(a.labels))
    batch = [label for label in a.labels if label in b.labels and label in kept]
    inner = [label for label in a.labels if label in b.labels and label not in kept]
    rows = [label for label in a.labels if label not in b.labels]
    columns = [label for label in b.labels if label not in a.labels]

    def extent(labels: Sequence[str]) -> int:
        return math.prod(extents[label] for label in labels)

    lead = [extents[label] for label in batch]
    left = _arranged(ctx, _full(ctx, a, extents), [*batch, *rows, *inner])
    right = _arranged(ctx, _full(ctx, b, extents), [*batch, *inner, *columns])
    left = reshaped(ctx, left, [*lead, extent(rows), extent(inner)])
    right = reshaped(ctx, right, [*lead, extent(inner), extent(columns)])
    product = ctx.emit((graph.MatmulOp if inner else graph.MulOp)(left, right))
    labels = [*batch, *rows, *columns]
    return _Term(reshaped(ctx, product, [extents[label] for label in labels]), labels)


def _full(ctx: NodeContext, term: _Term, extents: dict[str, int]) -> _Term:
    """Broadcast unit axes to the extent of their label."""
    shape = [extents[label] for label in term.labels]
    if ctx.shape(term.value) == tuple(shape):
        return term
    return _Term(ctx.emit(graph.BroadcastToOp(term.value, shape)), term.labels)


def _summed(ctx: NodeContext, term: _Term, kept: set[str]) -> _Term:
    axes = [axis for axis, label in enumerate(term.labels) if label not in kept]
    if not axes:
        return term
    value = ctx.emit(graph.ReduceOp(term.value, kind="sum", axes=axes))
    return _Term(value, [label for label in term.labels if label in kept])


def _arranged(ctx: NodeContext, term: _Term, labels: list[str]) -> SSAValue:
    perm = [term.labels.index(label) for label in labels]
    if perm == sorted(perm):
        return term.value
    return ctx.emit(graph.TransposeOp(term.value, perm))
