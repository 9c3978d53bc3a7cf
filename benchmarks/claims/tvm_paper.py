"""Claims of the TVM paper (OSDI 2018), in the order of its sections."""

from __future__ import annotations

from claims.claim import Claim, Kind
from claims.gpu_answers import GPU, gains, ratios
from claims.results import Results
from table2 import LAYERS
from tcopt.backends.vdla.machines import named_machine
from tcopt.tools.benchmarking.report import geometric_mean

_VDLA_MEGAHERTZ = 200
_PAPER_MS = {"cpu": 2867, "vdla": 73}
"""Offloaded convolutions of figure 21, milliseconds read off the figure."""


def _fusion(results: Results) -> str:
    rows = results.rows("fusion")
    speeds = ", ".join(f"{row['case']} {row['speed']:.2f}x" for row in rows)
    launches = ", ".join(
        f"{row['single']['gpu_launches']} to {row['fused']['gpu_launches']}" for row in rows
    )
    moved = ", ".join(
        f"{row['single']['gpu_bytes'] / row['fused']['gpu_bytes']:.1f}" for row in rows
    )
    here = f"On this CPU {speeds}. On sm_80 launches go from {launches}, bytes fall by {moved}."
    return gains(results, "fusion", "fusion") + here


def _sharing(results: Results) -> str:
    parts = (
        f"{row['size']}: {row['without']['us'] / row['with']['us']:.2f}x"
        for row in results.rows("sharing")
    )
    estimated = (
        f"By the cost model of the schedules for sm_80, which has no caches: {', '.join(parts)}."
    )
    return gains(results, "sharing", "cooperation") + estimated


def _roofline(results: Results) -> str:
    serial, hidden = (utilization(results, column) for column in ("serial", "slots"))
    best = (
        max(row["products"] / row["cycles"][column] for row in results.rows("vdla"))
        for column in ("serial", "slots")
    )
    before, after = best
    return (
        f"{before:.0%} to {after:.0%} in the best layer; {serial:.0%} to {hidden:.0%} over all of"
        " ResNet-18's convolutions"
    )


def utilization(results: Results, column: str) -> float:
    """Multiplying cycles of ResNet-18's convolutions, as a part of all."""
    times = {layer.name: layer.times for layer in LAYERS}
    rows = results.rows("vdla")
    busy = sum(row["products"] * times[row["layer"]] for row in rows)
    return busy / sum(row["cycles"][column] * times[row["layer"]] for row in rows)


def _peak(_: Results) -> str:
    rows, lanes, inner = named_machine("vdla").unit
    rate = 2 * rows * lanes * inner * _VDLA_MEGAHERTZ * 1e6 / 1e9
    return (
        f"{rows} x {lanes} x {inner} products a cycle: {rate:.1f} GOPS/s at {_VDLA_MEGAHERTZ} MHz"
    )


def _offloaded(results: Results) -> str:
    (row,) = results.rows("vdla_resnet18")
    ms = row["cycles"] / row["megahertz"] / 1e3
    equal = "bit-identical to the CPU's" if row["same"] else "different from the CPU's"
    cpu, vdla = _PAPER_MS["cpu"], _PAPER_MS["vdla"]
    return (
        f"{row['calls']} calls, for {row['convolutions']} convolutions and the last layer, take"
        f" {ms:.1f} ms at {row['megahertz']} MHz; results are {equal}. In the paper the"
        f" convolutions but the first take {cpu} ms on the CPU and {vdla} ms on the accelerator, so"
        f" ours, with the first, are {cpu / ms:.0f} times as fast as its CPU"
    )


def _lines(results: Results) -> str:
    rows = results.rows("lines")
    each = ", ".join(f"{row['folder']} {row['lines']:,}" for row in rows)
    return (
        f"{sum(row['lines'] for row in rows):,} lines of Python ({each}), which include the"
        " simulator and the proof of its synchronisation"
    )


def _search(results: Results) -> str:
    best = best_speeds(results)
    parts = (
        f"{strategy} {geometric_mean(found.values()):.3f}x" for strategy, found in best.items()
    )
    rows = results.rows("vdla_search")
    count, layers = len(rows[0]["ratios"]), ", ".join(sorted({row["layer"] for row in rows}))
    size = max(row["size"] for row in rows)
    parts = [*parts, *(f"{name} is not measured yet" for name in STRATEGIES if name not in best)]
    return (
        f"On the simulated accelerator, whose cycles are exact, the best of {count} trials in a"
        f" space of {size:,} for {layers}, against the default: {', '.join(parts)}"
    )


def best_speeds(results: Results, trials: int = 1 << 30) -> dict[str, dict[str, float]]:
    """Speed of the best of the first trials relative to the default, by strategy and layer."""
    found: dict[str, dict[str, list[float]]] = {}
    for row in results.rows("vdla_search"):
        best = 1 / min(row["ratios"][:trials])
        found.setdefault(row["strategy"], {}).setdefault(row["layer"], []).append(best)
    shared = set[str].intersection(*(set(layers) for layers in found.values()))
    return {
        strategy: {layer: geometric_mean(layers[layer]) for layer in sorted(shared)}
        for strategy, layers in found.items()
    }


def _spaces(results: Results) -> str:
    largest = max(results.rows("spaces"), key=lambda row: sum(row["sizes"].values()))
    text = f"{sum(largest['sizes'].values()):.1e} for {largest['case']} on {largest['target']}"
    sizes = sorted(sum(row["sizes"].values()) for row in results.rows("spaces"))
    return f"at most {text}, half of the layers above {sizes[len(sizes) // 2]:.1e}"


def _prediction(results: Results) -> str:
    rows = results.rows("scoring")
    slowest = max(row["features_us"] + row["model_us"] for row in rows)
    return f"at most {slowest:.1f} us for features and prediction of a choice, scored in batches"


def _server(results: Results) -> str:
    parts: list[str] = []
    for dtype in ("f32", "f16"):
        rows = [row for row in results.rows("gpu_programs") if row["dtype"] == dtype]
        counts = ", ".join(f"{row['network']} {row['launches']}" for row in rows)
        parts.append(f"{dtype}: {counts}")
    return ratios(results, "networks") + f"Launches on sm_80 in {'; '.join(parts)}."


def _server_layers(results: Results) -> str:
    return ratios(results, "layers") + ratios(results, "depthwise")


def _cpu_networks(results: Results) -> str:
    rows = results.rows("networks")
    each = ", ".join(f"{row['case']} {row['speed']:.2f}x" for row in rows)
    return f"On this CPU, one thread, against onnxruntime: {each}"


def _cpu_layers(results: Results) -> str:
    parts: list[str] = []
    for suite, title in (("conv", "convolutions"), ("depthwise", "depthwise")):
        speeds = [row["speed"] for row in results.rows("layers") if row["suite"] == suite]
        parts.append(
            f"{title} {geometric_mean(speeds):.2f}x ({min(speeds):.2f} to {max(speeds):.2f})"
        )
    loops = [row for row in results.rows("arm_loops") if row["cpu"] == "cortex-a53"]
    shares = sorted(row["share"] for row in loops)
    return (
        f"On this CPU, one thread, against onnxruntime: {', '.join(parts)}. By llvm-mca, the inner"
        f" loops of {len(loops)} layers reach {shares[0]:.0%} to {shares[-1]:.0%} of a Cortex-A53's"
        f" peak, {shares[len(shares) // 2]:.0%} in the median"
    )


def _bits(results: Results) -> str:
    rows = results.rows("bits")
    parts: list[str] = []
    for other in ("f32", "int8"):
        speeds = [row["us"][other] / row["us"]["A2W1"] for row in rows]
        mean, least, most = geometric_mean(speeds), min(speeds), max(speeds)
        parts.append(f"{mean:.2f}x {other} ({least:.2f} to {most:.2f})")
    return f"On this CPU, one thread, {len(rows)} layers: {', '.join(parts)}"


def _mali(results: Results) -> str:
    rows = results.rows("mali")
    each = ", ".join(f"{row['network']} {row['precision']} {row['launches']}" for row in rows)
    return f"These compile to OpenCL C for Mali, with as many launches: {each}"


def _table2(_: Results) -> str:
    count = len(LAYERS)
    return (
        f"All of C1 to C12 and D1 to D9 are benchmark cases; the accelerator runs {count} of them"
    )


STRATEGIES = ("model", "estimate", "random")
SEARCH = (
    "python benchmarks/vdla_tuning.py --layers C8 --trials 24 --strategies model estimate random"
    " --json benchmarks/results/vdla_search.json"
)
_BOARD = "an FPGA board; cycles are simulated"
_CARD = "a Titan X and its libraries; PyTorch with cuDNN on another GPU stands in"

CLAIMS = (
    Claim(
        "tvm",
        "Figure 4",
        "Fused operators are 1.2 to 2 times as fast (Titan X).",
        "python benchmarks/gpu.py --filter fusion/",
        Kind.MEASURED,
        _fusion,
        ("fusion", GPU),
        _CARD,
    ),
    Claim(
        "tvm",
        "Figure 7",
        "Cooperative fetching to shared memory speeds up products of 1024 and 2048 (Titan X).",
        "python benchmarks/gpu.py --filter sharing/",
        Kind.MEASURED,
        _sharing,
        ("sharing", GPU),
        _CARD,
    ),
    Claim(
        "tvm",
        "Section 4.3",
        "The bit-serial micro-kernel as an intrinsic is up to 1.5 times as fast as loops.",
        "",
        Kind.MISSING,
        lambda _: (
            "Loops over single bits are always tensorized, so that there is nothing to compare"
        ),
    ),
    Claim(
        "tvm",
        "Figure 10",
        "Latency hiding raises the peak utilisation of the accelerator from 70% to 88%.",
        "python benchmarks/vdla.py --machine vdla --json benchmarks/results/vdla.json",
        Kind.SIMULATED,
        _roofline,
        ("vdla",),
        _BOARD,
    ),
    Claim(
        "tvm",
        "Section 5.1",
        "The optimizer searches billions of configurations.",
        "python benchmarks/paper.py --measure spaces",
        Kind.COUNTED,
        _spaces,
        ("spaces",),
    ),
    Claim(
        "tvm",
        "Section 5.2",
        "The tree boosting model predicts in 0.67 ms.",
        "python benchmarks/paper.py --measure scoring",
        Kind.MEASURED,
        _prediction,
        ("scoring",),
    ),
    Claim(
        "tvm",
        "Figure 12, table 1",
        "A learned cost model finds better configurations faster than black-box search (Titan X).",
        SEARCH,
        Kind.SIMULATED,
        _search,
        ("vdla_search",),
        "a search on a GPU; searches on a CPU are in [tuning](tuning.md)",
    ),
    Claim(
        "tvm",
        "Table 2",
        "Configurations of all layers of ResNet-18 and MobileNet.",
        "python benchmarks/run.py --list --only conv depthwise",
        Kind.COUNTED,
        _table2,
    ),
    Claim(
        "tvm",
        "Figure 14",
        "End to end 1.6 to 3.8 times as fast as MXNet, TensorFlow and XLA (Titan X).",
        "python benchmarks/gpu.py --filter networks/",
        Kind.MEASURED,
        _server,
        ("gpu_programs", GPU),
        _CARD,
    ),
    Claim(
        "tvm",
        "Figure 15",
        "Most layers of ResNet-18 and MobileNet are faster than cuDNN's and MXNet's (Titan X).",
        "python benchmarks/gpu.py --filter 'layers/|depthwise/'",
        Kind.MEASURED,
        _server_layers,
        (GPU,),
        _CARD,
    ),
    Claim(
        "tvm",
        "Figure 16",
        "Three networks are faster than TensorFlow Lite (Cortex-A53).",
        "python benchmarks/paper.py --measure networks",
        Kind.MEASURED,
        _cpu_networks,
        ("networks",),
        "an Arm board and TensorFlow Lite; this CPU and onnxruntime stand in",
    ),
    Claim(
        "tvm",
        "Figure 17",
        "Layers are faster than TensorFlow Lite's, depthwise ones above all (Cortex-A53).",
        "python benchmarks/paper.py --measure layers arm_loops",
        Kind.MEASURED,
        _cpu_layers,
        ("layers", "arm_loops"),
        "an Arm board and TensorFlow Lite; this CPU, onnxruntime and llvm-mca stand in",
    ),
    Claim(
        "tvm",
        "Figure 18",
        "Layers of 2-bit data and 1-bit weights beat Caffe2's, and threads help (Cortex-A53).",
        "python benchmarks/paper.py --measure bits",
        Kind.MEASURED,
        _bits,
        ("bits",),
        "an Arm board and Caffe2's library; our f32 and int8 stand in, and [bits](bits.md) has two"
        " threads",
    ),
    Claim(
        "tvm",
        "Figure 19",
        "Three networks are 1.2 to 1.6 times as fast as the Arm Compute Library (Mali-T860MP4).",
        "python benchmarks/paper.py --measure mali",
        Kind.COUNTED,
        _mali,
        ("mali",),
        "a Mali GPU; results of the same kernels are tested on PoCL",
    ),
    Claim(
        "tvm",
        "Section 6.4",
        "The accelerator peaks at 102.4 GOPS/s.",
        "python benchmarks/paper.py",
        Kind.COUNTED,
        _peak,
    ),
    Claim(
        "tvm",
        "Section 6.4",
        "The accelerator's back end took about 2,000 lines of Python.",
        "python benchmarks/paper.py --measure lines",
        Kind.COUNTED,
        _lines,
        ("lines",),
    ),
    Claim(
        "tvm",
        "Figure 21",
        "Offloaded convolutions of ResNet-18 are 40 times as fast as on the CPU of the board.",
        "python benchmarks/vdla_resnet18.py --machine vdla"
        " --json benchmarks/results/vdla_resnet18.json",
        Kind.SIMULATED,
        _offloaded,
        ("vdla_resnet18",),
        f"{_BOARD}, and its CPU, whose time is the paper's",
    ),
)
