"""Writes one kernel as LLVM IR for NVPTX: what differs from a function for a CPU.

Pointers say in which memory they point (`ptr addrspace(1)`), and index values have 32 bits
where all buffers of the kernel are small enough, since a GPU computes 64 bits in two steps and
divides them slowly.
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.hints import isa

from tcopt.backends.llvm.emit.emitter import Buffer, FunctionEmitter, ModuleState
from tcopt.backends.llvm.emit.linear import ZERO
from tcopt.backends.llvm.emit.types import I32, I64, LlvmType, pointer_in
from tcopt.backends.llvm.ops.memref import memref_bytes
from tcopt.backends.ptx.registry import ptx_rules
from tcopt.backends.strides import static_strides
from tcopt.dialects.target import GpuTargetAttr

Sizes = tuple[int, int, int]

GLOBAL, SHARED = 1, 3
"""LLVM's address spaces of a device's memory and of that of a block. A thread's own is reached
by generic pointers, which the code generator finds to be local."""

LIBRARY_PREFIX = "__nv_"

LARGEST_NARROW = 1 << 30
"""Bytes of the largest buffer whose offsets, and those a tile behind its end, fit 32 bits."""


ROLLED = "!llvm.loop !3"
"""Marks loops that ptxas is to leave as they are."""


class KernelEmitter(FunctionEmitter):
    """The state of writing one kernel; rules receive it."""

    no_rule = "this op has no form in PTX"
    converts_to_nearest: ClassVar[bool] = False

    def __init__(
        self, module: ModuleState, name: str, target: GpuTargetAttr, grid: Sizes, block: Sizes
    ):
        super().__init__(module, name)
        self.target = target
        self.grid = grid
        """Blocks along x, y and z."""
        self.threads = block
        """Threads of a block along x, y and z."""
        self._rules = ptx_rules()
        self._spaces: dict[str, int] = {}

    def choose_index(self, types: list[MemRefType[Attribute]]) -> None:
        """Let index values be as wide as buffers of these types need."""
        largest = max((memref_bytes(type) for type in types), default=0)
        self.index_type = I32 if largest <= LARGEST_NARROW else I64

    def pointer_type(self, pointer: str) -> LlvmType:
        return pointer_in(self._spaces.get(pointer, 0))

    def bind_buffer(self, value: SSAValue, root: str, space: int, alignment: int) -> None:
        """Bind a memref whose first element lies at a pointer into some memory."""
        type = value.type
        assert isa(type, MemRefType)
        self._spaces[root] = space
        strides = static_strides(type)
        buffer = Buffer(root, ZERO, strides, type.element_type, alignment, is_local=True)
        self.define_buffer(value, buffer)

    def library_name(self, function: str) -> str:
        """The name in NVIDIA's libdevice, which has the C library's functions."""
        return f"{LIBRARY_PREFIX}{function}"

    def alloca(self, type: str, alignment: int, count: int = 1) -> str:
        """A variable of the thread; as one array the code generator may split it."""
        return super().alloca(f"[{count} x {type}]", alignment)

    def assign_opaque(self, expression: str) -> str:
        """An index: quotients need not be hidden, the code generator shares what they address."""
        return self.assign(expression)

    def _advance(self, pointer: str, offset: str, depth: int) -> str:
        advanced = super()._advance(pointer, offset, depth)
        if pointer in self._spaces:
            self._spaces[advanced] = self._spaces[pointer]
        return advanced
