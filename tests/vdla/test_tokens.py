"""order-units: the proof accepts its tokens, none is redundant, results are unchanged."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from programs.vdla_programs import Conv, ConvWriter, Writer
from programs.vdla_streams import proof_of, token_pairs, without_token
from programs.vdla_tokens import insert_tokens
from running.examples import examples
from tcopt.backends.accelerator.check import check_program
from tcopt.backends.accelerator.code import code_for
from tcopt.backends.vdla.machines import MACHINES
from tcopt.dialects.accelerator import FinishOp, ProgramOp
from tcopt.dialects.target import TARGET_ATTRIBUTE, VdlaTargetAttr
from tcopt.dialects.vdla import (
    AluCode,
    AluOp,
    GemmOp,
    KernelKind,
    LoadOp,
    Memory,
    StoreOp,
)
from tcopt.passes.accelerator.order_units import OrderUnitsPass, plan_program
from tcopt.support.pipelines.running import new_context

BOTH = VdlaTargetAttr.of_facts(
    {**MACHINES["vta"].facts(), "results": "i32,i8", "features": "alu,load_i8"}
)
SIZE = 6


def with_tokens(program: ProgramOp, target: VdlaTargetAttr, rule: str = "regions") -> ProgramOp:
    program.attributes[TARGET_ATTRIBUTE] = target
    module = ModuleOp([program])
    OrderUnitsPass(rule=rule).apply(new_context(), module)
    module.verify()
    return program


@st.composite
def programs(draw: st.DrawFn) -> ProgramOp:
    """Random instructions of all kinds on few entries, after some that write all of them.

    `m` holds bytes that are loaded as inputs, weights and registers; results are stored to it, too.
    """
    writer = Writer("random", {"m": ((3 * 16, 16), 8), "b": ((2 * SIZE, 16), 32)})
    m, b = writer.buffers["m"], writer.buffers["b"]
    writer.add(LoadOp(Memory.INP, 0, m, 0, (1, SIZE)))
    writer.add(LoadOp(Memory.WGT, 0, m, 0, (1, 3)))
    writer.add(LoadOp(Memory.ACC, 0, b, 0, (1, 2 * SIZE)))
    small = st.integers(0, SIZE - 1)
    for kind in draw(st.lists(st.sampled_from("iwa8gGAsSo"), max_size=14)):
        at, offset, count = draw(small), draw(small), draw(st.integers(1, 2))
        if kind == "i":
            writer.add(LoadOp(Memory.INP, min(at, 4), m, offset * 3, (1, count)))
        elif kind == "w":
            writer.add(LoadOp(Memory.WGT, at % 2, m, offset % 2, (1, count)))
        elif kind == "a":
            writer.add(LoadOp(Memory.ACC, at, b, offset, (count, 1), 2))
        elif kind == "8":
            writer.add(LoadOp(Memory.ACC8, at, m, offset * 5, (1, count)))
        elif kind in "gG":
            rows = [(at, offset, count)] if kind == "g" else [(at, 0, 0), (offset, 1, 0)]
            kernel = writer.kernel(KernelKind.GEMM, [2], [[1], [0], [0]], rows)
            writer.add(GemmOp(kernel, reset=kind == "G"))
        elif kind == "A":
            kernel = writer.kernel(KernelKind.ALU, [], [[], []], [(at, offset)])
            writer.add(AluOp(AluCode.ADD, kernel))
        elif kind == "o":
            writer.add(StoreOp(Memory.OUT, at, m, offset * 7, (1, count)))
        else:
            writer.add(StoreOp(Memory.ACC, at, b, offset, (count, 1), 2))
    writer.add(FinishOp())
    return writer.program()


def buffers(seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [
        rng.integers(-128, 128, (3 * 16, 16), np.int8),
        rng.integers(-1000, 1000, (2 * SIZE, 16), np.int32),
    ]


@given(programs())
@settings(max_examples=examples(60))
def test_random_streams_run_in_any_order(program: ProgramOp) -> None:
    """The proof accepts the tokens, every order gives the same results, and without any one of the
    tokens the proof fails."""
    with_tokens(program, BOTH)
    read, proof = check_program(program)
    assert proof.holds
    code, expected = code_for(program), buffers()
    code.run(expected)
    for seed in range(3):
        found = buffers()
        code.run(found, seed)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)
    for sender, taker in token_pairs(read.tasks):
        assert not proof_of(without_token(read, sender, taker), limit=1).holds


@given(programs())
@settings(max_examples=examples(40))
def test_no_more_tokens_than_all_pairs_need(program: ProgramOp) -> None:
    """Against a reference that compares every instruction with every other one."""
    plan = plan_of(program, BOTH)
    if plan.relays:
        return
    assert plan.count <= insert_tokens(program, BOTH)


def plan_of(program: ProgramOp, target: VdlaTargetAttr, rule: str = "regions"):
    program.attributes[TARGET_ATTRIBUTE] = target
    return plan_program(program, target, rule)


@given(programs(), st.integers(1, 3))
@settings(max_examples=examples(40))
def test_short_queues_do_not_overflow(program: ProgramOp, depth: int) -> None:
    target = VdlaTargetAttr.of_facts({**BOTH.facts(), "tokens": depth, "queue": 2})
    assert check_program(with_tokens(program, target))[1].holds


CONVS = [
    Conv(32, 8, 64, 3, 1, 1, 4, 8, oc_threads=2, tile_co=2),
    Conv(32, 8, 32, 3, 1, 1, 4, 4, tile_ci=2, h_threads=2),
    Conv(32, 8, 64, 1, 2, 0, 2, 4, tile_ci=2, tile_co=2),
]


@pytest.mark.parametrize("conv", CONVS, ids=str)
def test_convolutions_need_fewer_tokens_than_by_vtas_rule(conv: Conv) -> None:
    """VTA's rule is also correct on the same streams, with at least as many tokens."""
    counts: dict[str, int] = {}
    for rule in ("regions", "neighbours"):
        program = ConvWriter(conv, tokens=False).write()
        read, proof = check_program(with_tokens(program, MACHINES["vdla"], rule))
        assert proof.holds
        counts[rule] = len(token_pairs(read.tasks))
        x, w, y = conv.arrays()
        code_for(program).run([x, w, y], seed=1)
        np.testing.assert_array_equal(y, conv.reference(x, w))
    assert counts["regions"] <= counts["neighbours"]
    assert counts["regions"] == insert_tokens(
        ConvWriter(conv, tokens=False).write(), MACHINES["vdla"]
    )
