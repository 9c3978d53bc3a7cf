"""Compilation of PTX modules for the CPU, and launches of their kernels on host memory."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import llvmlite.binding as llvm
import numpy as np

from tcopt.interpreters.ptx.checks import CHECKS, DECLARATIONS
from tcopt.interpreters.ptx.copies import COPY_DECLARATIONS, COPY_FUNCTIONS
from tcopt.interpreters.ptx.faults import FAULTS, PtxFaultError
from tcopt.interpreters.ptx.functions import inline_functions
from tcopt.interpreters.ptx.kernel_writer import PtxKernelWriter
from tcopt.interpreters.ptx.layout import COPIES, AsyncCopy, PtxBlock, Thread
from tcopt.interpreters.ptx.scheduler import SCHEDULER
from tcopt.interpreters.ptx.text import (
    PtxInstruction,
    PtxKernel,
    PtxModule,
    PtxVariable,
    parse_ptx,
)
from tcopt.support.errors import BackendError, InputError
from tcopt.support.machines.alignment import ALIGNMENT
from tcopt.support.machines.grids import LARGEST_GRID

Sizes = tuple[int, int, int]
Range = tuple[int, int]
"""Half-open address range: the first address, and the end."""

_LARGEST_BLOCK = (1024, 1024, 64)
_MOST_THREADS = 1024
_GAP = 128
"""Bytes between shared variables, so that an access past the end of one is detected."""

_KERNEL = "ptx.run_block"


@dataclass(frozen=True)
class SharedPlan:
    """Layout of a kernel's shared variables.

    Attributes:
        offsets: byte offsets by name.
        ranges: start and end of each variable; the size is rounded up to whole words.
        size: total size in bytes, including gaps; dynamic memory follows.
    """

    offsets: dict[str, int]
    ranges: list[Range]
    size: int

    @classmethod
    def of(cls, variables: Sequence[PtxVariable]) -> SharedPlan:
        offsets: dict[str, int] = {}
        ranges: list[Range] = []
        end = 0
        # Arrays without a size all start at the dynamic memory, after the others.
        dynamic = [each for each in variables if not each.size]
        for variable in variables:
            if not variable.size:
                continue
            alignment = max(variable.alignment, 16)
            start = -(-end // alignment) * alignment
            offsets[variable.name] = start
            ranges.append((start, start + -(-variable.size // 4) * 4))
            end = start + variable.size + _GAP
        end = -(-end // ALIGNMENT) * ALIGNMENT
        offsets.update(dict.fromkeys((each.name for each in dynamic), end))
        return cls(offsets, ranges, end)

    def with_dynamic(self, size: int) -> SharedPlan:
        """Return the layout for a launch with dynamic shared memory."""
        if not size:
            return self
        ranges = [*self.ranges, (self.size, self.size + size)]
        return SharedPlan(self.offsets, ranges, self.size + size)


class PtxProgram:
    """PTX module, compiled for the CPU.

    Args:
        check_races: whether to detect data races in shared memory.
    Raises:
        ParsingError: the text is not PTX.
        UnsupportedError: an instruction has no translation.
        BackendError: LLVM rejects the translation.
    """

    def __init__(self, text: str, *, check_races: bool = True):
        self.module: PtxModule = parse_ptx(text)
        self.module.kernels = {
            name: inline_functions(kernel, self.module.functions)
            for name, kernel in self.module.kernels.items()
        }
        self.check_races = check_races
        self._shared = {
            name: SharedPlan.of(_shared_of(self.module, kernel))
            for name, kernel in self.module.kernels.items()
        }
        self._library = _compile(self.module, self._shared)

    def launch(
        self,
        name: str,
        grid: Sizes,
        block: Sizes,
        parameters: Sequence[int],
        allocations: Sequence[Range],
        shared: int = 0,
    ) -> None:
        """Launch a kernel and run it to completion.

        Args:
            parameters: parameter values, such as addresses of this process's memory.
            allocations: ranges of global memory that the kernel may access.
            shared: bytes of dynamic shared memory.
        Raises:
            InputError: the kernel does not exist or the launch sizes are illegal.
            PtxFaultError: the kernel faulted, for example by an out-of-bounds access.
        """
        kernel = self.module.kernels.get(name)
        if kernel is None:
            raise InputError(f"there is no kernel {name}")
        check_launch(kernel, grid, block, len(parameters))
        plan = self._shared[name].with_dynamic(shared)
        _Run(kernel, plan, grid, block, self.check_races).run(
            self._library.kernels[name], parameters, [*allocations, *self._library.variables]
        )


def check_launch(kernel: PtxKernel, grid: Sizes, block: Sizes, parameters: int) -> None:
    """Check the sizes and the number of parameters of a launch.

    Raises:
        InputError: a device would reject the launch.
    """
    for what, sizes, limits in (("grid", grid, LARGEST_GRID), ("block", block, _LARGEST_BLOCK)):
        if any(not 0 < size <= most for size, most in zip(sizes, limits, strict=True)):
            raise InputError(f"{kernel.name}: a {what} of {sizes} is beyond {limits}")
    if np.prod(block) > _MOST_THREADS:
        raise InputError(f"{kernel.name}: {block} are more than {_MOST_THREADS} threads")
    if kernel.threads is not None and kernel.threads != block:
        raise InputError(f"{kernel.name}: blocks of {block}, where .reqntid is {kernel.threads}")
    if parameters != len(kernel.parameters):
        raise InputError(
            f"{kernel.name} takes {len(kernel.parameters)} parameters, not {parameters}"
        )


class _Run:
    """State of a launch, whose blocks run sequentially."""

    def __init__(
        self, kernel: PtxKernel, shared: SharedPlan, grid: Sizes, block: Sizes, races: bool
    ):
        self._kernel = kernel
        self._grid = grid
        count = block[0] * block[1] * block[2]
        self._threads = (Thread * count)()
        for number, (z, y, x) in enumerate(itertools.product(*map(range, reversed(block)))):
            self._threads[number].number = number
            self._threads[number].place[:] = (x, y, z)
        if any(isinstance(each, PtxInstruction) and each.opcode == "cp" for each in kernel.body):
            size = COPIES * ctypes.sizeof(AsyncCopy)
            self._copies = np.empty(count * size, np.uint8)
            for number, thread in enumerate(self._threads):
                thread.copies = self._copies.ctypes.data + number * size
        self._shared = np.empty(shared.size + 64, np.uint8)
        self._tables = [np.zeros(shared.size if races else 0, np.uint32) for _ in range(2)]
        self._ranges = np.array(shared.ranges or [(0, 0)], np.int64)
        self.block = PtxBlock(grid=grid, block=block, count=count, shared_bytes=shared.size)
        self.block.shared = -(-self._shared.ctypes.data // 64) * 64
        self.block.threads = ctypes.addressof(self._threads)
        self.block.variables = self._ranges.ctypes.data
        self.block.variable_count = len(shared.ranges)
        if races and shared.size:
            self.block.writers, self.block.readers = (each.ctypes.data for each in self._tables)

    def run(self, code: int, parameters: Sequence[int], allocations: Sequence[Range]) -> None:
        values = np.array([*parameters, 0], np.uint64)
        ranges = np.array([*allocations, (0, 0)], np.uint64)
        self.block.parameters = values.ctypes.data
        self.block.allocations = ranges.ctypes.data
        self.block.allocation_count = len(allocations)
        run, block = _machine(), ctypes.byref(self.block)
        for z, y, x in itertools.product(*map(range, reversed(self._grid))):
            self.block.place[:] = (x, y, z)
            # Uninitialised shared memory reads as NaN.
            self._shared.fill(0xFF)
            self.block.epoch += 1
            run(block, code)
            if self.block.fault.kind:
                raise self._error()

    def _error(self) -> PtxFaultError:
        fault = self.block.fault
        thread = tuple(self._threads[fault.thread].place)
        place = f"block {tuple(self.block.place)}, thread {thread}"
        message = f"{FAULTS[fault.kind]}, address {fault.address:#x}"
        if FAULTS[fault.kind].startswith("race"):
            several = fault.other >= len(self._threads)
            other = "several" if several else tuple(self._threads[fault.other].place)
            message += f", the other thread being {other}"
        where = f"kernel {self._kernel.name}, line {fault.line}, {place}"
        return PtxFaultError(fault.kind, fault.line, message, where=where)


def _shared_of(module: PtxModule, kernel: PtxKernel) -> list[PtxVariable]:
    return [v for v in (*module.variables, *kernel.variables) if v.space == "shared"]


def _global_variables(module: PtxModule) -> list[PtxVariable]:
    return [each for each in module.variables if each.space in ("global", "const")]


def write_module(module: PtxModule, shared: dict[str, SharedPlan]) -> str:
    """Return the LLVM IR text of all kernels of a module."""
    helpers: dict[str, str] = {}
    globals_ = _global_variables(module)
    symbols = {each.name: f'ptrtoint (ptr @"{each.name}" to i64)' for each in globals_}
    kernels = [
        PtxKernelWriter(
            kernel,
            symbols
            | {key: str(at) for key, at in shared[name].offsets.items()}
            | {key: str(8 * number) for number, key in enumerate(kernel.parameters)},
            helpers,
        ).write_kernel()
        for name, kernel in module.kernels.items()
    ]
    return "\n".join(
        [DECLARATIONS, COPY_DECLARATIONS, *map(_global, globals_), *helpers.values(), *kernels]
    )


def _global(variable: PtxVariable) -> str:
    values = [*variable.values, *(0,) * (variable.count - len(variable.values))]
    type_ = f"i{8 * variable.element_bytes}"
    elements = ", ".join(f"{type_} {value}" for value in values)
    return f'@"{variable.name}" = global [{variable.count} x {type_}] [{elements}], ' + (
        f"align {variable.alignment}"
    )


@dataclass(frozen=True)
class _Library:
    """Compiled kernels.

    Attributes:
        kernels: code addresses by kernel name.
        variables: memory range of each global variable.
        owner: keeps the code loaded.
    """

    kernels: dict[str, int]
    variables: list[Range]
    owner: llvm.ResourceTracker


def _compile(module: PtxModule, shared: dict[str, SharedPlan]) -> _Library:
    code = _parse(write_module(module, shared))
    builder = llvm.create_pass_builder(_target(), llvm.create_pipeline_tuning_options(0))
    # Promote register variables to SSA values before splitting coroutines, so that coroutine
    # frames only hold values that are live across a suspension.
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.run(code, builder)
    builder.getModulePassManager().run(code, builder)
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.add_instruction_combine_pass()
    passes.run(code, builder)
    library = llvm.JITLibraryBuilder().add_ir(str(code)).add_current_process()
    for name, address in _machine_symbols().items():
        library = library.import_symbol(name, address)
    variables = _global_variables(module)
    for name in (*module.kernels, *(each.name for each in variables)):
        library = library.export_symbol(name)
    try:
        tracker = library.link(_linker(), f"ptx{next(_numbers)}")
    except RuntimeError as error:
        names = ", ".join(module.kernels)
        raise BackendError(
            f"LLVM cannot compile the translated PTX of {names}: {error}",
            hint="a function that its code calls may be missing in this process",
        ) from error
    ranges = [(tracker[each.name], tracker[each.name] + each.size) for each in variables]
    return _Library({name: tracker[name] for name in module.kernels}, ranges, tracker)


_numbers = itertools.count()


def _parse(text: str) -> llvm.ModuleRef:
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise BackendError(f"LLVM rejects translated PTX: {error}") from error
    return module


@cache
def _target() -> llvm.TargetMachine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    found = llvm.Target.from_triple(llvm.get_process_triple())
    features = llvm.get_host_cpu_features().flatten()
    return found.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=1, reloc="pic", codemodel="small"
    )


@cache
def _linker() -> llvm.LLJIT:
    return llvm.create_lljit_compiler(_target(), use_jit_link=True, suppress_errors=True)


_CHECKED = (
    "ptx.check_global",
    "ptx.check_local",
    "ptx.check_shared",
    "ptx.check_lane",
    "ptx.start_copy",
    "ptx.end_copies",
)


@cache
def _machine_library() -> llvm.ResourceTracker:
    library = (
        llvm.JITLibraryBuilder().add_ir(CHECKS + COPY_FUNCTIONS + SCHEDULER).add_current_process()
    )
    for name in (*_CHECKED, _KERNEL):
        library = library.export_symbol(name)
    return library.link(_linker(), "ptx-machine")


def _machine_symbols() -> dict[str, int]:
    return {name: _machine_library()[name] for name in _CHECKED}


@cache
def _machine() -> ctypes._CFunctionType:  # pyright: ignore[reportPrivateUsage]
    address = _machine_library()[_KERNEL]
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(address)
