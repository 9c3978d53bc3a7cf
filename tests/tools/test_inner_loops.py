"""benchmarks/inner_loops.py: the loops it extracts from assembly, and its report."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def _load(name: str) -> ModuleType:
    """Load a file of the benchmarks, whose folder shares module names with the tests."""
    spec = importlib.util.spec_from_file_location(f"benchmarks_{name}", BENCHMARKS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


assembly = _load("assembly")

X86 = """
tcopt.f.body0:
	.cfi_startproc
	vxorps	%xmm0, %xmm0, %xmm0
.LBB0_1:                                # =>This Loop Header
	movq	%rdi, %rax
.LBB0_2:
	vbroadcastss	(%rax), %ymm2           # comment
	vfmadd231ps	(%rsi), %ymm2, %ymm0
	vfmadd231ps	32(%rsi), %ymm2, %ymm1
	cmpq	$8, %rax
	jl	.LBB0_2
	incq	%rdi
	jne	.LBB0_1
.LBB0_3:
	vfmadd231ps	(%rsi), %ymm2, %ymm0
	decq	%rdi
	jne	.LBB0_3
	retq
tcopt.g:
	vfmadd231ps	(%rsi), %ymm2, %ymm0
	retq
"""

ARM = """
tcopt.f:
	mov	x8, #16
.LBB0_1:
	ldp	q0, q1, [x1], #32
	fmla	v2.4s, v0.4s, v3.s[1]
	fmla	v4.4s, v1.4s, v3.s[1]
	subs	x8, x8, #1
	b.ne	.LBB0_1
	ret
"""


def test_the_innermost_loop_with_the_most_products_stands_for_a_kernel():
    assert [len(each.products) for each in assembly.innermost_loops(X86)] == [2, 1]
    found = assembly.hottest_loops(X86)
    assert list(found) == ["tcopt.f"]
    assert found["tcopt.f"].lines == (
        "vbroadcastss\t(%rax), %ymm2",
        "vfmadd231ps\t(%rsi), %ymm2, %ymm0",
        "vfmadd231ps\t32(%rsi), %ymm2, %ymm1",
        "cmpq\t$8, %rax",
    )
    assert found["tcopt.f"].product_bits == 512


ROTATED = """
tcopt.f:
.LBB0_1:
	vmovaps	%ymm0, (%rdx)
	vxorps	%xmm0, %xmm0, %xmm0
.LBB0_2:
	vfmadd231ps	(%rsi), %ymm2, %ymm0
	cmpq	$8, %rax
	jge	.LBB0_1
	vfmadd231ps	32(%rsi), %ymm2, %ymm0
	jmp	.LBB0_2
.LBB0_3:
	vmovups	(%rsi), %ymm3
	vfmadd231ps	%ymm1, %ymm2, %ymm3
	vfmadd231ps	%ymm1, %ymm2, %ymm3
	vfmadd231ps	%ymm1, %ymm2, %ymm3
	jne	.LBB0_3
	retq
"""


def test_a_loop_may_end_with_a_jump_behind_the_way_out_of_it():
    first, second = assembly.innermost_loops(ROTATED)
    assert len(first.lines) == 3
    assert first.carried_bits == 512
    # Sums that start and end within an iteration are not a reduction, whatever their number.
    assert second.carried_bits == 0
    assert assembly.hottest_loops(ROTATED)["tcopt.f"] == first


def test_immediate_operands_of_arm_are_no_comments():
    (loop,) = assembly.innermost_loops(ARM)
    assert loop.lines[0] == "ldp\tq0, q1, [x1], #32"
    assert loop.lines[-1] == "subs\tx8, x8, #1"
    assert loop.product_bits == 256


@pytest.mark.parametrize(
    ("line", "first"),
    [
        ("vfmadd231ps\t(%rax){1to16}, %zmm3, %zmm9", "vfmadd231ps %zmm31, %zmm30, %zmm0"),
        ("fmla\tv2.4s, v0.4s, v3.s[1]", "fmla v0.4s, v30.4s, v31.4s"),
        ("sdot\tv2.4s, v0.16b, v3.4b[1]", "sdot v0.4s, v30.16b, v31.16b"),
    ],
)
def test_a_peak_is_products_that_do_not_wait_for_each_other(line: str, first: str):
    lines = assembly.independent_products(line, 32)
    assert lines[0] == first
    assert len(set(lines)) == 30
    assert {assembly.vector_bits(each) for each in lines} == {assembly.vector_bits(line)}


def run(*arguments: str, path: str = os.environ["PATH"]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCHMARKS / "inner_loops.py"), *arguments]
    environment = {**os.environ, "PATH": path}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@pytest.mark.nightly
def test_without_llvm_mca_one_line_says_so():
    done = run(path="")
    assert done.returncode == 1
    assert "llvm-mca is not installed" in done.stderr
    assert "apt-get install llvm-19" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.nightly
@pytest.mark.skipif(shutil.which("llvm-mca-19") is None, reason="llvm-mca-19 is not installed")
def test_loops_of_two_targets_are_compared(tmp_path: Path):
    output = tmp_path / "loops.json"
    targets = ("haswell", "neoverse-v1")
    done = run("--only", "conv", "--filter", "C5$", "--targets", *targets, "--json", str(output))
    assert done.returncode == 0, done.stderr
    rows = json.loads(output.read_text())
    assert [row["target"] for row in rows] == list(targets)
    for row in rows:
        assert row["choice"].startswith("cpu-")
        assert row["products"] >= 8
        assert 0.5 < row["share"] <= 1.02
        assert 0 < row["loads_each"] <= 1.5
        # Row broadcasts and vectors, for 64 terms each.
        assert len(row["tile_bytes"]) == 2
        assert row["level"] == 1
    assert "of peak" in done.stdout
