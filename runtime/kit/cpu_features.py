"""Bits by which CPUs report the features that code needs, for the choice of code at run time.

x86: leaf, subleaf, register (EAX, EBX, ECX, EDX are 0 to 3) and bit of CPUID, as in Intel's
Architecture Instruction Set Extensions Programming Reference and in AMD's Architecture
Programmer's Manual, volume 3, appendix E. Arm: type and bit of the auxiliary vector, as in Linux'
`asm/hwcap.h`. Names are LLVM's.
"""

from __future__ import annotations

from typing import NamedTuple

from tcopt.support.errors import UnsupportedError
from tcopt.support.machines.cpu_target import CpuTarget


class Bit(NamedTuple):
    """A bit that a CPU reports for a feature."""

    name: str
    leaf: int
    subleaf: int
    part: int
    bit: int


_EBX, _ECX, _EDX = 1, 2, 3
_XCR0 = 0xFFFFFFFF
"""Leaf of registers that the operating system saves; see `c/cpu.c`."""

_X86_PARTS: dict[tuple[int, int, int], dict[str, int]] = {
    (1, 0, _EDX): {"cmov": 15, "mmx": 23, "sse": 25, "sse2": 26},
    (1, 0, _ECX): {
        "sse3": 0, "ssse3": 9, "fma": 12, "cx16": 13, "sse4.1": 19, "sse4.2": 20, "movbe": 22,
        "popcnt": 23, "avx": 28, "f16c": 29,
    },
    (7, 0, _EBX): {
        "bmi": 3, "avx2": 5, "bmi2": 8, "avx512f": 16, "avx512dq": 17,
        "avx512ifma": 21, "avx512cd": 28, "avx512bw": 30, "avx512vl": 31,
    },
    (7, 0, _ECX): {
        "avx512vbmi": 1, "avx512vbmi2": 6, "gfni": 8, "avx512vnni": 11, "avx512bitalg": 12,
        "avx512vpopcntdq": 14,
    },
    (7, 0, _EDX): {
        "avx512vp2intersect": 8, "amx-bf16": 22, "avx512fp16": 23, "amx-tile": 24, "amx-int8": 25,
    },
    (7, 1, 0): {"avxvnni": 4, "avx512bf16": 5, "amx-fp16": 21, "avxifma": 23},
    (7, 1, _EDX): {"avxvnniint8": 4, "avxneconvert": 5, "amx-complex": 8, "avxvnniint16": 10},
    (0x80000001, 0, _ECX): {"sahf": 0, "lzcnt": 5, "sse4a": 6, "xop": 11, "fma4": 16, "tbm": 21},
    (0x80000001, 0, _EDX): {"64bit": 29},
}  # fmt: skip

_ARM_PARTS: dict[tuple[int, int, int], dict[str, int]] = {
    (16, 0, 0): {
        "fp-armv8": 0, "neon": 1, "aes": 3, "sha2": 6, "crc": 7, "lse": 8, "fullfp16": 10,
        "rdm": 12, "dotprod": 20, "sve": 22, "fp16fml": 23,
    },
    (26, 0, 0): {"sve2": 1, "i8mm": 13, "bf16": 14},
}  # fmt: skip

_NOT_GENERATED = {
    "adx", "aes", "clflushopt", "clwb", "clzero", "cldemote", "cmpccxadd", "crc32", "cx8",
    "enqcmd", "fsgsbase", "fxsr", "hreset", "invpcid", "kl", "lwp", "movdir64b", "movdiri",
    "mwaitx", "pclmul", "pconfig", "pku", "prefetchi", "prfchw", "ptwrite", "raoint", "rdpid",
    "rdpru", "rdrnd", "rdseed", "rtm", "serialize", "sgx", "sha", "sha512", "shstk", "sm3",
    "sm4", "tsxldtrk", "uintr", "usermsr", "vaes", "vpclmulqdq", "waitpkg", "wbnoinvd",
    "widekl", "xsave", "xsavec", "xsaveopt", "xsaves",
}  # fmt: skip
"""x86 features whose instructions are generated only for intrinsics that no code here uses."""

_SAVED = {"avx": (1, 2), "avx512": (5, 6, 7), "amx": (17, 18)}
"""Bits of XCR0 for the registers of features with these prefixes."""


def required_bits(target: CpuTarget) -> list[Bit]:
    """Return the bits that a CPU must report to run code for a target; [] for other architectures.

    Raises:
        UnsupportedError: the target has a feature of which no bit is known.
    """
    features = [name[1:] for name in target.features.split(",") if name.startswith("+")]
    if target.machine == "x86_64":
        known = _bits(_X86_PARTS)
        wanted = [name for name in features if name not in _NOT_GENERATED]
        saved = {
            bit: prefix
            for prefix, bits in _SAVED.items()
            if any(name.startswith(prefix) for name in wanted)
            for bit in bits
        }
        system = [Bit(f"{name} registers", _XCR0, 0, 0, bit) for bit, name in sorted(saved.items())]
    elif target.machine == "aarch64":
        known, wanted, system = _bits(_ARM_PARTS), features, []
    else:
        return []
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise UnsupportedError(
            f"a library cannot find out whether a CPU has {unknown[0]}",
            hint="compile the model for a named CPU, as in target='cpu:haswell'",
        )
    # Sorted, so that each leaf is read once.
    return sorted((*(known[name] for name in wanted), *system), key=lambda bit: bit[1:])


def _bits(parts: dict[tuple[int, int, int], dict[str, int]]) -> dict[str, Bit]:
    return {
        name: Bit(name, *place, bit) for place, bits in parts.items() for name, bit in bits.items()
    }
