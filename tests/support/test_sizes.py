"""Symbolic sizes, compared with the same arithmetic on numbers."""

import pickle
from contextlib import suppress
from operator import add, floordiv, ge, gt, le, lt, mod, mul, sub

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from running.examples import examples
from tcopt.support.arithmetic.size_parser import names_in, parse_size
from tcopt.support.arithmetic.sizes import (
    Size,
    bounds_of,
    ceildiv,
    evaluate,
    hints,
    is_fixed,
    lower_bound,
    maximum,
    minimum,
    named_size,
    product,
    round_up,
    solve,
    substitute,
    symbols_of,
    to_affine,
    upper_bound,
)
from tcopt.support.errors import InputError, ParsingError, UndecidedSize

# Ranges with zero, from one, of multiples, and of few values.
RANGES = {"a": (0, 9, 1), "b": (1, 40, 1), "c": (8, 64, 8), "d": (2, 3, 1)}
NAMES = {name: named_size(name, *bounds) for name, bounds in RANGES.items()}
a, b, c, d = NAMES.values()

leaves = st.one_of(st.sampled_from(list(NAMES)), st.integers(-20, 20))
divisors = st.sampled_from([1, 2, 3, 4, 7, 8, 12, 16, -3])
values = st.fixed_dictionaries(
    {n: st.sampled_from(range(low, high + 1, step)) for n, (low, high, step) in RANGES.items()}
)


def grown(children):
    pairs = st.tuples(st.sampled_from([add, sub, mul, min, max, floordiv]), children, children)
    divisions = st.tuples(st.sampled_from([floordiv, mod, ceildiv]), children, divisors)
    return st.one_of(pairs, divisions)


trees = st.recursive(leaves, grown, max_leaves=7)
SYMBOLIC = {min: minimum, max: maximum}


def build(tree, leaf, functions):
    """Evaluate a tree of operations with the values of its leaves."""
    if not isinstance(tree, tuple):
        return tree if isinstance(tree, int) else leaf[tree]
    function, *operands = tree
    found = [build(each, leaf, functions) for each in operands]
    return functions.get(function, function)(*found)


def size_of(tree):
    """Build a size; None if a quotient of two sizes does not have a form for all values."""
    try:
        return build(tree, NAMES, SYMBOLIC)
    except (UndecidedSize, ZeroDivisionError):
        return None


@given(trees, values)
@settings(max_examples=examples(240), deadline=None)
def test_arithmetic_and_bounds(tree, numbers):
    size = size_of(tree)
    try:
        wanted = build(tree, numbers, {})
    except ZeroDivisionError:
        return
    if size is None:
        return
    assert evaluate(size, numbers) == wanted
    low, high = bounds_of(size)
    assert low <= wanted <= high
    assert isinstance(size, Size if symbols_of(size) else int)


@given(trees, trees, values)
@settings(max_examples=examples(180), deadline=None)
def test_comparisons(left, right, numbers):
    x, y = size_of(left), size_of(right)
    if x is None or y is None:
        return
    p, q = evaluate(x, numbers), evaluate(y, numbers)
    for compare in (lt, le, gt, ge):
        with suppress(UndecidedSize):
            assert compare(x, y) == compare(p, q)
    if x == y:
        assert p == q and hash(x) == hash(y)
    with suppress(UndecidedSize):
        assert bool(x) == bool(p)


@given(trees)
@settings(max_examples=examples(180), deadline=None)
def test_text(tree):
    size = size_of(tree)
    if size is not None:
        assert parse_size(str(size), NAMES) == size
        assert set(names_in(str(size))) == {symbol.name for symbol in symbols_of(size)}
        assert pickle.loads(pickle.dumps(size)) == size


@given(trees, st.dictionaries(st.sampled_from(list(NAMES)), trees, max_size=2), values)
@settings(max_examples=examples(120), deadline=None)
def test_substitution(tree, given_trees, numbers):
    size = size_of(tree)
    replaced = {name: size_of(each) for name, each in given_trees.items() if name != "c"}
    if size is None or None in replaced.values():
        return
    inner = numbers | {name: evaluate(each, numbers) for name, each in replaced.items()}
    assert evaluate(substitute(size, replaced), numbers) == evaluate(size, inner)


@pytest.mark.parametrize(
    "size, text, bounds",
    [
        (2 * b + 5 - b, "b + 5", (6, 45)),
        ((2 * b + 5) // 2, "b + 2", (3, 42)),
        (b * 12 % 12 + b, "b", (1, 40)),
        ((3 * b) // 2, "b + b floordiv 2", (1, 60)),
        ((a + 1) // 2, "(a + 1) floordiv 2", (0, 5)),
        (b // 4 // 2, "b floordiv 8", (0, 5)),
        ((16 * c + 128) // 16, "c + 8", (16, 72)),
        (c // 8, "c floordiv 8", (1, 8)),
        (c // 8 * b * 8, "b * c", (8, 2560)),
        ((8 * b + c // 8 - 1) // 64, "b floordiv 8", (0, 5)),
        (b % 4, "b mod 4", (0, 3)),
        (b // 4 * 4 + b % 4, "b", (1, 40)),
        (b % 4 // 2, "(b floordiv 2) mod 2", (0, 1)),
        (b - b // 2, "b - (b floordiv 2)", (1, 20)),
        (b * d - b, "b * d - b", (1, 80)),
        (round_up(b, 8) - b, "-((b + 7) mod 8) + 7", (0, 7)),
        (round_up(c, 4), "c", (8, 64)),
        (a * b // b, "a", (0, 9)),
        (6 * a * b // (4 * b), "a + a floordiv 2", (0, 13)),
        ((a * b - 1) // b, "a - 1", (-1, 8)),
        (minimum(b, 64), "b", (1, 40)),
        (minimum(b, 16, minimum(c, b)), "min(b, c, 16)", (1, 16)),
        (minimum(2 * b + 2, 16), "2 * min(b, 7) + 2", (4, 16)),
        (b - minimum(a, b), "b - min(a, b)", (0, 40)),
        (b - minimum(b, c), "b - min(b, c)", (0, 32)),
        (maximum(b, c) - c, "-c + max(b, c)", (0, 32)),
        (maximum(b, 8) // 2 - b // 2, "-(b floordiv 2) + (max(b, 8)) floordiv 2", (0, 4)),
        (
            minimum(3 * d, b) - minimum(2 * d, b),
            "-min(b, 2 * d) + min(b, 3 * d)",
            (0, 3),
        ),
        (maximum(b - 3, 0), "max(b, 3) - 3", (0, 37)),
        (maximum(a, b) - b, "-b + max(a, b)", (0, 8)),
        (2 * a + 2 * c - 2 * minimum(b, c), "2 * a + 2 * c - 2 * min(b, c)", (0, 144)),
        (-b, "-b", (-40, -1)),
        (5 - 2 * b, "-2 * b + 5", (-75, 3)),
        (b * b * a, "b * b * a", (0, 14400)),
    ],
)
def test_canonical_forms(size, text, bounds):
    found = parse_size(text, NAMES)
    assert size == found
    assert bounds_of(size) == (lower_bound(size), upper_bound(size)) == bounds
    if text != "b * b * a":
        assert str(size) == text


def test_constants_are_plain_numbers():
    constants = [b - b, b * 0, c % 8, d // 4, minimum(b, 0), b // b, b // 41, named_size("n", 7, 7)]
    assert constants == [0, 0, 0, 0, 0, 1, 0, 7]
    assert all(type(value) is int for value in constants)
    assert b != 1 and b - 1 != 0 and b + 1 == 1 + b


@pytest.mark.parametrize(
    "question",
    [
        lambda: b < 8,
        lambda: np.int64(8) >= b,
        lambda: min(b, c),
        lambda: bool(a),
        lambda: b // d,
        lambda: b % c,
        lambda: sorted([b, 8]),
    ],
)
def test_undecided_questions(question):
    with pytest.raises(UndecidedSize):
        question()


@pytest.mark.parametrize(
    "use",
    [
        *(int, float, range, hex),
        lambda n: [0] * n,
        lambda n: np.zeros((n, 2)),
        lambda n: n * 0.5,
        lambda n: np.array([n, 2], np.int64),
    ],
)
def test_sizes_are_not_numbers(use):
    with pytest.raises(UndecidedSize):
        use(b)


def test_numpy():
    shape = np.array([b, 4, c], object)
    assert np.prod(shape) == 4 * b * c == product(shape)
    assert list(np.concatenate([shape[1:], np.array([2])])) == [4, c, 2]
    assert list(shape * np.array([1, 2, 3]) - np.int64(1)) == [b - 1, 7, 3 * c - 1]
    assert list(np.cumsum(shape)) == [b, b + 4, b + c + 4]
    assert list(shape == b) == [True, False, False]
    assert list(b + np.array([1, 2])) == list(np.array([1, 2]) + b) == [b + 1, b + 2]
    assert [np.int32(3) * b, np.int64(3) - b, b // np.int8(2)] == [3 * b, 3 - b, b // 2]
    assert np.int64(0) < b and np.int64(1) != b
    assert is_fixed([1, 2]) and not is_fixed(shape)


def test_solving():
    assert solve(b + 1, 17, {}) == ("b", 16)
    assert solve(c + d, 50, {"d": 2}) == ("c", 48)
    assert solve(a * b - a, 12, {"a": 3}) == ("b", 5)
    for size, value, known in [(2 * b, 5, {}), (b, 41, {}), (c, 20, {}), (b + c, 9, {"c": 9})]:
        with pytest.raises(InputError):
            solve(size, value, known)
    for size in (b * b, b // 2, b + c):
        with pytest.raises(UndecidedSize):
            solve(size, 6, {})


def test_hints():
    assert hints(symbols_of(b), 5) == [{"b": n} for n in (1, 3, 6, 16, 40)]
    assert hints(symbols_of(c * d), 9)[0] == {"c": 8, "d": 2}
    assert hints(symbols_of(c * d), 9)[-1] == {"c": 64, "d": 3}
    assert all(hint["c"] % 8 == 0 for hint in hints(symbols_of(c), 6))
    assert hints(symbols_of(a), 3) == [{"a": 0}, {"a": 2}, {"a": 9}]


def test_affine():
    positions = {name: index for index, name in enumerate(NAMES)}
    numbers = [5, 17, 24, 3]
    for size in (3 * (b + 1) // 2 + c - 4, c // 16 + a % 4, 2 * b, minimum(b, 99)):
        affine = to_affine(size, positions)
        assert affine.eval(numbers, []) == evaluate(size, dict(zip(NAMES, numbers, strict=True)))
    assert to_affine(a * b, positions) is None
    assert to_affine(minimum(b, 7), positions) is None
    assert to_affine(4, {}).eval([], []) == 4


@pytest.mark.parametrize("text", ["past + 1", "past_1.x+ 2 *y", "(h - 1)//2 + 1", "s0 % 4", "min"])
def test_names_of_texts(text):
    names = names_in(text)
    size = parse_size(text, {name: named_size(name, 1, 100) for name in names})
    assert {symbol.name for symbol in symbols_of(size)} == set(names) != set()


@pytest.mark.parametrize(
    "text",
    [
        *("", "n +", "n m", "(n", "n)", "?", "n / 2", "1.5", "n ** 2", "min(n", "n-1", "n // 0"),
        *("٣", "-" * 999, "9" * 30),
    ],
)
def test_malformed_texts(text):
    with pytest.raises(ParsingError):
        parse_size(text, {"n": b})


def test_unknown_names_and_ranges():
    with pytest.raises(ParsingError, match="'m'"):
        parse_size("n + m", {"n": b})
    for bounds in [(-1, 4), (5, 4), (8, 20, 8), (1, 8, 8), (1, 4, 0)]:
        with pytest.raises(InputError, match="'n'"):
            named_size("n", *bounds)
