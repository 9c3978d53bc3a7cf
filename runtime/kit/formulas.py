"""Extents of sizes as formulas that the runtime evaluates, in reverse Polish notation.

`c/internal.h` lists the operations, and `c/sizes.c` evaluates them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from tcopt.runtime.specs import TensorSpec
from tcopt.support.arithmetic.size_terms import (
    Atom,
    MinMax,
    Monomial,
    Polynomial,
    Quotient,
    Symbol,
    of_terms,
    symbols_in,
)
from tcopt.support.arithmetic.sizes import Size
from tcopt.support.errors import UnsupportedError

_MOST_OPERANDS = 32


class Operation(IntEnum):
    """Operations of formulas; the values are those in `c/internal.h`."""

    END = 0
    NUMBER = 1
    SIZE = 2
    ADD = 3
    MULTIPLY = 4
    DIVIDE = 5
    MINIMUM = 6
    MAXIMUM = 7


class Equation(NamedTuple):
    """An extent of an input that determines a size: `factor * (size / multiple) + rest`."""

    input: int
    axis: int
    size: int
    factor: list[int]
    rest: list[int]


def formula(value: Polynomial, numbers: Mapping[str, int]) -> list[int]:
    """Return the operations that compute a polynomial.

    Args:
        numbers: the index of each size by its name.
    Raises:
        UnsupportedError: it is nested too deeply.
    """
    code = [*_polynomial(value, numbers), Operation.END]
    if _depth(code) > _MOST_OPERANDS:
        raise UnsupportedError(f"an extent has more than {_MOST_OPERANDS} operands at once")
    return [int(each) for each in code]


def _polynomial(value: Polynomial, numbers: Mapping[str, int]) -> Iterator[int]:
    is_first = True
    for monomial, coefficient in value.terms:
        yield from _monomial(monomial, coefficient, numbers)
        if not is_first:
            yield Operation.ADD
        is_first = False
    if is_first or value.constant:
        yield from (Operation.NUMBER, value.constant)
        if not is_first:
            yield Operation.ADD


def _monomial(monomial: Monomial, coefficient: int, numbers: Mapping[str, int]) -> Iterator[int]:
    for position, atom in enumerate(monomial):
        yield from _atom(atom, numbers)
        if position:
            yield Operation.MULTIPLY
    if coefficient != 1:
        yield from (Operation.NUMBER, coefficient, Operation.MULTIPLY)


def _atom(atom: Atom, numbers: Mapping[str, int]) -> Iterator[int]:
    if isinstance(atom, Symbol):
        yield from (Operation.SIZE, numbers[atom.name])
    elif isinstance(atom, MinMax):
        for position, operand in enumerate(atom.operands):
            yield from _polynomial(operand, numbers)
            if position:
                yield Operation.MAXIMUM if atom.is_maximum else Operation.MINIMUM
    else:
        # Canonical polynomials express remainders by quotients.
        assert isinstance(atom, Quotient)
        yield from _polynomial(atom.operand, numbers)
        yield from (Operation.DIVIDE, atom.divisor)


def _depth(code: Sequence[int]) -> int:
    """Return the maximum number of operands on the stack."""
    depth = most = position = 0
    while code[position] != Operation.END:
        operation = code[position]
        if operation in (Operation.NUMBER, Operation.SIZE):
            depth += 1
        elif operation != Operation.DIVIDE:
            depth -= 1
        most = max(most, depth)
        position += 1 if operation in _WITHOUT_OPERAND else 2
    return most


_WITHOUT_OPERAND = (Operation.ADD, Operation.MULTIPLY, Operation.MINIMUM, Operation.MAXIMUM)


def equations(inputs: Sequence[TensorSpec], numbers: Mapping[str, int]) -> list[Equation]:
    """Return the equations that determine sizes from the shapes of inputs.

    Each extent gives one for each size in which it is linear. At run time, one is solved when the
    other sizes in it are known, as `runtime.program_sizes.solved_sizes` does.

    Args:
        numbers: the index of each size by its name.
    """
    return [
        Equation(
            number, axis, numbers[symbol.name], formula(factor, numbers), formula(rest, numbers)
        )
        for number, spec in enumerate(inputs)
        for axis, extent in enumerate(spec.shape)
        if isinstance(extent, Size)
        for symbol in symbols_in(extent.value)
        for factor, rest in _linear(extent.value, symbol)
    ]


def _linear(value: Polynomial, symbol: Symbol) -> Iterator[tuple[Polynomial, Polynomial]]:
    """Yield `factor, rest` of `value = factor * symbol + rest`, if it has this form."""
    factor: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, coefficient in value.terms:
        if symbol not in symbols_in(Polynomial(((monomial, 1),))):
            rest[monomial] = coefficient
            continue
        others = list(monomial)
        if symbol not in others:
            return
        others.remove(symbol)
        if symbol in symbols_in(Polynomial(((tuple(others), 1),))):
            return
        factor[tuple(others)] = coefficient
    constant = factor.pop((), 0)
    yield of_terms(factor, constant), of_terms(rest, value.constant)
