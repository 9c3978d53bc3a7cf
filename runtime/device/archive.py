"""File format of compiled device programs: containers of kernel sources and packed weights.

The description holds the target, and the launches and copies of a run. The last part holds the
weights; each part before it is a kernel source, such as PTX or OpenCL C.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tcopt.runtime.container import Container
from tcopt.runtime.description import (
    MOST_BYTES,
    bytes_of,
    fixed_specs,
    signature_facts,
    signature_of,
    spec_facts,
)
from tcopt.runtime.device.interface import Device, KernelSource
from tcopt.runtime.device.program import DeviceProgram
from tcopt.runtime.device.steps import BufferOffset, Copy, Launch, Sizes, Step
from tcopt.support.errors import InputError
from tcopt.support.files.json_facts import FactError, Facts, numbers
from tcopt.support.machines.device_target import DeviceTarget
from tcopt.support.machines.grids import LARGEST_GRID


def describe(program: DeviceProgram) -> tuple[dict[str, Any], list[bytes | memoryview]]:
    """Return the description and the parts of a program, as a container stores them."""
    sources = [source.text.encode() for source in program.sources]
    return _describe(program), [*sources, program.weights.data]


def program_in(path: Path, content: Container, device: Callable[[], Device]) -> DeviceProgram:
    """Return the program in a container.

    Args:
        path: the container's file, for messages.
        device: returns the device to run on.
    Raises:
        InputError: the container does not hold a valid program.
    """
    try:
        return _program(content, device)
    except (FactError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not a compiled model: {error}") from error


def _describe(program: DeviceProgram) -> dict[str, Any]:
    return {
        "target": dict(program.target.facts),
        "max_threads": program.target.max_threads,
        "inputs": [spec_facts(spec) for spec in (*program.inputs, *program.keys)],
        "outputs": [spec_facts(spec) for spec in (*program.outputs, *program.checks)],
        "workspace_bytes": program.workspace_bytes,
        "report": program.report,
        **signature_facts(program.signature),
        "kernels": [list(source.kernels) for source in program.sources],
        "steps": [_step_facts(step) for step in program.steps],
    }


def _program(content: Container, device: Callable[[], Device]) -> DeviceProgram:
    facts = content.facts
    target = DeviceTarget(
        content.kind, facts.texts_and_numbers("target"), facts.number("max_threads", 1)
    )
    kernels = facts.lists("kernels", _names)
    if len(content.parts) != len(kernels) + 1:
        facts.refuse("kernels", f"has {len(kernels)} lists for {len(content.parts) - 1} sources")
    *sources, weights = content.parts
    inputs, outputs = fixed_specs(facts, "inputs"), fixed_specs(facts, "outputs")
    workspace = facts.number("workspace_bytes", 0, MOST_BYTES)
    known = {name for names in kernels for name in names}
    sizes = [*map(bytes_of, (*inputs, *outputs)), weights.nbytes, workspace]
    return DeviceProgram(
        target=target,
        sources=[
            KernelSource(part.tobytes().decode(), tuple(names))
            for part, names in zip(sources, kernels, strict=True)
        ],
        steps=[_step(step, known, sizes, target.max_threads) for step in facts.items("steps")],
        inputs=inputs,
        outputs=outputs,
        weights=np.array(weights),
        workspace_bytes=workspace,
        report=facts.integers("report"),
        signature=signature_of(facts, inputs, outputs),
        device=device,
    )


def _names(value: Any, at: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise FactError(f"{at} should be a list of names")
    return value


def _step_facts(step: Step) -> dict[str, Any]:
    if isinstance(step, Copy):
        places = {"source": _offset_facts(step.source), "target": _offset_facts(step.target)}
        return {"copy": step.size, **places}
    arguments = [_offset_facts(each) for each in step.arguments]
    sizes = {"grid": step.grid, "block": step.block}
    return {"launch": step.kernel, "nodes": step.nodes, **sizes, "arguments": arguments}


def _step(facts: Facts, known: set[str], sizes: list[int], most_threads: int) -> Step:
    """Return a step, after checking its kernel name, its launch sizes and its buffer offsets.

    Args:
        known: names of all kernels.
        sizes: bytes of each buffer.
    """
    if "copy" in facts:
        count = facts.number("copy")
        source, end = (
            _buffer_offset(facts.numbers(n), facts, n, sizes, count) for n in ("source", "target")
        )
        return Copy(source, end, count)
    kernel = facts.text("launch")
    if kernel not in known:
        facts.refuse("launch", f"is {kernel!r}, which no source has")
    threads = _sizes(facts, "block", most_threads)
    if threads[0] * threads[1] * threads[2] > most_threads:
        facts.refuse("block", f"has more threads than {most_threads}")
    arguments = facts.lists("arguments", numbers)
    places = tuple(_buffer_offset(each, facts, "arguments", sizes) for each in arguments)
    grid = _sizes(facts, "grid", max(LARGEST_GRID))
    for size, most in zip(grid, LARGEST_GRID, strict=True):
        if size > most:
            facts.refuse("grid", f"is {grid}, beyond {LARGEST_GRID}")
    return Launch(kernel, grid, threads, places, facts.text("nodes"))


def _sizes(facts: Facts, name: str, most: int) -> Sizes:
    found = facts.numbers(name, 1, most)
    if len(found) != 3:
        facts.refuse(name, f"has {len(found)} sizes, not three")
    return found[0], found[1], found[2]


def _buffer_offset(
    numbers: list[int], facts: Facts, name: str, sizes: list[int], count: int = 0
) -> BufferOffset:
    if len(numbers) != 2 or numbers[0] >= len(sizes):
        facts.refuse(name, f"has {numbers}, which is not a buffer and an offset in it")
    buffer, offset = numbers
    if offset + count > sizes[buffer]:
        facts.refuse(name, f"ends at {offset + count} in a buffer of {sizes[buffer]} bytes")
    return BufferOffset(buffer, offset)


def _offset_facts(offset: BufferOffset) -> list[int]:
    return [offset.buffer, offset.offset]
