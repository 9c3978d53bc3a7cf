"""Measurement of one model: compile time, accuracy, and runs interleaved with those of peers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from tcopt.backends.llvm.limits import copy_gbps, peak_gflops
from tcopt.compiler.entry import compile_with
from tcopt.compiler.options import CompileOptions
from tcopt.dialects.graph.core.attributes import FusionKind
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.frontends.onnx.importer import import_whole
from tcopt.frontends.onnx.model.options import ImportOptions
from tcopt.runtime import Model
from tcopt.runtime.program_sizes import solved_sizes
from tcopt.runtime.random_inputs import input_values
from tcopt.runtime.signature import flatten
from tcopt.runtime.whole_program import WholeProgram
from tcopt.support.arithmetic.sizes import Extent, evaluate
from tcopt.support.data.differences import Accuracy, compare
from tcopt.support.errors import InputError
from tcopt.support.processes.turns import BURST_S, speed, take_turns
from tcopt.tools.benchmarking.sides import BenchSide, load_peer

Array = NDArray[Any]

OURS = "tcopt"
"""Name of this compiler among the runtimes."""


@dataclass(frozen=True)
class BenchSettings:
    """Parameters of a benchmark.

    Attributes:
        threads: numbers of threads, each measured separately.
        rounds: bursts of each runtime.
        burst_s: approximate duration of a burst, seconds.
        peers: names of peers; the first one computes the reference results.
        target: what to compile for.
        options: more keyword arguments of `tcopt.compile`.
        rtol: accepted difference from the first peer's results, relative to their range.
        seed: of random inputs.
    """

    threads: Sequence[int] = (1, 2)
    rounds: int = 10
    burst_s: float = BURST_S
    peers: Sequence[str] = ()
    target: str = "cpu"
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    rtol: float = 1e-3
    seed: int = 0


def measure(
    model: str | bytes,
    settings: BenchSettings,
    given: Mapping[str, Array] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> tuple[dict[str, Any], Model, dict[str, Array]]:
    """Compile a model and time it against the peers.

    Args:
        model: an ONNX file, or its bytes.
        given: values of some inputs; the others are random.
    Returns:
        The measurements as JSON values, the compiled model, and its feeds.
    """
    start = time.perf_counter()
    options = CompileOptions.of(model, settings.target, progress=progress, **settings.options)
    compiled = compile_with(model, options)
    compile_s = time.perf_counter() - start
    feeds = input_values(compiled, given or {}, settings.seed)
    ours = compiled.run(feeds)
    program = compiled.program
    report: dict[str, Any] = {
        "compile_s": {OURS: compile_s},
        "phases_s": dict(program.compile_times),
        "workspace_bytes": program.workspace_bytes,
        "memory_plan": dict(program.report),
        "weight_bytes": int(program.weights.nbytes),
        "bytes": moved_bytes(feeds, flatten(ours), int(program.weights.nbytes)),
        "flops": evaluate(contraction_flops(model, options), _sizes(program, feeds)),
        "runs": [],
    }
    for threads in settings.threads:
        report["runs"].append(_runs(model, compiled, feeds, threads, settings, report))
    return report, compiled, feeds


def moved_bytes(feeds: Mapping[str, Array], outputs: Sequence[Array], weights: int) -> int:
    """Return the minimum number of bytes to move: inputs, outputs and weights, each once."""
    return sum(a.nbytes for a in feeds.values()) + sum(a.nbytes for a in outputs) + weights


def _sizes(program: WholeProgram, feeds: Mapping[str, Array]) -> dict[str, int]:
    """Return the values of a program's sizes in a run."""
    if not program.sizes:
        return {}
    shapes = tuple(feeds[spec.name].shape for spec in program.inputs)
    return solved_sizes(program.sizes, program.inputs, shapes)


def contraction_flops(model: str | bytes, options: ImportOptions) -> Extent:
    """Return the multiplications and additions of all contractions, by direct algorithms."""
    module = import_whole(model, options)
    return sum(
        op.work()
        for op in module.walk()
        if isinstance(op, GraphOp) and op.fusion_kind is FusionKind.COMPLEX_OUT_FUSABLE
    )


def _runs(
    model: str | bytes,
    compiled: Model,
    feeds: Mapping[str, Array],
    threads: int,
    settings: BenchSettings,
    report: dict[str, Any],
) -> dict[str, Any]:
    """Measure the times with one number of threads."""
    compiled.threads = threads
    sides = [BenchSide(OURS, lambda: compiled.run(feeds), 0.0)]
    failed: dict[str, str] = {}
    for name in settings.peers:
        try:
            sides.append(load_peer(name, model, feeds, threads))
        except InputError as error:
            failed[name] = error.message
    for side in sides[1:]:
        report["compile_s"].setdefault(side.name, side.load_s)
    times = take_turns({s.name: s.run for s in sides}, settings.rounds, settings.burst_s)
    result: dict[str, Any] = {
        "threads": threads,
        "median_ms": {name: t.median * 1e3 for name, t in times.items()},
        "speed": {name: speed(times[OURS], t) for name, t in times.items() if name != OURS},
        "least_ms": {name: t.least * 1e3 for name, t in times.items()},
        "peak_gflops": peak_gflops(threads),
        "copy_gbps": copy_gbps(report["bytes"], threads),
        "accuracy": [_facts(a) for a in accuracy(sides, settings.rtol)],
    }
    return result | ({"failed": failed} if failed else {})


def accuracy(sides: Sequence[BenchSide], rtol: float) -> list[Accuracy]:
    """Compare the first side's results with the second's; empty without a second."""
    if len(sides) < 2:
        return []
    ours, theirs = sides[0].outputs(), sides[1].outputs()
    return [
        compare(f"output {i}", a, e.reshape(a.shape), rtol=rtol, atol=1e-6)
        for i, (a, e) in enumerate(zip(ours, theirs, strict=True))
    ]


def _facts(found: Accuracy) -> dict[str, Any]:
    return {
        "max_abs": found.max_abs,
        "scale": found.scale,
        "relative": found.max_abs / found.scale if found.scale else 0.0,
        "passed": found.passed,
    }
