"""Claims of the posts on TVM's blog."""

from __future__ import annotations

from claims.claim import Claim, Kind
from claims.gpu_answers import GPU, gains, narrow_gains, ratios, times
from claims.results import Results
from claims.tvm_paper import SEARCH, best_speeds
from tcopt.tools.benchmarking.report import geometric_mean

_CUBLAS = {(17, 17): 0.0087, (1, 17): 0.00052, (17, 1): 0.00052, (30, 30): 0.0274}
"""Published parts of cuBLAS's operations that were asked for, by rows and columns."""


def _tasks(results: Results) -> str:
    parts = (
        f"{row['kernels']} kernels on {row['target']}, {row['convolutions']} with a convolution"
        for row in results.rows("tasks")
    )
    return f"{'; '.join(parts)}: kernels with other operators fused into them are their own"


def _trials(results: Results) -> str:
    few, many = (
        {s: geometric_mean(v.values()) for s, v in best_speeds(results, n).items()} for n in (8, 24)
    )
    parts = (f"{name} {few[name]:.3f}x and {many[name]:.3f}x" for name in many)
    each = ", ".join(parts)
    return f"On the simulated accelerator after 8 and 24 trials, against the default: {each}"


def _cpu(results: Results) -> str:
    rows = {row["case"]: row for row in results.rows("networks")}
    parts = (f"{name} {rows[name]['ms']['tcopt']:.1f} ms" for name in ("resnet18", "mobilenet_v1"))
    return f"On this CPU, one thread: {', '.join(parts)}"


def _parity(results: Results) -> str:
    return ratios(results, "networks")


def _translation(results: Results) -> str:
    return ratios(results, "networks", cases=("bert_base",))


def _int8(results: Results) -> str:
    rows = results.rows("quantised")
    speeds = ", ".join(f"{row['network']} {row['speed']:.2f}x" for row in rows)
    return narrow_gains(results) + f"On this CPU, one thread: {speeds}"


def _steps(results: Results) -> str:
    rows = results.rows("mali_steps")
    each = ", ".join(f"{row['step']} {row['gflops']:.1f} GFLOP/s" for row in rows)
    return (
        f"The same three schedules, by the `Schedule` API, on {rows[0]['device']}: {each}. A CPU"
        " gains nothing from explicit vectors of four"
    )


def _padding(results: Results) -> str:
    parts: list[str] = []
    for row in results.rows("batched"):
        _, rows, columns, _ = row["shape"]
        share, theirs = row["asked"] / row["issued"], _CUBLAS[rows, columns]
        parts.append(f"{rows}x{columns} {share:.0%} (cuBLAS {theirs:.2%})")
    return f"Operations asked for, as a part of those issued on sm_80: {', '.join(parts)}"


def _batched(results: Results) -> str:
    return ratios(results, "batched")


def _short_batched(results: Results) -> str:
    return times(results, "batched", "batched_1x17")


def _fused(results: Results) -> str:
    return gains(results, "batched", "fusion")


_CARD = "the GPU of the post; another one stands in"
_BOARDS = "the boards and phones of the post"

CLAIMS = (
    Claim(
        "autotvm",
        "Text",
        "ResNet-18 has 12 different convolutions, which are 12 tuning tasks.",
        "python benchmarks/paper.py --measure tasks",
        Kind.COUNTED,
        _tasks,
        ("tasks",),
    ),
    Claim(
        "autotvm",
        "Text",
        "448 to 1,000 trials a task, 262 to 1,112 seconds each (RK3399).",
        SEARCH,
        Kind.SIMULATED,
        _trials,
        ("vdla_search",),
        f"{_BOARDS}; trials on a CPU are in [tuning](tuning.md)",
    ),
    Claim(
        "autotvm",
        "Table, Arm CPUs",
        "ResNet-18 in 61 to 1,235 ms, MobileNet in 40 to 724 ms; faster than NCNN.",
        "python benchmarks/paper.py --measure networks",
        Kind.MEASURED,
        _cpu,
        ("networks",),
        _BOARDS,
    ),
    Claim(
        "autotvm",
        "Table, Mali GPU",
        "ResNet-18 in 128.6 ms, MobileNet in 75.4 ms; faster than the Arm Compute Library.",
        "",
        Kind.MISSING,
        lambda _: "Nothing of a Mali's speed can be had from another device",
        (),
        "a Mali GPU",
    ),
    Claim(
        "autotvm",
        "Table, NVIDIA GPUs",
        "ResNet-50 in 2.7 ms on a GTX 1080 Ti; parity with TensorRT.",
        "python benchmarks/gpu.py --filter networks/",
        Kind.MEASURED,
        _parity,
        (GPU,),
        f"{_CARD}, and PyTorch for TensorRT",
    ),
    Claim(
        "autotvm",
        "Table, AMD GPU",
        "A little slower than MIOpen on a Vega FE, by schedules for NVIDIA GPUs.",
        "",
        Kind.MISSING,
        lambda _: "OpenCL is the only target for AMD GPUs",
        (),
        "an AMD GPU",
    ),
    Claim(
        "mali",
        "Table of kernels",
        "A 3x3 layer of VGG: 0.03x the Arm Compute Library bound to threads, 0.49x unrolled,"
        " 1.40x vectorised (Mali-T860).",
        "python benchmarks/mali_steps.py --json benchmarks/results/mali_steps.json",
        Kind.MEASURED,
        _steps,
        ("mali_steps",),
        "a Mali GPU; no simulator or offline compiler of one is to be had",
    ),
    Claim(
        "mali",
        "Figure 2, table of fp16",
        "1.4 to 2.2 times as fast as the Arm Compute Library; fp16 1.6 to 1.9 times fp32.",
        "",
        Kind.MISSING,
        lambda _: "PoCL on x86 has no arithmetic in half precision, so that nothing stands in",
        (),
        "a Mali GPU",
    ),
    Claim(
        "int8",
        "Figure 1",
        "int8 is up to 8 times as fast as float32 by cuDNN, and equals TensorRT (GTX 1080).",
        "python benchmarks/gpu.py --filter quantised/",
        Kind.MEASURED,
        _int8,
        ("quantised", GPU),
        f"{_CARD}; TensorRT is not compared",
    ),
    Claim(
        "nmt",
        "Table of operations",
        "0.05% to 2.7% of the operations of cuBLAS's batched products are asked for (M40).",
        "python benchmarks/paper.py --measure batched",
        Kind.COUNTED,
        _padding,
        ("batched",),
    ),
    Claim(
        "nmt",
        "Text",
        "Batched products are at least 13 times as fast as cuBLAS (M40).",
        "python benchmarks/gpu.py --filter batched/",
        Kind.MEASURED,
        _batched,
        (GPU,),
        _CARD,
    ),
    Claim(
        "nmt",
        "Table of threads",
        "512 products of 1x128 by 128x17 take 37.6 to 94.6 us by the numbers of threads (M40).",
        "python benchmarks/gpu.py --filter batched/batched_1x17/",
        Kind.MEASURED,
        _short_batched,
        (GPU,),
        _CARD,
    ),
    Claim(
        "nmt",
        "Text",
        "Fusing the transposition or addition after them is another 1.7 times (M40).",
        "python benchmarks/gpu.py --filter batched/",
        Kind.MEASURED,
        _fused,
        (GPU,),
        _CARD,
    ),
    Claim(
        "nmt",
        "Text",
        "Translation is 1.4 times as fast end to end.",
        "python benchmarks/gpu.py --filter networks/bert_base/",
        Kind.MEASURED,
        _translation,
        (GPU,),
        f"{_CARD}, and the network, which is not published; BERT-base is used instead",
    ),
)
