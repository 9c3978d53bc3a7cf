"""Emission of one kernel as LLVM IR for NVPTX, where it differs from a CPU function.

Pointers have address spaces (`ptr addrspace(1)`), and index values have 32 bits if all buffers of
the kernel are small enough, because a GPU takes two instructions for 64-bit arithmetic and divides
64-bit integers slowly.
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.hints import isa

from tcopt.backends.llvm.emit.emitter import EmittedBuffer, FunctionEmitter, ModuleState
from tcopt.backends.llvm.emit.linear import ZERO
from tcopt.backends.llvm.emit.types import I32, I64, LlvmType, pointer_in
from tcopt.backends.llvm.ops.memref import memref_bytes
from tcopt.backends.ptx.registry import ptx_rules
from tcopt.backends.strides import known_strides
from tcopt.dialects.target import GpuTargetAttr

Sizes = tuple[int, int, int]

GLOBAL, SHARED = 1, 3
"""LLVM's address spaces of global and of block-shared memory. Thread-private memory is accessed
through generic pointers, which the code generator infers to be local."""

LIBRARY_PREFIX = "__nv_"

LARGEST_NARROW = 1 << 30
"""Maximum size of a buffer in bytes whose offsets, even one tile past its end, fit in 32 bits."""


AMPERE = 80
"""Compute capability, times 10, from which devices round to bf16 and keep NaN in a maximum."""

ROLLED = "!llvm.loop !3"
"""Metadata of loops that ptxas must not unroll."""


class KernelEmitter(FunctionEmitter):
    """State of the emission of one kernel; passed to the rules."""

    no_rule = "this op has no form in PTX"
    converts_to_nearest: ClassVar[bool] = False

    def __init__(
        self, module: ModuleState, name: str, target: GpuTargetAttr, grid: Sizes, block: Sizes
    ):
        super().__init__(module, name)
        self.target = target
        arch = target.arch.data.removeprefix("sm_")
        self.is_ampere = arch.isdecimal() and int(arch) >= AMPERE
        """Whether the device has the instructions of compute capability 8.0."""
        self.rounds_to_bf16 = self.is_ampere
        self.grid = grid
        """The number of blocks along x, y and z."""
        self.threads = block
        """The number of threads of a block along x, y and z."""
        self.dynamic = ""
        """The symbol of the block's dynamic shared memory; empty if shared buffers are static."""
        self.dynamic_end = 0
        """The bytes of dynamic shared memory that are allocated to buffers."""
        self._rules = ptx_rules()
        self._spaces: dict[str, int] = {}

    def choose_index(self, types: list[MemRefType[Attribute]]) -> None:
        """Choose the width of index values by the largest buffer type."""
        largest = max((memref_bytes(type) for type in types), default=0)
        self.index_type = I32 if largest <= LARGEST_NARROW else I64

    def pointer_type(self, pointer: str) -> LlvmType:
        return pointer_in(self._spaces.get(pointer, 0))

    def set_space(self, pointer: str, space: int) -> None:
        """Record the address space of a pointer that a rule has made."""
        self._spaces[pointer] = space

    def bind_buffer(self, value: SSAValue, root: str, space: int, alignment: int) -> None:
        """Bind a memref whose first element is at a pointer in an address space."""
        type = value.type
        assert isa(type, MemRefType)
        self._spaces[root] = space
        strides = known_strides(type)
        buffer = EmittedBuffer(root, ZERO, strides, type.element_type, alignment, is_local=True)
        self.define_buffer(value, buffer)

    def library_name(self, function: str) -> str:
        """Return the name in NVIDIA's libdevice, which provides the C library's functions."""
        return f"{LIBRARY_PREFIX}{function}"

    def alloca(self, type: str, alignment: int, count: int = 1) -> str:
        """Allocate a thread-private variable; as a single array the code generator may split it."""
        return super().alloca(f"[{count} x {type}]", alignment)

    def assign_opaque(self, expression: str) -> str:
        """Emit an index; quotients need not be opaque, as the code generator shares addresses."""
        return self.assign(expression)

    def _advance(self, pointer: str, offset: str, depth: int) -> str:
        advanced = super()._advance(pointer, offset, depth)
        if pointer in self._spaces:
            self._spaces[advanced] = self._spaces[pointer]
        return advanced
