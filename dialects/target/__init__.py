"""target: facts about the hardware that code is generated for.

A module names its target in the attribute `tcopt.target`:
```mlir
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu",
  cpu = "skylake-avx512", features = "+avx512f,+fma", vector_bits = 512, registers = 32,
  l1 = 32768, l2 = 1048576, l3 = 34603008, cores = 2>} { ... }
```
Passes and schedule rules depend on these facts, never on a target's name.
"""

from xdsl.ir import Dialect

from tcopt.dialects.target.accelerator import AcceleratorFacts
from tcopt.dialects.target.cpu import CpuTargetAttr, cpu_target_of
from tcopt.dialects.target.facts import ACCELERATOR_ATTRIBUTE, TARGET_ATTRIBUTE
from tcopt.dialects.target.gpu import GpuTargetAttr, gpu_target_of
from tcopt.dialects.target.interface import (
    TargetFacts,
    accelerator_of,
    target_around,
    target_facts_of,
    thread_blocks_of,
)
from tcopt.dialects.target.vdla import VdlaTargetAttr, vdla_target_of
from tcopt.support.machines.machine import VectorUnits
from tcopt.support.machines.thread_blocks import ThreadBlocks

__all__ = [
    "ACCELERATOR_ATTRIBUTE",
    "DIALECT",
    "TARGET_ATTRIBUTE",
    "AcceleratorFacts",
    "CpuTargetAttr",
    "GpuTargetAttr",
    "TargetFacts",
    "ThreadBlocks",
    "VdlaTargetAttr",
    "VectorUnits",
    "accelerator_of",
    "cpu_target_of",
    "gpu_target_of",
    "target_around",
    "target_facts_of",
    "thread_blocks_of",
    "vdla_target_of",
]

DIALECT = Dialect("target", [], [CpuTargetAttr, GpuTargetAttr, VdlaTargetAttr])
