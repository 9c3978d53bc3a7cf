"""PTX of models' kernels, executed: results against onnxruntime, and planted faults."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import onnx.parser
import pytest
from onnx import ModelProto

import tcopt
from machines.cuda_machine import CudaMachine, cuda_machine
from models import convolutional, transformers
from models.checks import run_reference
from models.light_models import random_inputs
from models.network import Network
from models.quantized import quantized
from tcopt.interpreters.ptx import faults
from tcopt.interpreters.ptx.launch import PtxProgram
from tcopt.runtime.device.interface import KernelSource
from tcopt.runtime.device.program import DeviceProgram
from tcopt.support.errors import BackendError, InputError, UnsupportedError


def _parsed(body: str) -> ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {body}')


def _layers() -> ModelProto:
    """A convolution and a product in whole matrices and not."""
    net = Network("layers", seed=4)
    x = net.add("Relu", net.conv(net.input("image", [1, 16, 10, 10]), 16, 24))
    rows = net.add("Reshape", x, net.ints(24, 100))
    return net.model(**{net.gemm(rows, 100, 40): [24, 40]})


MODELS = {
    "elementwise": lambda: _parsed(
        "g (float[5,7] a, float[5,7] b) => (float[5,7] y) { e = Exp(a) y = Div(e, b) }"
    ),
    "softmax": lambda: _parsed("g (float[4,100] a) => (float[4,100] y) { y = Softmax(a) }"),
    "product": lambda: _parsed(
        "g (float[64,48] a, float[48,80] b) => (float[64,80] y) { y = MatMul(a, b) }"
    ),
    "long sums": lambda: _parsed(
        "g (float[16,2048] a, float[2048,16] b) => (float[16,16] y) { y = MatMul(a, b) }"
    ),
    "pool": lambda: _parsed(
        "g (float[1,3,9,9] a) => (float[1,3,4,4] y) "
        "{ y = MaxPool <kernel_shape = [3, 3], strides = [2, 2]> (a) }"
    ),
    "layers": _layers,
    "residual_net": lambda: convolutional.residual_net(12, 5),
    "bert_block": lambda: transformers.bert_block(11, 40, 5),
    "quantized_net": lambda: quantized(convolutional.residual_net(12, 5), "QDQ"),
}
# Rounding factors to f16 or bf16 moves each by up to 2^-12 or 2^-9 of it, and errors of layers add
# up; both sides compute in f32 otherwise. Quantised results may differ by a step at a boundary.
TOLERANCE = {"f32": 1e-5, "f16": 2.0**-10, "bf16": 2.0**-7}

_SMALL = ("elementwise", "softmax", "product", "long sums", "pool")
CASES = [
    *(
        ("sm_80", "f32", name)
        for name in ("elementwise", "softmax", "product", "long sums", "pool")
    ),
    *(("sm_75", "f16", "layers"), ("sm_80", "bf16", "layers"), ("sm_90", "f16", "layers")),
]
WHOLE = [
    (arch, "f32", name)
    for name in ("residual_net", "bert_block", "quantized_net")
    for arch in ("sm_75", "sm_80", "sm_90")
]


def _error(name: str, arch: str, precision: str) -> float:
    """The largest error, as a part of the output's range."""
    model = MODELS[name]()
    feeds = random_inputs(model, 0)
    with cuda_machine((int(arch[3]), int(arch[4]))):
        results = tcopt.compile(model, f"cuda:{arch}", precision=precision).run(feeds)
    errors = [
        np.abs(ours.astype(np.float64) - theirs).max() / max(np.ptp(theirs), 1e-3)
        for ours, theirs in zip(results, run_reference(model, feeds), strict=True)
    ]
    return max(errors)


@pytest.mark.nightly(only=["sm_75-f16-layers", "sm_80-bf16-layers"])
@pytest.mark.parametrize(("arch", "precision", "name"), CASES)
def test_kernels(arch: str, precision: str, name: str) -> None:
    assert _error(name, arch, precision) <= TOLERANCE[precision]


@pytest.mark.nightly
@pytest.mark.parametrize(("arch", "precision", "name"), WHOLE)
def test_networks(arch: str, precision: str, name: str) -> None:
    limit = 1.5 / 255 if name == "quantized_net" else TOLERANCE[precision]
    assert _error(name, arch, precision) <= limit


@cache
def _product() -> DeviceProgram:
    program = tcopt.compile(MODELS["product"](), "cuda:sm_80").program
    assert isinstance(program, DeviceProgram)
    return program


def _removed_barrier(text: str, number: int) -> str:
    """The text without one of its barriers."""
    place = [found.start() for found in re.finditer(r"bar\.sync\s+0;", text)][number]
    return text[:place] + text[text.index(";", place) + 1 :]


RACES = {faults.READ_AFTER_WRITE, faults.WRITE_AFTER_WRITE, faults.WRITE_AFTER_READ}


def _run(change) -> CudaMachine:
    """Run the product with changed PTX."""
    program = _product()
    feeds = random_inputs(MODELS["product"](), 0)
    with cuda_machine() as machine:
        changed = DeviceProgram(**{name: getattr(program, name) for name in _FIELDS})
        changed.sources = [KernelSource(change(s.text), s.kernels) for s in program.sources]
        try:
            changed.run(list(feeds.values()))
        except BackendError:
            assert machine.faults
    return machine


_FIELDS = (
    "target",
    "device",
    "sources",
    "steps",
    "inputs",
    "outputs",
    "weights",
    "workspace_bytes",
)


@pytest.mark.parametrize("number", [0, 1])
def test_missing_barriers_are_races(number: int) -> None:
    machine = _run(lambda text: _removed_barrier(text, number))
    assert machine.faults[0].kind in RACES


@cache
def _copied_product() -> tuple[DeviceProgram, list[np.ndarray], np.ndarray]:
    """A product with asynchronous copies, its inputs and its result."""
    text = "(float16[64,192] a, float16[192,64] b) => (float16[64,64] y) { y = MatMul (a, b) }"
    program = tcopt.compile(_parsed(f"f {text}"), "cuda:sm_80").program
    assert isinstance(program, DeviceProgram) and "cp.async" in program.source
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(size).astype(np.float16) for size in ((64, 192), (192, 64)))
    return program, [a, b], a.astype(np.float32) @ b.astype(np.float32)


def _run_copied(old: str, new: str) -> tuple[CudaMachine, np.ndarray | None]:
    """Run the product with changed PTX; return its result if it has no fault."""
    program, feeds, _ = _copied_product()
    with cuda_machine() as machine:
        changed = DeviceProgram(**{name: getattr(program, name) for name in _FIELDS})
        assert all(re.search(old, source.text) for source in program.sources)
        changed.sources = [
            KernelSource(re.sub(old, new, s.text), s.kernels) for s in program.sources
        ]
        try:
            (result,) = changed.run(feeds)
        except BackendError:
            return machine, None
    return machine, np.asarray(result).reshape(64, 64)


def test_copies_are_complete_after_the_wait() -> None:
    _, result = _run_copied("cp.async.wait_group", "cp.async.wait_group")
    np.testing.assert_allclose(result, _copied_product()[2], rtol=1e-3, atol=0.02)


def test_a_missing_wait_leaves_data_unwritten() -> None:
    machine, result = _run_copied(r"cp\.async\.wait_group\s+\d+;", "")
    assert machine.faults or np.isnan(result).any()


def test_a_wait_for_too_few_groups_leaves_data_unwritten() -> None:
    machine, result = _run_copied(r"cp\.async\.wait_group\s+\d+;", "cp.async.wait_group 9;")
    assert machine.faults or np.isnan(result).any()


def test_a_missing_barrier_after_a_wait_is_a_race() -> None:
    machine, _ = _run_copied(r"bar\.sync\s+0;", "")
    assert machine.faults[0].kind in RACES


HEAD = """.version 7.8
.target sm_80
.address_size 64
.visible .entry k(.param .u64 .ptr .global .align 64 k_param_0)
.reqntid 64, 1, 1
{
.reg .pred %p<9>; .reg .b16 %rs<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
.shared .align 16 .b8 s[256];
ld.param.b64 %rd1, [k_param_0];
mov.u32 %r1, %tid.x;
setp.lt.u32 %p1, %r1, 32;
mul.wide.u32 %rd2, %r1, 4;
add.s64 %rd3, %rd1, %rd2;
mov.b64 %rd4, s;
add.s64 %rd5, %rd4, %rd2;
"""
COPY = "cp.async.ca.shared.global [%rd5], [%rd3], 4;"
FAULTS = {
    "st.global.b32 [%rd3], %r1;": 0,
    "st.shared.b32 [%rd5], %r1; bar.sync 0; ld.shared.b32 %r2, [s+8]; ": 0,
    "st.global.b32 [%rd3+4], %r1;": faults.OUTSIDE,
    "st.global.b32 [%rd3+-4], %r1;": faults.OUTSIDE,
    "st.global.b32 [%rd3+2], %r1;": faults.MISALIGNED,
    "ld.shared.b32 %r2, [%rd5+4];": faults.OUTSIDE_SHARED,
    "ld.shared.v2.b32 {%r2, %r3}, [%rd5];": faults.MISALIGNED,
    "st.shared.b32 [s], %r1;": faults.WRITE_AFTER_WRITE,
    "st.shared.b32 [%rd5], %r1; ld.shared.b32 %r2, [s];": faults.READ_AFTER_WRITE,
    "ld.shared.b32 %r2, [s+252]; st.shared.b32 [%rd5], %r1;": faults.WRITE_AFTER_READ,
    # Elements without a reader do not conflict, unless none of the load has a reader.
    "setp.ne.b32 %p2, %r1, 1; setp.ne.b32 %p3, %r1, 0; @!%p2 st.shared.b32 [s+4], %r1;"
    " @!%p3 ld.shared.v2.b32 {%r2, %r3}, [s]; mov.b32 %r4, %r2; bar.sync 0;": 0,
    "setp.ne.b32 %p2, %r1, 1; setp.ne.b32 %p3, %r1, 0; @!%p2 st.shared.b32 [s+4], %r1;"
    " @!%p3 ld.shared.v2.b32 {%r2, %r3}, [s]; mov.b32 %r4, %r3; bar.sync 0;": (
        faults.WRITE_AFTER_READ
    ),
    # The same of bytes of a word.
    "setp.ne.b32 %p2, %r1, 1; setp.ne.b32 %p3, %r1, 0; @!%p2 st.shared.b8 [s+1], %r1;"
    " @!%p3 ld.shared.b32 %r2, [s]; prmt.b32 %r3, %r2, 0, 0x7772U; bar.sync 0;": 0,
    "setp.ne.b32 %p2, %r1, 1; setp.ne.b32 %p3, %r1, 0; @!%p2 st.shared.b8 [s+1], %r1;"
    " @!%p3 ld.shared.b32 %r2, [s]; bfe.u32 %r3, %r2, 16, 8; bar.sync 0;": 0,
    "setp.ne.b32 %p2, %r1, 1; setp.ne.b32 %p3, %r1, 0; @!%p2 st.shared.b8 [s+1], %r1;"
    " @!%p3 ld.shared.b32 %r2, [s]; mov.b32 {_, %rs1}, %r2; cvt.u32.u16 %r3, %rs1; bar.sync 0;": 0,
    "setp.ne.b32 %p2, %r1, 1; setp.ne.b32 %p3, %r1, 0; @!%p2 st.shared.b8 [s+1], %r1;"
    " @!%p3 ld.shared.b32 %r2, [s]; prmt.b32 %r3, %r2, 0, 0x7771U; bar.sync 0;": (
        faults.WRITE_AFTER_READ
    ),
    # A copy writes when it starts, and again when its group is complete.
    f"{COPY} cp.async.commit_group; cp.async.wait_group 0; bar.sync 0; ld.shared.b32 %r2, [s];": 0,
    f"{COPY} cp.async.wait_all; ld.shared.b32 %r2, [s];": faults.READ_AFTER_WRITE,
    f"{COPY} bar.sync 0; ld.shared.b32 %r2, [s]; cp.async.wait_all;": faults.READ_AFTER_WRITE,
    f"{COPY} bar.sync 0; cp.async.wait_group 0; ld.shared.b32 %r2, [s];": 0,
    f"ld.shared.b32 %r2, [s+252]; {COPY}": faults.WRITE_AFTER_READ,
    "cp.async.ca.shared.global [%rd5], [%rd3+4], 4;": faults.OUTSIDE,
    "cp.async.ca.shared.global [%rd5], [%rd3+4], 4, 0;": 0,
    "cp.async.ca.shared.global [%rd5], [%rd3], 8;": faults.MISALIGNED,
    "cp.async.ca.shared.global [%rd5+4], [%rd3], 4;": faults.OUTSIDE_SHARED,
    "@%p1 bar.sync 0;": faults.BARRIER,
    "@%p1 bra $L; bar.sync 0; bra $M; $L: bar.sync 0; bar.sync 0; $M:": faults.BARRIER,
    "setp.lt.u32 %p2, %r1, 5; @%p2 bra $L; bar.sync 0; ret; $L:\nbar.sync 0;": faults.DIVERGENT,
    "setp.lt.u32 %p2, %r1, 5; @%p2 bra $L; shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1; bar.sync 0; ret;"
    " $L: bar.sync 0;": faults.DIVERGENT,
    "and.b32 %r4, %r1, 1; sub.s32 %r4, %r4, 2; shfl.sync.bfly.b32 %r2, %r1, 1, 31, %r4;": (
        faults.MASKS
    ),
}


def _launch(body: str, *, block: tuple[int, int, int] = (64, 1, 1), count: int = 1) -> np.ndarray:
    memory = np.zeros(256 + 64, np.uint8)
    start = -memory.ctypes.data % 64
    data = memory[start : start + 256].view(np.int32)
    place = data.ctypes.data
    program = PtxProgram(f"{HEAD}{body}\nret;\n}}\n")
    program.launch("k", (1, 1, 1), block, [place] * count, [(place, place + 256)])
    return data


@pytest.mark.parametrize("body", FAULTS)
def test_faults_name_line_and_thread(body: str) -> None:
    if not FAULTS[body]:
        _launch(body)
        return
    with pytest.raises(faults.PtxFaultError, match=r"kernel k, line 16, block .*thread") as caught:
        _launch(body)
    assert (caught.value.kind, caught.value.line) == (FAULTS[body], 16)


SWAPPED = """st.shared.b32 [%rd5], %r1;
@%p1 bra $L;
{}
ld.shared.b32 %r2, [%rd5+-128];
bra $M;
$L:
{}
ld.shared.b32 %r2, [%rd5+128];
$M:
st.global.b32 [%rd3], %r2;"""


@pytest.mark.parametrize("barrier", ["bar.sync 0;", "barrier.sync.aligned 0;", "barrier.sync 0;"])
def test_warps_wait_at_different_lines(barrier: str) -> None:
    """Each thread reads the word of one in the other warp."""
    found = _launch(SWAPPED.format(barrier, barrier))
    assert found.tolist() == [*range(32, 64), *range(32)]


def test_lanes_wait_at_different_lines_of_barriers_that_are_not_aligned() -> None:
    body = "setp.lt.u32 %p1, %r1, 5;\nst.shared.b32 [%rd5], %r1;\n@%p1 bra $L;\nbarrier.sync 0;\n"
    body += "bra $M;\n$L:\nbarrier.sync 0;\n$M:\nld.shared.b32 %r2, [s+252];\n"
    assert set(_launch(f"{body}st.global.b32 [%rd3], %r2;").tolist()) == {63}


def test_launches_are_checked() -> None:
    with pytest.raises(InputError, match="reqntid"):
        _launch("", block=(32, 1, 1))
    with pytest.raises(InputError, match="parameters"):
        _launch("", count=2)
    with pytest.raises(UnsupportedError, match=r"bar\.sync.*kernel k, line 16"):
        _launch("bar.sync 1;")
    with pytest.raises(UnsupportedError, match=r"wgmma.*kernel k, line 16"):
        _launch("wgmma.fence.sync.aligned;")


def test_grids_beyond_the_limit_are_folded() -> None:
    """65,535 blocks are the most along y and z."""
    model = _parsed(
        "g (float[70000,2,4] a, float[70000,4,2] b) => (float[70000,2,2] y) { y = MatMul(a, b) }"
    )
    a, b = random_inputs(model, 0).values()
    with cuda_machine((8, 0)):
        (y,) = tcopt.compile(model, "cuda:sm_80").run({"a": a, "b": b})
    np.testing.assert_allclose(y, a @ b, rtol=1e-4, atol=1e-5)
