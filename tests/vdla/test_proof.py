"""The proof against an oracle that checks all pairs, and each kind of fault separately."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from programs.vdla_programs import Conv, ConvWriter, Writer
from programs.vdla_streams import proof_of, token_pairs, without_token
from programs.vdla_tokens import conflict, insert_tokens
from running.examples import examples
from tcopt.backends.accelerator.check import check_program
from tcopt.backends.accelerator.code import code_for
from tcopt.backends.accelerator.simulator.proof import Proof
from tcopt.backends.vdla.machines import MACHINES
from tcopt.dialects.accelerator import FinishOp, ProgramOp
from tcopt.dialects.accelerator.reading import read_program
from tcopt.dialects.target import VdlaTargetAttr
from tcopt.dialects.vdla import (
    GemmOp,
    KernelKind,
    LoadOp,
    Memory,
    StoreOp,
    Unit,
)
from tcopt.support.errors import VerificationError

VDLA = MACHINES["vdla"]

CONVS = [
    Conv(32, 8, 64, 3, 1, 1, 4, 8, oc_threads=2, tile_co=2),
    Conv(32, 8, 32, 3, 1, 1, 4, 4, tile_ci=2, h_threads=2),
    Conv(32, 8, 64, 1, 2, 0, 2, 4, tile_ci=2, tile_co=2),
]


def check(program: ProgramOp, target: VdlaTargetAttr = VDLA) -> Proof:
    return check_program(program, target)[1]


@pytest.mark.parametrize("conv", CONVS, ids=str)
def test_tokens_by_region_hold_and_none_is_too_many(conv: Conv) -> None:
    """Without any one token there is a fault; with all, results equal numpy's in any order."""
    program = ConvWriter(conv, tokens=False).write()
    assert any(fault.kind == "race" for fault in proof_of(read_program(program, VDLA)).faults)
    count = insert_tokens(program, VDLA)
    assert check(program).holds
    read = read_program(program, VDLA)
    pairs = token_pairs(read.tasks)
    assert len(pairs) == count
    for sender, taker in pairs:
        assert not proof_of(without_token(read, sender, taker), limit=1).holds
    code = code_for(program, VDLA)
    for seed in range(4):
        x, w, y = conv.arrays()
        code.run([x, w, y], seed)
        np.testing.assert_array_equal(y, conv.reference(x, w))


@pytest.mark.parametrize("conv", CONVS, ids=str)
def test_the_tokens_of_vtas_schedules_hold(conv: Conv) -> None:
    proof = check(ConvWriter(conv).write())
    assert proof.holds
    assert max(proof.fullest.values()) <= 4


@st.composite
def programs(draw: st.DrawFn) -> ProgramOp:
    """Loads, gemms, stores and loads of registers on a few entries, in any order."""
    shapes = {"x": ((8, 16), 8), "b": ((8, 16), 32), "w": ((4, 256), 8)}
    writer = Writer("random", shapes)
    kernel_rows = st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=2
    )
    small = st.integers(0, 4)
    for kind in draw(st.lists(st.sampled_from("xwgrsb"), min_size=2, max_size=14)):
        if kind in "xw":
            memory = Memory.INP if kind == "x" else Memory.WGT
            shape = (1, draw(st.integers(1, 2)))
            at, offset = draw(st.integers(0, 2)), draw(st.integers(0, 2))
            writer.add(LoadOp(memory, at, writer.buffers[kind], offset, shape))
        elif kind == "b":
            writer.add(LoadOp(Memory.ACC, draw(small), writer.buffers["b"], draw(small), (1, 2)))
        elif kind == "s":
            shape = (draw(st.integers(1, 2)), 1)
            stride = draw(st.integers(1, 3))
            writer.add(
                StoreOp(Memory.ACC, draw(small), writer.buffers["b"], draw(small), shape, stride)
            )
        else:
            kernel = writer.kernel(KernelKind.GEMM, [], [[], [], []], draw(kernel_rows))
            writer.add(GemmOp(kernel, reset=kind == "r"))
    writer.add(FinishOp())
    return writer.program()


@settings(max_examples=examples(50), deadline=None)
@given(programs())
def test_random_programs_hold_until_a_token_is_taken_away(program: ProgramOp) -> None:
    insert_tokens(program, VDLA)
    read = read_program(program, VDLA)
    assert proof_of(read).holds
    for sender, taker in token_pairs(read.tasks):
        assert not proof_of(without_token(read, sender, taker), limit=1).holds


@settings(max_examples=examples(80), deadline=None)
@given(programs(), st.data())
def test_the_verdict_is_that_of_all_pairs(program: ProgramOp, data: st.DataObject) -> None:
    """Random tokens: a race is a pair of accesses that no chain of tokens orders."""
    ops = program.steps
    insert_tokens(program, VDLA)
    read = read_program(program, VDLA)
    for pair in token_pairs(read.tasks):
        if data.draw(st.booleans()):
            read = without_token(read, *pair)
    tasks = read.tasks
    proof = proof_of(read, limit=1000)
    assume(not any(fault.kind == "deadlock" for fault in proof.faults))
    before = np.zeros((len(ops), len(ops)), bool)
    last: dict[str, int] = {}
    for task in tasks:
        if task.unit in last:
            before[last[task.unit], task.number] = True
        last[task.unit] = task.number
    for pair in token_pairs(tasks):
        before[pair] = True
    for middle in range(len(ops)):
        before |= before[:, middle, None] & before[None, middle, :]
    racing = {
        later.number
        for later in tasks
        for earlier in tasks[: later.number]
        if earlier.unit != later.unit
        and conflict(earlier, later)
        and not before[earlier.number, later.number]
        and not before[later.number, earlier.number]
    }
    found = {frozenset(fault.tasks) for fault in proof.faults if fault.kind == "race"}
    assert bool(found) == bool(racing)
    for pair in found:
        first, second = sorted(pair)
        assert conflict(tasks[first], tasks[second])
        assert not before[first, second] and not before[second, first]
    # An instruction may still run at the end if the end does not wait for it.
    unfinished = not before[:-1, -1].all()
    assert any(fault.kind == "unfinished" for fault in proof.faults) == unfinished


def copy_stream(count: int) -> Writer:
    """Registers loaded and stored, `count` times, each time on others."""
    writer = Writer("copy", {"x": ((64, 16), 32), "y": ((64, 16), 32)})
    for n in range(count):
        load = LoadOp(Memory.ACC, n, writer.buffers["x"], n, (1, 1))
        writer.add(load, [], [Unit.STORE])
    for n in range(count):
        store = StoreOp(Memory.ACC, n, writer.buffers["y"], n, (1, 1))
        writer.add(store, [Unit.COMPUTE], [Unit.COMPUTE] if n == count - 1 else [])
    writer.add(FinishOp(), [Unit.STORE])
    return writer


def machine_with(**facts: int) -> VdlaTargetAttr:
    return VdlaTargetAttr.of_facts({**VDLA.facts(), **facts})


def test_queues_overflow_where_a_slow_consumer_would_let_them() -> None:
    program = copy_stream(4).program()
    assert check(program, machine_with(tokens=4)).fullest == {
        "compute->store": 4,
        "store->compute": 1,
    }
    with pytest.raises(VerificationError, match="overflow: compute->store may hold 3 tokens"):
        check(program, machine_with(tokens=2))


def test_a_token_that_nobody_sends_is_a_deadlock() -> None:
    writer = copy_stream(1)
    writer.ops[0].set_tokens((Unit.LOAD,), (Unit.STORE,))
    program = writer.program()
    with pytest.raises(VerificationError, match="deadlock: the compute unit waits forever"):
        check(program)
    with pytest.raises(VerificationError, match="the compute unit waits forever"):
        code_for(program, VDLA).run([np.zeros((64, 16), np.int32)] * 2, seed=0)


def test_a_token_that_nobody_takes_is_left() -> None:
    writer = copy_stream(2)
    writer.ops[0].set_tokens((), (Unit.LOAD, Unit.STORE))
    with pytest.raises(VerificationError, match="token left: 1 tokens of compute->load"):
        check(writer.program())


def test_the_end_waits_for_the_last_store() -> None:
    writer = copy_stream(1)
    writer.ops[1].set_tokens((Unit.COMPUTE,), ())
    writer.ops[2].set_tokens((), ())
    message = "unfinished: may not be done when the program is over: store acc 0, %y"
    with pytest.raises(VerificationError, match=message):
        check(writer.program())


def test_queues_of_commands_are_as_long_as_they_are() -> None:
    """A store waits for an instruction fetched after more stores than its queue holds."""
    writer = Writer("late", {"x": ((64, 16), 32), "y": ((64, 16), 32)})
    for n in range(4):
        store = StoreOp(Memory.ACC, 0, writer.buffers["y"], n, (1, 1))
        writer.add(store, [Unit.COMPUTE] if n == 0 else [], [Unit.COMPUTE] if n == 3 else [])
    writer.add(LoadOp(Memory.ACC, 0, writer.buffers["x"], 0, (1, 1)), [], [Unit.STORE])
    writer.add(FinishOp(), [Unit.STORE])
    program = writer.program()
    assert check(program, machine_with(queue=3)).holds
    with pytest.raises(VerificationError, match="deadlock: the store unit waits forever"):
        check(program, machine_with(queue=2))


def test_micro_ops_must_have_been_loaded() -> None:
    writer = Writer("p", {})
    kernel = writer.kernel(KernelKind.GEMM, [], [[], [], []], [(0, 0, 0)])
    writer.ops.clear()
    writer.add(GemmOp(kernel, reset=True))
    writer.add(FinishOp())
    with pytest.raises(VerificationError, match="micro-ops 0 to 0 are executed, but not loaded"):
        check(writer.program())


def test_registers_are_not_written_again_too_soon() -> None:
    writer = Writer("p", {})
    kernel = writer.kernel(KernelKind.GEMM, [], [[], [], []], [(0, 0, 0), (0, 1, 0)])
    writer.add(GemmOp(kernel))
    writer.add(FinishOp())
    program = writer.program()
    check(program)
    with pytest.raises(VerificationError, match="register 0 is written again after 1 micro-ops"):
        check(program, machine_with(rewrite=2))
