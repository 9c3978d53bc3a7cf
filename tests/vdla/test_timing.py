"""Cycles: manually computed programs, categories of waiting, and published measurements."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from xdsl.dialects.builtin import NameLoc, StringAttr, UnknownLoc

from programs.vdla_programs import PUBLISHED, Conv, ConvWriter, Writer
from programs.vdla_tokens import insert_tokens
from tcopt.backends.accelerator.check import check_program
from tcopt.backends.accelerator.simulator.timing import WORK, Timeline, simulate
from tcopt.backends.accelerator.simulator.trace import trace_events, write_trace
from tcopt.backends.vdla.machines import MACHINES
from tcopt.dialects.accelerator import FinishOp, ProgramOp
from tcopt.dialects.accelerator.reading import read_program
from tcopt.dialects.accelerator.tasks import Fetch, Machine, Port, Queue, Task
from tcopt.dialects.target import VdlaTargetAttr
from tcopt.dialects.vdla import (
    AluCode,
    AluOp,
    GemmOp,
    KernelKind,
    LoadOp,
    Memory,
    StoreOp,
    Unit,
)
from tcopt.support.errors import VerificationError

VDLA = MACHINES["vdla"]

PAGE = Path(__file__).parents[2] / "docs" / "vdla.md"


def run(program: ProgramOp, target: VdlaTargetAttr = VDLA) -> Timeline:
    read = read_program(program, target)
    return simulate(read.machine, read.tasks)


def machine_with(target: VdlaTargetAttr = VDLA, **facts: int | str) -> VdlaTargetAttr:
    return VdlaTargetAttr.of_facts({**target.facts(), **facts})


def small_program() -> ProgramOp:
    shapes = {"x": ((4, 16), 8), "w": ((1, 256), 8), "y": ((4, 16), 32)}
    writer = Writer("small", shapes)
    kernel = writer.kernel(KernelKind.GEMM, [4], [[1], [1], [0]], [(0, 0, 0)])
    writer.add(LoadOp(Memory.INP, 0, writer.buffers["x"], 0, (1, 4)))
    writer.add(LoadOp(Memory.WGT, 0, writer.buffers["w"], 0, (1, 1)), [], [Unit.COMPUTE])
    writer.add(GemmOp(kernel, reset=True))
    writer.add(GemmOp(kernel), [Unit.LOAD], [Unit.STORE])
    store = StoreOp(Memory.ACC, 0, writer.buffers["y"], 0, (1, 4))
    writer.add(store, [Unit.COMPUTE], [Unit.COMPUTE])
    writer.add(FinishOp(), [Unit.STORE])
    return writer.program()


def test_a_small_program_by_hand() -> None:
    """8 bytes per cycle and 1 cycle per row, latency 16; one cycle per micro-op after 6.

    Fetch uses the port for 1 + 256/8 cycles, so the first instruction arrives at 33 + 16 = 49.
    Micro-ops 49..51, done at 67. Inputs: requested at 50, 51..60, done at 76. Weights 76..109, done
    at 125. Reset 67..77. Gemm 125..135. Store 135..168, done at 184, which is the end.
    """
    timeline = run(small_program())
    assert timeline.cycles == 184
    work = {
        (each.track, each.start, each.end)
        for each in timeline.slices
        if each.cause == WORK and each.track in ("load", "compute", "store")
    }
    assert work == {
        ("compute", 49, 51),
        ("load", 51, 60),
        ("load", 76, 109),
        ("compute", 67, 77),
        ("compute", 125, 135),
        ("store", 135, 168),
    }
    assert timeline.stalls["compute"] == {
        "instruction": 49,
        "latency": 16,
        "load->compute": 125 - 77,
        "store->compute": 184 - 135,
    }
    assert timeline.stalls["load"] == {
        "instruction": 50 + 184 - 125,
        "port": 1,
        "latency": 32,
    }
    assert timeline.bytes["load"] == 64 + 256 and timeline.bytes["store"] == 256


@pytest.mark.parametrize(
    ("facts", "cycles"),
    [
        ({"latency": 64}, 184 + 4 * 48),  # fetch, inputs, weights, store
        ({"start": 1000}, 1184),
        ({"port_bytes": 16}, 184 - 16 - 4 - 16 - 16),
        ({"row_cycles": 5}, 184 + 4 * 4 + 4),  # micro-ops delay the inputs
        ({"gemm_cycles": 2}, 184 + 4),
        ({"fill": 0}, 184 - 6),
    ],
    ids=str,
)
def test_each_constant_counts(facts: dict[str, int], cycles: int) -> None:
    assert run(small_program(), machine_with(**facts)).cycles == cycles


def test_the_alu_takes_its_cycles() -> None:
    vta = MACHINES["vta"]
    writer = Writer("alu", {})
    gemm = writer.kernel(KernelKind.GEMM, [10], [[1], [0], [0]], [(0, 0, 0)])
    alu = writer.kernel(KernelKind.ALU, [10], [[1], [1]], [(0, 0)])
    writer.add(GemmOp(gemm, reset=True))
    writer.add(AluOp(AluCode.ADD, alu, 1))
    writer.add(AluOp(AluCode.ADD, alu))
    writer.add(FinishOp())
    timeline = run(writer.program(), vta)
    # Micro-ops use the port for 2 cycles, twice.
    assert timeline.busy["compute"] == 2 * 2 + (6 + 10) + (6 + 10) + (6 + 20)


CONV = Conv(64, 14, 64, 3, 1, 1, 7, 14)
TWO = Conv(64, 14, 64, 3, 1, 1, 7, 14, oc_threads=2)


def test_every_cycle_of_a_unit_is_work_or_a_wait() -> None:
    timeline = run(ConvWriter(TWO).write(), machine_with(start=100))
    for unit in Unit:
        slices = sorted((each.start, each.end) for each in timeline.slices if each.track == unit)
        ends = [100, *(end for _, end in slices)]
        assert [start for start, _ in slices] == ends[:-1]
        assert ends[-1] == timeline.cycles
        total = timeline.busy[unit] + sum(timeline.stalls[unit].values())
        assert total == timeline.cycles - 100


def test_two_threads_and_tokens_by_region_hide_latency() -> None:
    """One thread with VTA's tokens is serial; two overlap; tokens by region are not slower."""
    machine = machine_with(latency=64)
    serial = run(ConvWriter(CONV).write(), machine).cycles
    hidden = run(ConvWriter(TWO).write(), machine).cycles
    program = ConvWriter(TWO, tokens=False).write()
    insert_tokens(program, machine)
    check_program(program, machine)
    by_region = run(program, machine).cycles
    assert by_region <= hidden < serial


def test_results_do_not_depend_on_the_port_but_time_does() -> None:
    """With a separate channel for stores, loads do not wait for them."""
    program = ConvWriter(TWO).write()
    shared = run(program)
    apart = run(program, machine_with(channels=2))
    assert apart.cycles < shared.cycles
    assert apart.stalls["load"].get("port", 0) < shared.stalls["load"]["port"]
    assert apart.busy["port read"] + apart.busy["port write"] == shared.busy["port"]


def plain_machine(*, by_priority: bool = False, depth: int = 8, tokens: int = 2) -> Machine:
    """A machine with three generic units `a`, `b` and `c`."""
    queues = {"a->b": Queue("a->b", "a", "b", tokens)}
    return Machine(["a", "b", "c"], queues, {"m": 16}, Port(0, by_priority), Fetch(16, 1, depth))


def ends(timeline: Timeline) -> dict[int, int]:
    return {each.task: each.end for each in timeline.slices if each.cause == WORK}


def test_the_port_serves_first_come_or_by_priority() -> None:
    """`c` requests the port while `b` has it, and before `a` does."""
    tasks = [
        Task(0, "b", port_cycles=20),
        Task(1, "a", cycles=10),
        Task(2, "c", port_cycles=20),
        Task(3, "a", port_cycles=20),
    ]
    first_come = ends(simulate(plain_machine(), tasks))
    by_priority = ends(simulate(plain_machine(by_priority=True), tasks))
    assert first_come[2] < first_come[3]
    assert by_priority[3] < by_priority[2]


def test_a_full_queue_of_commands_holds_up_what_follows() -> None:
    tasks = [*(Task(n, "a", cycles=50) for n in range(4)), Task(4, "b", cycles=1)]
    wide = simulate(plain_machine(depth=8), tasks)
    narrow = simulate(plain_machine(depth=2), tasks)
    assert ends(narrow)[4] > ends(wide)[4]
    assert narrow.stalls["fetch"]["queue a"] > 0
    assert wide.cycles == narrow.cycles


def test_instructions_are_fetched_once_whatever_queues_become_free() -> None:
    """`a` and `b` are done in the same cycle, while the fetched instruction waits for the queue of
    `b`."""
    tasks = [Task(0, "a", cycles=12), Task(1, "b", cycles=11), Task(2, "a", cycles=1)]
    tasks += [Task(3, "b", cycles=1), Task(4, "b", cycles=1), *(Task(n, "c") for n in range(5, 9))]
    machine = replace(plain_machine(), fetch=Fetch(3, 1, 1))
    timeline = simulate(machine, tasks)
    fetched = [each for each in timeline.slices if each.track == "fetch" and each.cause == WORK]
    assert [(each.start, each.end) for each in fetched] == [(0, 1), (4, 5), (15, 16)]
    assert timeline.stalls["fetch"]["queue b"] == 7


def test_a_token_without_room_is_an_error() -> None:
    tasks = [Task(n, "a", pushes=("a->b",), cycles=1) for n in range(3)]
    tasks += [Task(3, "b", cycles=100), *(Task(n, "b", pops=("a->b",)) for n in (4, 5, 6))]
    simulate(plain_machine(tokens=3), tasks)
    with pytest.raises(VerificationError, match="a->b has no room for another token"):
        simulate(plain_machine(tokens=2), tasks)


def test_tasks_may_wait_for_tasks() -> None:
    """Barriers and hardware hazard detection order instructions without tokens."""
    tasks = [Task(0, "a", cycles=30), Task(1, "b", cycles=5, after=(0,)), Task(2, "c", cycles=1)]
    timeline = simulate(plain_machine(), tasks)
    done = ends(timeline)
    assert done[1] == done[0] + 5 and done[2] < done[0]
    assert timeline.stalls["b"]["task 0"] == done[0] - 2


def test_units_that_wait_forever_are_an_error() -> None:
    with pytest.raises(VerificationError, match="the b unit waits forever for a->b"):
        simulate(plain_machine(), [Task(0, "b", pops=("a->b",))])


@pytest.mark.parametrize(("conv", "cycles"), PUBLISHED, ids=str)
def test_published_times_come_out_with_the_schedules_they_were_measured_with(
    conv: Conv, cycles: int
) -> None:
    """Within 6%, with one set of constants; each program's tokens also pass the proof."""
    pynq = MACHINES["pynq"]
    program = ConvWriter(conv).write()
    assert check_program(program, pynq)[1].holds
    found = run(program, pynq).cycles
    assert found == pytest.approx(cycles, rel=0.06)
    shape = f"{conv.size}x{conv.size}, {conv.kernel}x{conv.kernel} stride {conv.stride}"
    error = f"{100 * (found / cycles - 1):+.1f}%"
    row = f"| {conv.channels} -> {conv.outputs}, {shape} | {cycles:,} | {found:,} | {error} |"
    assert row in PAGE.read_text(encoding="utf-8")


def test_a_trace_has_tracks_waits_arrows_and_locations(tmp_path: Path) -> None:
    program = small_program()
    for op in program.steps:
        op.location = NameLoc(StringAttr("/layer1.0/conv1"), UnknownLoc())
    read = read_program(program, VDLA)
    machine, tasks = read.machine, read.tasks
    timeline = simulate(machine, tasks)
    path = tmp_path / "trace.json"
    write_trace(path, machine, tasks, timeline)
    events = json.loads(path.read_text())["traceEvents"]
    assert events == trace_events(machine, tasks, timeline)
    tracks = {e["args"]["name"]: e["tid"] for e in events if e["name"] == "thread_name"}
    assert set(tracks) == {"fetch", "load", "compute", "store", "port"}
    waits = [e for e in events if e["name"] == "wait: load->compute"]
    assert [(e["ts"], e["dur"], e["tid"]) for e in waits] == [(77, 48, tracks["compute"])]
    assert waits[0]["args"]["waited for"].startswith("2: load wgt 0, %w[0] : 1x1")
    loads = [e for e in events if e["name"] == "load inp 0" and e["tid"] == tracks["load"]]
    assert loads[0]["args"] == {
        "task": 1,
        "instruction": "load inp 0, %x[0] : 1x4",
        "op": "vdla.load",
        "location": '"/layer1.0/conv1"',
        "bytes": 64,
    }
    starts = {e["id"]: e for e in events if e["ph"] == "s"}
    finishes = {e["id"]: e for e in events if e["ph"] == "f"}
    assert len(starts) == len(finishes) == 3
    assert all(starts[n]["ts"] <= finishes[n]["ts"] for n in starts)
    counters = [e["args"]["tokens"] for e in events if e["name"].startswith("tokens ")]
    assert min(counters) == 0 and counters[-1] == 0
