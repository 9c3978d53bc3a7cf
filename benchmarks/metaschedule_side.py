"""TVM's side of `metaschedule.py`: runs in the environment with TVM, without tcopt.

    python metaschedule_side.py tune SPEC FOLDER      # until it is ended from outside
    python metaschedule_side.py time SPEC FOLDER      # the best so far, timed as lines ask for it

`tune` prints `begin` when the search starts, and writes each round's measurements to the folder.
`time` prints `ready MILLISECONDS ERROR`, then answers each line, a number of runs, with their
seconds.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import tvm  # pyright: ignore
from tvm import te, topi  # pyright: ignore
from tvm.s_tir import meta_schedule as ms  # pyright: ignore

ENDLESS = 1 << 20
"""Maximum number of trials; normally time ends the search."""

ROUND = 16
"""Trials of a round."""

PATIENCE_S = 300.0
"""Time limits of compiling and running a candidate, including process start."""


def workload(spec: dict[str, Any]) -> Any:
    """Return the computation as TVM's TensorIR."""
    if spec["kind"] == "matmul":
        a = te.placeholder((spec["rows"], spec["terms"]), name="a")
        b = te.placeholder((spec["terms"], spec["columns"]), name="b")
        return te.create_prim_func([a, b, topi.matmul(a, b)])
    size, cin, cout, kernel = (spec[name] for name in ("size", "cin", "cout", "kernel"))
    pad, stride = kernel // 2, spec["stride"]
    x = te.placeholder((1, size, size, cin), name="x")
    if spec["groups"] == 1:
        w = te.placeholder((kernel, kernel, cin, cout), name="w")
        y = topi.nn.conv2d_nhwc(x, w, stride, pad, 1)
    else:
        w = te.placeholder((kernel, kernel, cin, cout // cin), name="w")
        y = topi.nn.depthwise_conv2d_nhwc(x, w, stride, pad, 1)
    return te.create_prim_func([x, w, y])


def target(spec: dict[str, Any]) -> Any:
    """Return this machine as TVM's target, with the compared number of threads."""
    return tvm.target.Target(
        {"kind": "llvm", "mcpu": spec["cpu"], "num-cores": int(spec["threads"])}
    )


def files(folder: Path) -> tuple[str, str]:
    """Database of workloads and measurements."""
    return str(folder / "workloads.json"), str(folder / "records.json")


def tune(spec: dict[str, Any], folder: Path) -> None:
    """Search until the process is killed."""
    function = workload(spec)
    evaluator = ms.runner.EvaluatorConfig(number=1, repeat=3, min_repeat_ms=30)
    builder = ms.builder.LocalBuilder(timeout_sec=PATIENCE_S, max_workers=spec["builders"])
    runner = ms.runner.LocalRunner(timeout_sec=PATIENCE_S, evaluator_config=evaluator)
    workloads, records = files(folder)
    database = ms.database.JSONDatabase(path_workload=workloads, path_tuning_record=records)
    print("begin", flush=True)
    ms.tune_tir(
        function,
        target(spec),
        str(folder),
        spec.get("trials") or ENDLESS,
        num_trials_per_iter=ROUND,
        builder=builder,
        runner=runner,
        database=database,
        seed=spec.get("seed", 0) + 1,
    )


def timed(spec: dict[str, Any], folder: Path) -> None:
    """Compile the best recorded kernel, check it, and time it on request."""
    function = workload(spec)
    workloads, records = files(folder)
    database = ms.database.JSONDatabase(path_workload=workloads, path_tuning_record=records)
    measured = len(database)
    found = ms.tir_integration.compile_tir(database, function, target(spec))
    if found is None:
        print(json.dumps({"trials": measured, "error": "no schedule was found"}), flush=True)
        return
    run = tvm.compile(found.mod, target=target(spec))["main"]
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in operands(spec))
    right = expected(spec, x, w)
    given = [tvm.runtime.tensor(each) for each in (x, w)]
    out = tvm.runtime.tensor(np.zeros_like(right))
    run(*given, out)
    error = float(np.abs(out.numpy() - right).max())
    print(json.dumps({"trials": measured, "max_abs": error}), flush=True)
    for line in sys.stdin:
        times: list[float] = []
        for _ in range(int(line)):
            start = time.perf_counter()
            run(*given, out)
            times.append(time.perf_counter() - start)
        print(json.dumps(times), flush=True)


def operands(spec: dict[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shapes of the operands."""
    if spec["kind"] == "matmul":
        return (spec["rows"], spec["terms"]), (spec["terms"], spec["columns"])
    kernel, cin = spec["kernel"], spec["cin"]
    each = spec["cout"] if spec["groups"] == 1 else spec["cout"] // cin
    return (1, spec["size"], spec["size"], cin), (kernel, kernel, cin, each)


def expected(spec: dict[str, Any], x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Compute the correct results in numpy."""
    if spec["kind"] == "matmul":
        return x @ w
    kernel, stride = spec["kernel"], spec["stride"]
    out = (spec["size"] - 1) // stride + 1
    pad = kernel // 2
    padded = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    total = np.zeros((1, out, out, spec["cout"]), np.float32)
    for i in range(kernel):
        for j in range(kernel):
            here = padded[:, i : i + out * stride : stride, j : j + out * stride : stride]
            here = here[:, :out, :out]
            total += here @ w[i, j] if spec["groups"] == 1 else here * w[i, j, :, 0]
    return total


if __name__ == "__main__":
    {"tune": tune, "time": timed}[sys.argv[1]](json.loads(sys.argv[2]), Path(sys.argv[3]))
