"""Short campaigns whose results answer claims: counts, simulated cycles, ratios in one process.

Nothing here needs a machine of its own. Times are the minimum CPU time of interleaved runs on one
thread, which counts nothing of what other processes do meanwhile, except to caches; counts and
estimates do not depend on the machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnx import ModelProto

import tcopt
from bits import KINDS
from bits import compiled as bits_of
from gpus.cases import product
from gpus.items import Item, Numbers
from gpus.prepare import prepare
from suites import conv, depthwise
from suites.fusion import CASES as FUSED
from table2 import LAYERS
from tcopt.compiler.options import CompileOptions
from tcopt.dialects.loop import BlockOp, FuncOp
from tcopt.dialects.loop.structure import enclosing_loops
from tcopt.dialects.target import TARGET_ATTRIBUTE
from tcopt.schedules.analysis.patterns import match_block
from tcopt.schedules.passes.schedule import find_schedule
from tcopt.schedules.rules.gpu.roofline import estimate
from tcopt.schedules.rules.rule import facts_of, rules_for
from tcopt.tuner.arms import arms_of, lowered
from tcopt.tuner.tasks import tasks_of
from zoo import dcgan_generator, dqn, lstm_lm, mobilenet_v1, resnet18

Rows = Iterator[dict[str, Any]]
Side = Callable[[], object]

_BURST_S = 0.01
_MOST_RUNS = 50

UNFUSED = {"instead-of:fuse-ops": "fuse-ops{max_ops=1}"}
GPU = "cuda:sm_80"

NETWORKS: dict[str, Callable[[], ModelProto]] = {
    "resnet18": resnet18.build,
    "mobilenet_v1": mobilenet_v1.build,
    "lstm_lm": lstm_lm.build,
    "dqn": dqn.build,
    "dcgan_generator": dcgan_generator.build,
}
"""The networks of the paper's evaluation."""

QUANTIZED = ("dqn", "resnet18")
"""Those that are quantised as well."""


def fusion(rounds: int) -> Rows:
    """Figure 4: fused against single operators on this CPU, and what a GPU is asked to do."""
    for case in FUSED:
        model = case.build()
        sides: dict[str, Side] = {}
        for name, passes in (("fused", None), ("single", UNFUSED)):
            compiled = tcopt.compile(model, passes=passes)
            compiled.threads = 1
            sides[name] = partial(compiled.run, _feeds(compiled))
        times = least_times(sides, rounds)
        speed = times["single"] / times["fused"]
        row: dict[str, Any] = {"case": case.name, "speed": speed}
        for name, variant in (("fused", ""), ("single", "fusion")):
            found = prepare(Item("fusion", case.name, case.build, "", variant=variant), GPU, 0)
            assert found.program is not None and found.program.timed is not None, found.errors
            row[name] = {
                "us": times[name] * 1e6,
                "gpu_launches": len(found.program.timed),
                "gpu_bytes": sum(launch.bytes for launch in found.program.timed),
            }
        yield row


def least_times(sides: Mapping[str, Side], rounds: int) -> dict[str, float]:
    """Minimum seconds of CPU time of a run of each side, in interleaved rounds."""
    least = dict.fromkeys(sides, float("inf"))
    for number in range(rounds + 1):
        for name, run in sides.items():
            burst = 0.0
            for _ in range(_MOST_RUNS):
                start = time.process_time()
                run()
                taken = time.process_time() - start
                burst += taken
                # The first round sets things up.
                if number:
                    least[name] = min(least[name], taken)
                if burst > _BURST_S:
                    break
    return least


def _feeds(compiled: tcopt.Model) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        spec.name: rng.standard_normal(spec.shape).astype(spec.dtype)  # pyright: ignore
        for spec in compiled.inputs
    }


def sharing() -> Rows:
    """Figure 7: estimated time of products with and without cooperative fetching."""
    for size in (1024, 2048):
        function, facts = _function(product([size, size], [size, size]))
        row: dict[str, Any] = {"size": size}
        rules = rules_for("gpu")
        for name, known in (
            ("with", rules),
            ("without", [rule for rule in rules if rule.name != "gpu-shared-tile"]),
        ):
            schedule = find_schedule(function, known, facts)
            assert schedule is not None
            found = estimate(function, schedule.func, facts)  # type: ignore[arg-type]
            assert found is not None
            row[name] = {"us": found.ns / 1e3, "limit_us": found.limit_ns / 1e3}
        yield row


def _function(model: ModelProto) -> tuple[FuncOp, object]:
    """The loops of the heaviest kernel, and the facts of the GPU."""
    task = max(tasks_of(model, CompileOptions(target=GPU)), key=lambda each: each.work)
    function, module = lowered(task.text, task.phases)
    return function, facts_of(module.attributes[TARGET_ATTRIBUTE])


def batched() -> Rows:
    """The post on machine translation: products that are issued for those that are asked for."""
    for rows, columns, terms in ((17, 17, 128), (1, 17, 128), (17, 1, 128), (30, 30, 128)):
        function, facts = _function(product([512, rows, terms], [512, terms, columns]))
        schedule = find_schedule(function, rules_for("gpu"), facts)
        assert schedule is not None
        issued = sum(
            prod(loop.trip_count for loop in enclosing_loops(block))
            for block in schedule.func.walk()
            if isinstance(block, BlockOp) and _multiplies(block)
        )
        asked = 512 * rows * columns * terms
        yield {"shape": [512, rows, columns, terms], "asked": 2 * asked, "issued": 2 * issued}


def _multiplies(block: BlockOp) -> bool:
    pattern = match_block(block)
    return pattern is not None and pattern.is_contraction


def layers(rounds: int) -> Rows:
    """Figures 15 and 17 on this CPU: layers of table 2 against onnxruntime."""
    for suite, cases in (("conv", conv.CASES), ("depthwise", depthwise.CASES)):
        for case in cases:
            yield {"suite": suite, **_against(case.name, case.build(), rounds)}


def networks(rounds: int) -> Rows:
    """Figures 14 and 16 on this CPU: networks against onnxruntime."""
    for name, build in NETWORKS.items():
        yield _against(name, build(), rounds)


def _against(name: str, model: ModelProto, rounds: int) -> dict[str, Any]:
    compiled = tcopt.compile(model)
    compiled.threads = 1
    feeds = _feeds(compiled)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    sides: dict[str, Side] = {
        "tcopt": partial(compiled.run, feeds),
        "onnxruntime": partial(session.run, None, feeds),
    }
    times = least_times(sides, rounds)
    milliseconds = {side: seconds * 1e3 for side, seconds in times.items()}
    return {"case": name, "ms": milliseconds, "speed": times["onnxruntime"] / times["tcopt"]}


def bits(rounds: int) -> Rows:
    """Figure 18: convolutions of 2-bit data and 1-bit weights against f32 and int8."""
    kinds = [kind for kind in KINDS if kind.name in ("f32", "int8", "A2W1")]
    for layer in LAYERS:
        sides: dict[str, Side] = {kind.name: bits_of(layer, kind, 1) for kind in kinds}
        times = least_times(sides, rounds)
        yield {"layer": layer.name, "us": {name: each * 1e6 for name, each in times.items()}}


def arm_loops() -> Rows:
    """Figure 17 without a board: the inner loops of layers on Arm cores, by llvm-mca."""
    from inner_loops import rows_of
    from mca import find_mca

    mca = find_mca()
    for cpu in ("cortex-a53",):
        for suite, cases in (("conv", conv.CASES), ("depthwise", depthwise.CASES)):
            for case in cases:
                rows = rows_of(case, cpu, mca)
                if rows:
                    heaviest = max(rows, key=lambda row: row.products)
                    yield {
                        "suite": suite,
                        "case": case.name,
                        "cpu": cpu,
                        "share": heaviest.share,
                        "kernel": heaviest.kernel,
                    }


def spaces() -> Rows:
    """Section 5: the sizes of the spaces that are searched."""
    for case in (*conv.CASES, *depthwise.CASES):
        for target in (GPU, "cpu:cortex-a53"):
            task = max(
                tasks_of(case.build(), CompileOptions(target=target)), key=lambda each: each.work
            )
            sizes = {arm.rule: arm.space.size for arm in arms_of(task)}
            yield {"target": target, "case": case.name, "sizes": sizes}


def tasks() -> Rows:
    """The post on AutoTVM: kernels of ResNet-18 that are tuned."""
    for target in ("cpu:cortex-a72", GPU):
        found = tasks_of(resnet18.build(), CompileOptions(target=target))
        heavy = [task for task in found if any("conv" in node.lower() for node in task.nodes)]
        yield {"target": target, "kernels": len(found), "convolutions": len(heavy)}


def scoring() -> Rows:
    """Section 5.2: the time of a prediction of the cost model."""
    from tuning import SCORED, _seconds

    for name in ("C2", "C7", "D3"):
        case = next(each for each in (*conv.CASES, *depthwise.CASES) if each.name == name)
        task = max(tasks_of(case.build(), CompileOptions(target="cpu")), key=lambda each: each.work)
        arm = max(arms_of(task), key=lambda each: each.space.size)
        features, model = _seconds(arm)
        microseconds = {"features_us": features / SCORED * 1e6, "model_us": model / SCORED * 1e6}
        yield {"case": name, "size": arm.space.size, **microseconds}


def gpu_programs() -> Rows:
    """Figure 14 without a card: launches, kernels and instructions of networks on a GPU."""
    for name, build in NETWORKS.items():
        for dtype, how in (("f32", Numbers.STORED), ("f16", Numbers.ROUNDED)):
            found = prepare(Item("networks", name, build, "", dtype, how), GPU, 0)
            if found.program is None:
                yield {"network": name, "dtype": dtype, "error": found.errors["tcopt"]}
                continue
            text = found.program.source
            yield {
                "network": name,
                "dtype": dtype,
                "launches": len(found.program.steps),
                "kernels": sum(len(source.kernels) for source in found.program.sources),
                "mma": text.count("mma.sync"),
                "dp4a": text.count("dp4a"),
                "flops": found.flops,
                "weights": found.program.weights.nbytes,
            }


def mali() -> Rows:
    """Figure 19 without a board: networks compile for Mali, in f32 and f16."""
    for name in ("dqn", "mobilenet_v1", "resnet18"):
        for precision in ("f32", "f16"):
            start = time.process_time()
            compiled = tcopt.compile(
                NETWORKS[name](), "opencl:mali", precision=precision, workers=0
            )
            seconds = time.process_time() - start
            text = compiled.program.source  # type: ignore[union-attr]
            yield {
                "network": name,
                "precision": precision,
                "launches": len(compiled.program.steps),  # type: ignore[union-attr]
                "source_bytes": len(text),
                "vector_loads": text.count("vload4") + text.count("vload8"),
                "cpu_seconds": seconds,
            }


def lines() -> Rows:
    """Section 6.4: lines of Python that only the accelerator needs."""
    root = Path(tcopt.__file__).parent
    for folder in ("backends/vdla", "dialects/vdla", "schedules/rules/vdla"):
        files = sorted((root / folder).rglob("*.py"))
        count = sum(len(file.read_text().splitlines()) for file in files)
        yield {"folder": folder, "files": len(files), "lines": count}


def quantised(rounds: int) -> Rows:
    """The post on int8 on this CPU: ResNet-18 and DQN in 8 bits against f32."""
    for name in QUANTIZED:
        model = NETWORKS[name]()
        item = Item("quantised", name, NETWORKS[name], "", "int8", Numbers.QUANTIZED)
        small = item.model()
        sides: dict[str, Side] = {}
        for side, each in (("f32", model), ("int8", small)):
            compiled = tcopt.compile(each)
            compiled.threads = 1
            sides[side] = partial(compiled.run, _feeds(compiled))
        times = least_times(sides, rounds)
        found = {side: seconds * 1e6 for side, seconds in times.items()}
        yield {"network": name, "us": found, "speed": times["f32"] / times["int8"]}
