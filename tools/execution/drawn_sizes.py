"""Numbers for the sizes of a module, at which it is run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import FunctionType, MemRefType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp

from tcopt.dialects.size import DefineOp, defined_symbols, extents_of
from tcopt.dialects.target import target_facts_of
from tcopt.interpreters import graph, te
from tcopt.passes.fix_sizes import fix_sizes, free_symbols
from tcopt.runtime.program_sizes import solved_sizes
from tcopt.runtime.specs import TensorSpec
from tcopt.support.arithmetic.size_terms import Symbol
from tcopt.support.errors import UnsupportedError
from tcopt.tools.execution.executors import functions, inputs_of, level_of

Array = NDArray[Any]

DRAWS = 4
"""Number of assignments of numbers to sizes at which a module is run."""

_LANES = 8
"""Number of elements of a vector that is assumed without a target."""


def draw_sizes(
    module: ModuleOp, seed: int, given: Mapping[str, Array] | None = None
) -> list[dict[str, int]]:
    """Return different numbers for the sizes of a module, by name; one empty draw without sizes.

    They include the ends of the ranges, and numbers that do not fill the last vector.

    Args:
        given: inputs by name, whose shapes determine their sizes.
    """
    symbols = {symbol.name: symbol for symbol in free_symbols(module)}
    known = _given_sizes(module, symbols.values(), given) if given and symbols else {}
    random = np.random.default_rng(seed)
    target = target_facts_of(module)
    lanes = _LANES if target is None or target.vectors is None else target.vectors.lanes(32)
    numbers = {
        name: [known[name]] if name in known else _numbers(symbol, lanes, random)
        for name, symbol in symbols.items()
    }
    found: list[dict[str, int]] = []
    for turn in range(DRAWS):
        # Sizes take their numbers in different orders, so that they differ from each other.
        draw = {
            name: own[(turn + place) % len(own)]
            for place, (name, own) in enumerate(numbers.items())
        }
        if draw not in found:
            found.append(draw)
    return found


def _numbers(symbol: Symbol, lanes: int, random: np.random.Generator) -> list[int]:
    low, high = symbol.range
    drawn = int(random.integers(low, high + 1))
    wanted = (lanes + 1, low, drawn, high, 2, lanes - 1, lanes)
    return list(dict.fromkeys(min(max(n, low), high) * symbol.multiple for n in wanted))


def _given_sizes(
    module: ModuleOp, symbols: Iterable[Symbol], given: Mapping[str, Array]
) -> dict[str, int]:
    """Return the sizes that the shapes of given inputs determine."""
    fixed = at_sizes(module, {symbol.name: symbol.low for symbol in symbols})
    twins = functions(fixed).values()
    specs: list[TensorSpec] = []
    for function, twin in zip(functions(module).values(), twins, strict=True):
        arguments = function.regions[0].block.args
        for spec, argument in zip(inputs_of(fixed, twin), arguments, strict=False):
            if spec.name in given and isinstance(argument.type, TensorType | MemRefType):
                specs.append(spec._replace(shape=extents_of(argument.type)))
    return solved_sizes((), specs, tuple(given[spec.name].shape for spec in specs))


def defined_sizes(
    module: ModuleOp, sizes: Mapping[str, int], feeds: Sequence[Array]
) -> dict[str, int]:
    """Return the sizes that @main of a module defines when it runs on some inputs.

    Args:
        sizes: numbers of the other sizes.
        feeds: the inputs of @main.
    """
    found: dict[str, int] = {}
    while True:
        part = at_sizes(module, {**sizes, **found}).clone()
        main = functions(part).get("main")
        ops = [] if main is None else list(main.regions[0].block.ops)
        place = next((at for at, op in enumerate(ops) if isinstance(op, DefineOp)), None)
        if place is None:
            return found
        # The function up to the definition, with its integer as the result.
        for op in reversed(ops[place + 1 :]):
            op.detach()
            op.erase()
        definition = ops[place]
        assert isinstance(main, FuncOp) and isinstance(definition, DefineOp)
        main.body.block.insert_op_before(ReturnOp(definition.count), definition)
        symbol, type_ = definition.symbol, definition.count.type
        definition.detach()
        definition.erase()
        inputs = main.function_type.inputs.data
        main.function_type = FunctionType.from_lists(inputs, [type_])
        match level_of(part):
            case "graph":
                (count,) = graph.run_module(part, feeds)
            case "te":
                (count,) = te.run_module(part, feeds)
            case level:
                raise UnsupportedError(f"sizes that a program defines at the {level} level")
        found[symbol.name] = int(np.clip(count.item(), *symbol.range))


def at_sizes(module: ModuleOp, sizes: Mapping[str, int]) -> ModuleOp:
    """Return a module with numbers for its sizes: a clone, or the module itself without sizes.

    Functions of the kernel level keep their sizes, and get the numbers as arguments.
    """
    free = {symbol.name for symbol in (*free_symbols(module), *defined_symbols(module))}
    if not free or level_of(module) == "kernel":
        return module
    fixed = module.clone()
    fix_sizes(fixed, {name: number for name, number in sizes.items() if name in free})
    return fixed
