"""A named CPU lists LLVM's instruction sets for that name, which a machine must have."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from tcopt.targets.cpu import MACHINES

CLANG = "clang-19"
# Features used by default, and clang's names for them.
X86 = re.compile(r"#define __(AVX\w*|FMA|F16C|BMI2?|LZCNT|POPCNT|MOVBE|GFNI)__ 1")
ARM = {
    "__ARM_FEATURE_DOTPROD": "dotprod",
    "__ARM_FEATURE_MATMUL_INT8": "i8mm",
    "__ARM_FEATURE_BF16": "bf16",
    "__ARM_FEATURE_FP16_VECTOR_ARITHMETIC": "fullfp16",
    "__ARM_FEATURE_SVE": "sve",
    "__ARM_FEATURE_SVE2": "sve2",
}
# Implied by avx2, or used only on request.
LEFT_OUT = {"avx", "avx512vp2intersect"}


@pytest.mark.skipif(shutil.which(CLANG) is None, reason=f"{CLANG} is not installed")
@pytest.mark.parametrize("name", MACHINES)
def test_all_instructions_of_the_name_are_listed(name: str) -> None:
    target = MACHINES[name]
    x86 = target.machine == "x86_64"
    command = [CLANG, f"--target={target.triple}", f"{'-march' if x86 else '-mcpu'}={target.cpu}"]
    command += ["-dM", "-E", "-x", "c", "/dev/null"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if x86:
        has = {each.lower() for each in X86.findall(said)} - LEFT_OUT
    else:
        has = {feature for macro, feature in ARM.items() if f"#define {macro} 1" in said}
    assert has <= target.capabilities, has - target.capabilities
