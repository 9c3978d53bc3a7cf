"""What GPU rules leave open: whatever is chosen, results are right, and PTX assembles."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from onnx import ModelProto

from checks.space_checks import assert_formulas_agree
from machines.cuda_machine import cuda_machine
from machines.opencl_device import needs_device
from models.network import Network
from tcopt.backends.ptx.cuda_files import find_ptxas
from tcopt.backends.ptx.ptxas import assemble
from tcopt.compiler.options import CompileOptions
from tcopt.runtime.device.cuda import cuda_device
from tcopt.schedules.analysis.patterns import BlockPattern
from tcopt.schedules.rules.gpu.generic_space import GpuGenericSpace
from tcopt.schedules.spaces.space import Choice, Point, Space
from tcopt.tuner.arms import arms_of
from tcopt.tuner.candidates import Candidate
from tcopt.tuner.measure.building import build
from tcopt.tuner.measure.closeness import output_error
from tcopt.tuner.measure.launched_memory import LaunchedMemory
from tcopt.tuner.measure.measurer import LocalMeasurer, MeasureSettings, workload_of
from tcopt.tuner.measure.outcomes import OK, CandidateFailed
from tcopt.tuner.measure.reference import reference_of
from tcopt.tuner.measure.runner import RunLimits
from tcopt.tuner.measure.turns import TurnSettings
from tcopt.tuner.measure.workload import Code, Workload
from tcopt.tuner.search.moves import draw_valid
from tcopt.tuner.search.proposer import Arm
from tcopt.tuner.tasks import Task, tasks_of

RULE = "gpu-generic"

_HEAD = '<ir_version: 10, opset_import: ["" : 21]>'
CASES = {
    "convolution": """(float[1, 3, 6, 8] x, float[8, 3, 3, 3] w, float[8] b)
        => (float[1, 8, 6, 8] y) { c = Conv<pads = [1, 1, 1, 1]> (x, w, b) y = Relu (c) }""",
    "product": """(float[3, 17, 24] x, float[3, 24, 20] w, float[20] b)
        => (float[3, 17, 20] y) { p = MatMul (x, w) q = Add (p, b) y = Gelu (q) }""",
    "softmax": "(float[24, 70] x) => (float[24, 70] y) { y = Softmax<axis = -1> (x) }",
    "pool": """(float[2, 3, 9, 12] x) => (float[2, 3, 4, 6] y) {
        y = MaxPool<kernel_shape = [3, 3], strides = [2, 2], pads = [0, 0, 0, 1]> (x) }""",
    "transpose": """(float[24, 7, 32] x) => (float[32, 24, 7] y) {
        y = Transpose<perm = [2, 0, 1]> (x) }""",
    "half": """(float16[128, 512] x, float16[512, 96] w) => (float16[128, 96] y) {
        y = MatMul (x, w) }""",
    "add": """(float[24, 72] x, float[72] w) => (float[24, 72] y) {
        p = Add (x, w) y = Tanh (p) }""",
    "bhalf": """(bfloat16[3, 50, 45] x, bfloat16[3, 45, 37] w) => (bfloat16[3, 50, 37] y) {
        y = MatMul (x, w) }""",
    "bytes": """(int8[24, 64] x, int8[64, 40] w) => (int32[24, 40] y) {
        y = MatMulInteger (x, w) }""",
    "depthwise": """(float[1, 6, 9, 16] x, float[6, 1, 3, 3] w) => (float[1, 6, 9, 16] y) {
        y = Conv<pads = [1, 1, 1, 1], group = 6> (x, w) }""",
    "vector": """(float[1, 512] x, float[512, 40] w) => (float[1, 40] y) { y = MatMul (x, w) }""",
    "sum": """(float[5, 200, 8] x) => (float[5, 8] y) {
        a = Constant<value_ints = [1]> () s = ReduceSum<keepdims = 0> (x, a) y = Abs (s) }""",
}
OPEN = (
    ("half", "gpu-tensor-core-tile"),
    ("add", "gpu-injective"),
    ("transpose", "gpu-injective"),
    ("sum", "gpu-launches"),
    ("softmax", "gpu-reduction"),
    ("pool", "gpu-reduction"),
    ("winograd", "gpu-winograd"),
)
"""Cases with rules of their own that leave something open."""

SETTINGS = MeasureSettings(
    threads=2, builders=1, limits=RunLimits(least=60.0), turns=TurnSettings(1, 1, noise=1e9)
)


def winograd() -> ModelProto:
    """A convolution that is worth transforming."""
    net = Network("winograd", seed=0)
    y = net.conv(net.input("x", [1, 64, 56, 56]), 64, 64)
    return net.model(**{net.add("Relu", y): [1, 64, 56, 56]})


def task_of(case: str, target: str) -> Task:
    if case == "winograd":
        return max(tasks_of(winograd(), CompileOptions(target=target)), key=lambda task: task.work)
    model = onnx.parser.parse_model(f"{_HEAD} {case} {CASES[case]}")
    return max(tasks_of(model, CompileOptions(target=target)), key=lambda task: task.work)


def template_of(task: Task, rule: str = RULE) -> Arm:
    return next(arm for arm in arms_of(task) if arm.rule == rule)


def pattern_of(space: Space) -> BlockPattern:
    """What the loops of a space's nest are of."""
    known = vars(vars(space).get("products", space))
    return known.get("pattern") or next(iter(known["blocks"].values()))


def choices_of(arm: Arm, count: int) -> list[Choice]:
    """The default and some at random."""
    points = draw_valid(arm.space, count, np.random.default_rng(3))
    return [arm.space.default(), *map(arm.space.choice, points)]


@pytest.mark.nightly
@needs_device
@pytest.mark.parametrize(
    ("case", "rule"), [("convolution", RULE), ("product", RULE), ("softmax", RULE), *OPEN[2:]]
)
def test_no_choice_changes_a_result(case: str, rule: str) -> None:
    """Run between guards, beside the tensor expression."""
    task = task_of(case, "opencl")
    choices = choices_of(template_of(task, rule), 1 if case == "winograd" else 2)
    candidates = [Candidate(task, rule, choice) for choice in choices]
    with LocalMeasurer(SETTINGS) as measurer:
        outcomes = measurer.measure(candidates)
    for candidate, outcome in zip(candidates, outcomes, strict=True):
        assert outcome.status == OK, (candidate.choice, outcome.error)


def check_executed(workload: Workload, code: Code, arch: str) -> None:
    """Execute PTX between guards, and compare with the tensor expression."""
    with cuda_machine((int(arch[3]), int(arch[4]))):
        memory = LaunchedMemory(cuda_device(), workload)
        kernel = memory.load(code)
        memory.fill(0)
        kernel.poison()
        kernel.call(1)
        assert memory.damage() is kernel.damage() is None
        for ours, theirs in zip(memory.outputs(), workload.expected[0], strict=True):
            assert not output_error(ours, theirs, workload, 0.0).text


@pytest.mark.nightly(daily=["gpu-unfused-pool", "gpu-fallback-sum"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("rule", ["gpu-fallback", "gpu-unfused"])
def test_last_resorts_are_right(case: str, rule: str) -> None:
    task = task_of(case, "cuda:sm_80")
    workload = workload_of(task, reference_of(task.text, task.arguments))
    check_executed(workload, build(task.text, task.phases, rule), "sm_80")


@pytest.mark.nightly(daily=["sm_75-transpose", "sm_80-pool", "sm_90-vector"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90"])
def test_no_choice_changes_a_result_of_executed_ptx(case: str, arch: str) -> None:
    """All rules that take an operator, between guards; conflicts of threads are faults."""
    task = task_of(case, f"cuda:{arch}")
    workload = workload_of(task, reference_of(task.text, task.arguments))
    ran = set[str]()
    for arm in arms_of(task):
        for choice in choices_of(arm, 2):
            try:
                code = build(task.text, task.phases, arm.rule, choice)
            except CandidateFailed:
                continue  # Some choices are found to be illegal when they are applied.
            check_executed(workload, code, arch)
            ran.add(arm.rule)
    assert RULE in ran and len(ran) == len(arms_of(task))


@pytest.mark.nightly
@pytest.mark.skipif(find_ptxas() is None, reason="no ptxas; pip install nvidia-cuda-nvcc-cu12")
@pytest.mark.parametrize("case", CASES)
def test_ptx_of_any_choice_assembles(case: str) -> None:
    """With no more shared memory than the formula says."""
    task = task_of(case, "cuda:sm_80")
    arm = template_of(task)
    for choice in choices_of(arm, 3):
        code = build(task.text, task.phases, RULE, choice)
        _, resources = assemble(bytes(code.data).decode(), "sm_80")
        assert code.rule == RULE and resources
        space = arm.space
        assert isinstance(space, GpuGenericSpace)
        if space.reads and case != "softmax":
            shared = space.shared_bytes(Point(dict(choice)))
            assert max(each.shared for each in resources) <= shared


def test_a_template_is_searched_and_writes_no_default() -> None:
    arms = arms_of(task_of("product", "opencl"))
    assert arms[0].rule != RULE and arms[-1].rule == RULE
    assert arms[-1].space.size > 1e9


@pytest.mark.parametrize("rule", ["gpu-shared-tile", "gpu-tensor-core-tile"])
def test_a_space_keeps_its_blocks(rule: str) -> None:
    """The default, which divides sums or pads the matrices, was applied to others."""
    case = "half" if rule == "gpu-shared-tile" else "bhalf"
    space = template_of(task_of(case, "cuda:sm_80"), rule).space
    pattern = pattern_of(space)
    assert all(len(term.steps) == len(pattern.extents) for term in pattern.terms)
    assert pattern.extents == {"half": (128, 96, 512), "bhalf": (3, 50, 37, 45)}[case]


@pytest.mark.nightly(daily=["half-gpu-tensor-core-tile", "product-gpu-generic"])
@pytest.mark.parametrize(("case", "rule"), [*((case, RULE) for case in CASES), *OPEN])
def test_formulas_give_for_columns_what_they_give_for_numbers(case: str, rule: str) -> None:
    space = template_of(task_of(case, "cuda:sm_80"), rule).space
    assert_formulas_agree(space, rtol=1e-12)


@pytest.mark.nightly(daily=["add-gpu-injective"])
@pytest.mark.parametrize(("case", "rule"), OPEN)
def test_a_default_is_what_a_rule_does_unasked(case: str, rule: str) -> None:
    task = task_of(case, "cuda:sm_80")
    arm = template_of(task, rule)
    space = arm.space
    assert space.is_valid(space.default()) and space.size > 1
    assert space.from_words(space.words(space.default())) == space.default()
    chosen = build(task.text, task.phases, rule, space.default())
    unasked = build(task.text, task.phases, rule)
    assert chosen.data == unasked.data
    others = {build(task.text, task.phases, rule, choice).digest for choice in choices_of(arm, 6)}
    assert len(others) > 1


@pytest.mark.nightly(daily=["softmax-gpu-reduction", "sum-gpu-launches", "product-gpu-generic"])
@pytest.mark.parametrize(("case", "rule"), OPEN)
def test_loops_of_a_nest_cover_each_variable(case: str, rule: str) -> None:
    """Whatever is chosen, the product of a variable's loops is at least its extent."""
    space = template_of(task_of(case, "cuda:sm_80"), rule).space
    pattern = pattern_of(space)
    for point in draw_valid(space, 20, np.random.default_rng(0)):
        reach = dict.fromkeys(range(len(pattern.extents)), 1)
        for level in space.nest(Point(space.choice(point))):
            reach[level.variable] *= level.extent
        assert all(reach[v] >= extent for v, extent in enumerate(pattern.extents)), reach


@pytest.mark.nightly
@pytest.mark.skipif(find_ptxas() is None, reason="no ptxas; pip install nvidia-cuda-nvcc-cu12")
def test_ptx_of_tiles_of_matrices_assembles() -> None:
    task = task_of("half", "cuda:sm_80")
    for choice in choices_of(template_of(task, "gpu-tensor-core-tile"), 6):
        code = build(task.text, task.phases, "gpu-tensor-core-tile", choice)
        ptx, most = bytes(code.data).decode(), 48 << 10
        assert "mma.sync" in ptx
        assert all(each.shared <= most for each in assemble(ptx, "sm_80")[1])
