"""File format of compiled device programs: containers of kernel sources and packed weights.

The description holds the target, and the launches and copies of a run. The last part holds the
weights; each part before it is a kernel source, such as PTX or OpenCL C.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from tcopt.runtime.container import Container
from tcopt.runtime.description import (
    MOST_BYTES,
    bytes_of,
    extent_facts,
    extent_of,
    extents_by_name,
    fixed_specs,
    signature_facts,
    signature_of,
    size_names,
    sizes_facts,
    sizes_of,
    spec_facts,
)
from tcopt.runtime.device.interface import Device, KernelSource
from tcopt.runtime.device.program import DeviceProgram
from tcopt.runtime.device.steps import BufferOffset, Copy, Launch, Step, number
from tcopt.support.arithmetic.size_terms import Symbol
from tcopt.support.arithmetic.sizes import Extent, Size, lower_bound, upper_bound
from tcopt.support.errors import InputError
from tcopt.support.files.json_facts import FactError, Facts, listed
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
    sizes, names = program.sizes, size_names(program.sizes)
    return {
        "target": dict(program.target.facts),
        "max_threads": program.target.max_threads,
        "inputs": [spec_facts(spec, sizes) for spec in (*program.inputs, *program.keys)],
        "outputs": [spec_facts(spec, sizes) for spec in (*program.outputs, *program.checks)],
        "workspace_bytes": program.workspace_bytes,
        "report": program.report,
        **signature_facts(program.signature, sizes),
        "kernels": [list(source.kernels) for source in program.sources],
        "steps": [_step_facts(step, names) for step in program.steps],
        **({"sizes": sizes_facts(sizes)} if sizes else {}),
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
    symbols = sizes_of(facts)
    inputs, outputs = (fixed_specs(facts, side, symbols) for side in ("inputs", "outputs"))
    workspace = facts.number("workspace_bytes", 0, MOST_BYTES)
    known = {name for names in kernels for name in names}
    bytes = [*map(bytes_of, (*inputs, *outputs)), weights.nbytes, workspace]
    limits = _Limits(known, bytes, target.max_threads, extents_by_name(symbols))
    return DeviceProgram(
        target=target,
        sources=[
            KernelSource(part.tobytes().decode(), tuple(names))
            for part, names in zip(sources, kernels, strict=True)
        ],
        steps=[_step(step, limits) for step in facts.items("steps")],
        inputs=inputs,
        outputs=outputs,
        weights=np.array(weights),
        workspace_bytes=workspace,
        report=facts.integers("report"),
        signature=signature_of(facts, inputs, outputs, symbols),
        device=device,
        sizes=symbols,
    )


def _names(value: Any, at: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise FactError(f"{at} should be a list of names")
    return value


def _step_facts(step: Step, names: Mapping[Symbol, str]) -> dict[str, Any]:
    def place(offset: BufferOffset) -> list[Any]:
        return [offset.buffer, extent_facts(offset.offset, names)]

    if isinstance(step, Copy):
        places = {"source": place(step.source), "target": place(step.target)}
        return {"copy": extent_facts(step.size, names), **places}
    return {
        "launch": step.kernel,
        "nodes": step.nodes,
        "grid": [extent_facts(extent, names) for extent in step.grid],
        "block": step.block,
        "arguments": [place(each) for each in step.arguments],
        **({"sizes": [extent_facts(n, names) for n in step.sizes]} if step.sizes else {}),
    }


@dataclass(frozen=True)
class _Limits:
    """Limits that the steps of a program must respect.

    Attributes:
        kernels: names of all kernels.
        bytes: size of each buffer.
        threads: maximum number of threads of a block.
        sizes: the sizes that formulas may have, by their names in facts.
    """

    kernels: set[str]
    bytes: list[int]
    threads: int
    sizes: Mapping[str, Extent]


def _step(facts: Facts, limits: _Limits) -> Step:
    """Return a step, after checking its kernel name, its launch sizes and its buffer offsets."""

    def extent(value: Any, at: str) -> Extent:
        return extent_of(value, at, limits.sizes)

    if "copy" in facts:
        count = facts.decoded("copy", extent)
        source, end = (
            _buffer_offset(facts.lists(name, extent), facts, name, limits, count)
            for name in ("source", "target")
        )
        return Copy(source, end, count)
    kernel = facts.text("launch")
    if kernel not in limits.kernels:
        facts.refuse("launch", f"is {kernel!r}, which no source has")
    threads = facts.numbers("block", 1, limits.threads)
    if len(threads) != 3 or prod(threads) > limits.threads:
        facts.refuse("block", f"is {threads}, not three sizes of up to {limits.threads} threads")
    grid = facts.lists("grid", extent)
    least = 0 if limits.sizes else 1
    if len(grid) != 3 or not all(
        least <= lower_bound(size) and upper_bound(size) <= most
        for size, most in zip(grid, LARGEST_GRID, strict=True)
    ):
        facts.refuse("grid", f"is {grid}, not three sizes from {least} to {LARGEST_GRID}")

    def place(value: Any, at: str) -> BufferOffset:
        found = [extent(each, at) for each in listed(value, at)]
        return _buffer_offset(found, facts, "arguments", limits)

    return Launch(
        kernel,
        (grid[0], grid[1], grid[2]),
        (threads[0], threads[1], threads[2]),
        tuple(facts.lists("arguments", place)),
        facts.text("nodes"),
        tuple(facts.lists("sizes", extent)) if "sizes" in facts else (),
    )


def _buffer_offset(
    numbers: list[Extent], facts: Facts, name: str, limits: _Limits, count: Extent = 0
) -> BufferOffset:
    if len(numbers) != 2 or isinstance(numbers[0], Size) or numbers[0] >= len(limits.bytes):
        facts.refuse(name, f"has {numbers}, which is not a buffer and an offset in it")
    buffer, offset = number(numbers[0]), numbers[1]
    end = upper_bound(offset + count)
    if end > limits.bytes[buffer]:
        facts.refuse(name, f"ends at {end} in a buffer of {limits.bytes[buffer]} bytes")
    return BufferOffset(buffer, offset)
