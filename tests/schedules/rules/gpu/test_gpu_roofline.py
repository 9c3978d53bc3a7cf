"""Distance of GPU kernels from the device's roofline: a remark if far, none otherwise."""

from __future__ import annotations

import json

import onnx
import pytest
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr

from models.network import Network
from programs.schedule_programs import matmul
from tcopt.backends.named_gpus import named_gpu
from tcopt.compiler import pipeline
from tcopt.compiler.driver import slow_kernels
from tcopt.dialects import loop
from tcopt.dialects.graph.core.forms import COUNTS_ON_ATTRIBUTE
from tcopt.dialects.target.facts import TARGET_ATTRIBUTE
from tcopt.dialects.te import api as te
from tcopt.frontends.onnx import import_model
from tcopt.frontends.onnx.building.examples import find_example_model
from tcopt.passes.loop.bufferize.stage_nests import lower_function
from tcopt.schedules import Schedule
from tcopt.schedules.passes.schedule import SchedulePass, find_schedule
from tcopt.schedules.rules.gpu.facts import gpu_facts
from tcopt.schedules.rules.gpu.roofline import estimate, lower_bound
from tcopt.schedules.rules.rule import RULES, Declined, Estimate, rules_for
from tcopt.support.pipelines.running import new_context
from tcopt.support.remarks import Remark, collect_remarks
from tcopt.tools import tcopt_check

DEVICES = ("sm_80", "sm_90", "opencl", "mali")
NETWORKS = ("cuda:sm_80", "opencl", "opencl:mali")


class OneThread:
    """Rule that accepts every function and leaves its loops unchanged."""

    name = "one-thread"

    def apply(self, sch: Schedule, facts: object) -> Declined | None:
        return None


def copy(rows: int, columns: int, element: str = "f32") -> loop.FuncOp:
    """y[i, j] = x[i, j]"""
    x = te.placeholder((rows, columns), element, name="x")
    y = te.compute((rows, columns), lambda i, j: x[i, j], name="y")
    return lower_function(te.func("copy", [x], [y]))


def estimated(before: loop.FuncOp, after: loop.FuncOp, device: str) -> Estimate:
    found = estimate(before, after, gpu_facts(named_gpu(device)))
    assert found is not None
    return found


def by_rules(function: loop.FuncOp, device: str) -> Estimate:
    """Schedule a function by the target's rules."""
    schedule = find_schedule(function, rules_for("gpu"), gpu_facts(named_gpu(device)))
    assert schedule is not None
    return estimated(function, schedule.func, device)


def told(function: loop.FuncOp, device: str) -> list[Remark]:
    """Return the remarks of the pass `schedule` about slow kernels."""
    module = ModuleOp([function])
    module.attributes[TARGET_ATTRIBUTE] = named_gpu(device)
    with collect_remarks() as remarks:
        SchedulePass().apply(new_context(), module)
    return [remark for remark in remarks if remark.slow]


def one_of_each() -> onnx.ModelProto:
    """A product, a convolution, sums, and elementwise work."""
    net = Network("each")
    image = net.conv(net.input("x", [1, 32, 28, 28]), 32, 64)
    y = net.add("GlobalAveragePool", net.add("Relu", image))
    a = net.add("MatMul", net.input("a", [128, 256]), net.normal([256, 256], 0.1))
    z = net.add("Softmax", net.add("Transpose", a, perm=[1, 0]))
    return net.model(**{y: [1, 64, 1, 1], z: [256, 128]})


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "function", [matmul(256, 256, 512), copy(1024, 1024), copy(999, 1023)], ids=["mm", "y", "odd"]
)
def test_one_thread_is_told_from_what_rules_make(device, function):
    alone = estimated(function, function, device)
    assert alone.share < 0.01
    assert "1 blocks of 1 threads on" in alone.reason
    good = by_rules(function, device)
    assert 0.2 < good.share <= 1
    assert good.ns < alone.ns / 50


@pytest.mark.parametrize("device", ["sm_80", "sm_90"])
def test_few_threads_that_copy_a_row_each_are_slow(device):
    sch = Schedule(copy(512, 2048))
    rows, _ = sch.get_loops(sch.get_block("y"))
    blocks, threads = sch.split(rows, [None, 64])
    sch.bind(blocks, "blockIdx.x")
    sch.bind(threads, "threadIdx.x")
    found = estimated(copy(512, 2048), sch.func, device)
    assert found.share < 0.1
    assert found.reason.startswith('"y": 8 blocks of 64 threads on ')


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("element", ["i8", "f16"])
def test_small_numbers_from_all_over_memory_are_slow(device, element):
    """The threads of a block copy a column, so each element moves 32 bytes."""
    shares = []
    for is_apart in (True, False):
        sch = Schedule(copy(4096, 4096, element))
        rows, columns = sch.get_loops(sch.get_block("y"))
        moving, other = (rows, columns) if is_apart else (columns, rows)
        sch.reorder(other, moving)
        above, threads = sch.split(moving, [None, 256])
        sch.bind(other, "blockIdx.x")
        sch.bind(above, "blockIdx.y")
        sch.bind(threads, "threadIdx.x")
        found = estimated(copy(4096, 4096, element), sch.func, device)
        shares.append(found.share)
        assert found.reason.endswith("neighbouring threads load what lies apart") == is_apart
    assert shares[0] < 0.1 < 0.25 < shares[1]


@pytest.mark.parametrize("device", DEVICES)
def test_an_estimate_is_never_below_the_limit(device):
    facts = gpu_facts(named_gpu(device))
    for function in (matmul(8, 8, 8), matmul(64, 256, 128), copy(3, 5)):
        found = by_rules(function, device)
        assert found.ns >= found.limit_ns > 0
        assert lower_bound(function, facts) >= lower_bound(matmul(1, 1, 1), facts)


@pytest.mark.parametrize("device", DEVICES)
def test_a_bad_schedule_is_a_remark(device):
    assert told(matmul(128, 256, 256), device) == []
    with RULES.override(("gpu", "one-thread"), (9999, OneThread())):
        (remark,) = told(matmul(128, 256, 256), device)
    assert (remark.by, remark.subject, remark.missed) == ("one-thread", "@matmul", True)
    assert "of what the target allows" in remark.message


def test_a_rule_that_was_counted_on_and_is_none_of_the_target_is_told():
    function = matmul(256, 512, 1024)
    function.attributes[COUNTS_ON_ATTRIBUTE] = ArrayAttr([StringAttr("exotic")])
    (remark,) = told(function, "sm_80")
    assert remark.message.endswith("exotic: no rule of the target provides it")


@pytest.mark.parametrize("target", NETWORKS)
def test_no_alarm_for_what_the_rules_make(target):
    assert slow_kernels(import_model(one_of_each()), pipeline(target)) == []


@pytest.mark.nightly
def test_no_alarm_for_a_network():
    module = import_model(find_example_model("light_squeezenet"))
    assert slow_kernels(module, pipeline("opencl:mali")) == []


def test_tcopt_check_tells_of_slow_kernels_of_a_device(tmp_path, capsys):
    path = tmp_path / "each.onnx"
    onnx.save(one_of_each(), path)
    call = [str(path), "--kernels", "--target", "opencl"]
    assert tcopt_check.main(call) == 0
    assert "none is estimated to be far from" in capsys.readouterr().out
    with RULES.override(("gpu", "one-thread"), (9999, OneThread())):
        assert tcopt_check.main([*call, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["slow_kernels"]
    assert any(each["message"].startswith("est. ") for each in found)
