"""Finding the op behind a wrong result: compare what two modules compute inside.

First function by function, running those that both modules have on random inputs; then,
in a function that returns its results, value by value: ops that carry the same source
location in both modules are made extra results, and the first that differs is the answer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue

from tcopt.support.locations import is_known
from tcopt.tools.accuracy import compare
from tcopt.tools.executors import Array, functions, isolate, run, signature
from tcopt.tools.inputs import make_inputs


def changed_op(
    before: ModuleOp,
    after: ModuleOp,
    entry: str,
    feeds: Sequence[Array],
    *,
    rtol: float,
    atol: float,
) -> Operation | None:
    """The op of `after` whose value changed first, a whole function at worst, or None."""
    func = _changed_function(before, after, entry, rtol=rtol, atol=atol)
    if func is not None:
        return func
    try:
        return _changed_value(before, after, entry, feeds, rtol=rtol, atol=atol)
    except Exception:
        # A probe changes the module it looks into; if that fails there is just no answer.
        return None


def _changed_function(
    before: ModuleOp, after: ModuleOp, entry: str, *, rtol: float, atol: float
) -> Operation | None:
    old, new = functions(before), functions(after)
    for name, func in new.items():
        if name == entry or name not in old:
            continue
        if old[name].properties["function_type"] != func.properties["function_type"]:
            continue
        specs = signature(func).arguments
        feeds = list(make_inputs(specs, {}, seed=1).values())
        try:
            expected = run(isolate(before, old[name]), old[name], feeds)
            actual = run(isolate(after, func), func, feeds)
        except Exception:
            continue
        if not _all_close(actual, expected, rtol=rtol, atol=atol):
            return func
    return None


def _changed_value(
    before: ModuleOp,
    after: ModuleOp,
    entry: str,
    feeds: Sequence[Array],
    *,
    rtol: float,
    atol: float,
) -> Operation | None:
    old_probe, new_probe = before.clone(), after.clone()
    old, new = functions(old_probe)[entry], functions(new_probe)[entry]
    old_values, new_values = _values_by_location(old), _values_by_location(new)
    # The order of the new function, so that the first difference is the earliest.
    shared = [key for key in new_values if key in old_values]
    if not shared:
        return None
    _return_also(old, [old_values[key] for key in shared])
    _return_also(new, [new_values[key] for key in shared])
    expected = run(old_probe, old, feeds)[-len(shared) :]
    actual = run(new_probe, new, feeds)[-len(shared) :]
    for key, value, reference in zip(shared, actual, expected, strict=True):
        if not _all_close([value], [reference], rtol=rtol, atol=atol):
            original = _values_by_location(functions(after)[entry])[key].owner
            return original if isinstance(original, Operation) else None
    return None


def _values_by_location(func: Operation) -> dict[tuple[Attribute, Attribute], SSAValue]:
    """Results of the function's own ops by location and type; doubtful ones are left out."""
    found: dict[tuple[Attribute, Attribute], SSAValue] = {}
    doubtful: set[tuple[Attribute, Attribute]] = set()
    for op in func.regions[0].blocks[0].ops:
        if len(op.results) != 1 or not is_known(op.location):
            continue
        key = (op.location, op.results[0].type)
        if key in found:
            doubtful.add(key)
        found[key] = op.results[0]
    return {key: value for key, value in found.items() if key not in doubtful}


def _return_also(func: Operation, values: Sequence[SSAValue]) -> None:
    terminator = func.regions[0].blocks[0].last_op
    type_ = func.properties["function_type"]
    assert terminator is not None and isinstance(type_, FunctionType)
    outputs = [*type_.outputs.data, *(value.type for value in values)]
    terminator.operands = [*terminator.operands, *values]
    func.properties["function_type"] = FunctionType.from_lists(type_.inputs.data, outputs)


def _all_close(
    actual: Sequence[Array], expected: Sequence[Array], *, rtol: float, atol: float
) -> bool:
    for value, reference in zip(actual, expected, strict=True):
        if value.shape != reference.shape:
            return False
        if not compare("", value, np.asarray(reference), rtol=rtol, atol=atol).passed:
            return False
    return True
