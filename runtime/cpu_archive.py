"""Saved models for a CPU: containers with object files and packed weights.

The description has the target, the inputs and outputs, and the C functions that the code calls. The
last part is the weights, the others are object files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tcopt.backends.llvm.machine.host import obstacle
from tcopt.runtime.container import Container
from tcopt.runtime.description import (
    MOST_BYTES,
    fixed_specs,
    signature_facts,
    signature_of,
    sizes_facts,
    sizes_of,
    spec_facts,
)
from tcopt.runtime.host_calls import HostCall, call_facts, call_of
from tcopt.runtime.program import Program
from tcopt.support.data.structures import Kind
from tcopt.support.errors import InputError, ResourceError
from tcopt.support.files.json_facts import FactError, Facts
from tcopt.support.machines.cpu_target import CpuTarget


def describe(program: Program) -> tuple[dict[str, Any], list[bytes | memoryview]]:
    """Return the description and the parts of a program."""
    return _describe(program), [*program.objects, program.weights.data]


def program_in(path: Path, content: Container) -> Program:
    """Return the program in a container.

    Raises:
        InputError: it is not a program, or made for another CPU.
        ResourceError: there is no memory for its intermediates.
    """
    facts = content.facts
    try:
        if not content.parts:
            facts.refuse("parts", "has no weights")
        *objects, weights = content.parts
        sizes = sizes_of(facts)
        inputs, outputs = (fixed_specs(facts, side, sizes) for side in ("inputs", "outputs"))
        counts = [spec.name for spec in outputs if spec.kind is Kind.SIZE]
        checked = facts.texts("checked_sizes") if "checked_sizes" in facts else []
        return Program(
            target=_target(path, facts.facts("target")),
            objects=[part.tobytes() for part in objects],
            externals=_externals(facts),
            inputs=inputs,
            outputs=outputs,
            weights=weights,
            workspace_bytes=facts.number("workspace_bytes", 0, MOST_BYTES),
            report=facts.integers("report"),
            signature=signature_of(facts, inputs, outputs, sizes),
            host_functions=_host_functions(facts),
            call_order=_call_order(facts),
            strings=_strings(facts),
            sizes=[symbol for symbol in sizes if symbol.name not in counts],
            checked_sizes=[symbol for symbol in sizes if symbol.name in {*checked} & {*counts}],
        )
    except FactError as error:
        raise InputError(f"{path} is not a compiled model: {error}") from error
    except MemoryError as error:
        raise ResourceError(
            f"there is not enough memory for the intermediates of {path}: {error}"
        ) from error


def _target(path: Path, facts: Facts) -> CpuTarget:
    """Return the target of the code, after checking that this machine can run it."""
    target = _cpu_target(facts)
    reason = obstacle(target)
    if reason is not None:
        raise InputError(
            f"{path} was compiled for {target.cpu}, this machine {reason}",
            hint="compile the model on this machine, or for it",
        )
    return target


def _cpu_target(facts: Facts) -> CpuTarget:
    """Return the target; facts of cost models that earlier versions did not have are defaults."""
    known = CpuTarget("").facts()
    if "triple" not in facts or not known.keys() >= set(facts.names):
        raise FactError(f"the target is described by {', '.join(facts.names)}")
    values: dict[str, Any] = {
        name: facts.text(name) if isinstance(known[name], str) else facts.number(name)
        for name in facts.names
    }
    return CpuTarget(**values)


def _externals(facts: Facts) -> list[str]:
    names = facts.texts("externals")
    for name in names:
        if not name.isascii() or not name.isidentifier():
            facts.refuse("externals", f"has {name!r}, which is not the name of a C function")
    return names


def _host_functions(facts: Facts) -> list[HostCall]:
    if "calls" not in facts:
        return []
    found = [call_of(each) for each in facts.items("calls")]
    if len({call.symbol for call in found}) < len(found):
        facts.refuse("calls", "has a duplicate symbol")
    return found


def _call_order(facts: Facts) -> list[int]:
    """Return the function index of each call; if not stored, each function is called once, in
    order.
    """
    count = len(facts.items("calls")) if "calls" in facts else 0
    if "call_order" not in facts:
        return list(range(count))
    return facts.numbers("call_order", 0, count - 1)


def _strings(facts: Facts) -> list[str]:
    strings = facts.texts("strings") if "strings" in facts else []
    if strings and (strings[0] or len(set(strings)) < len(strings)):
        facts.refuse("strings", "is not the empty string followed by distinct strings")
    return strings


def _describe(program: Program) -> dict[str, Any]:
    sizes, checked = program.symbols, program.checked_sizes
    outputs = (*program.outputs, *program.counts, *program.checks)
    return {
        "target": program.target.facts(),
        "externals": program.externals,
        "inputs": [spec_facts(s, sizes) for s in (*program.inputs, *program.keys)],
        "outputs": [spec_facts(s, sizes) for s in outputs],
        "workspace_bytes": program.workspace_bytes,
        "report": program.report,
        **signature_facts(program.signature, sizes),
        **_call_facts(program),
        **({"strings": program.strings} if program.strings else {}),
        **({"sizes": sizes_facts(sizes)} if sizes else {}),
        **({"checked_sizes": [size.name for size in checked]} if checked else {}),
    }


def _call_facts(program: Program) -> dict[str, Any]:
    """Return the functions that Python computes and their calls; empty if there are none."""
    if not program.host_functions:
        return {}
    functions = [call_facts(call) for call in program.host_functions]
    return {"calls": functions, "call_order": program.call_order}
