"""Interpreter of kernel-level functions that are launched on a grid, all threads in lockstep.

Every value is an array with an entry for each thread, and every op is one numpy operation. Memory
accesses are tracked (`kernel_memory.py`). Two threads that access one element of shared or global
memory without a barrier in between, one of them writing, are a race, independent of the order in
which they happen to run here. A barrier that some threads of a block do not reach is a race, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import arith, func, gpu, memref, scf, vector
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, MemRefType, VectorType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.hints import isa

from tcopt.dialects.gpu_kernels import BLOCK_SIZE, GRID_SIZE, KERNEL, sizes_of
from tcopt.dialects.loop.memory import FENCE
from tcopt.dialects.loop.scopes import is_shared_space
from tcopt.dialects.memref_ import PrefetchOp
from tcopt.dialects.simt import ShuffleOp
from tcopt.dialects.simt_copies import CommitCopiesOp, CopyAsyncOp, WaitCopiesOp
from tcopt.dialects.vector_ import GatherOp, ScatterOp
from tcopt.interpreters.kernel_memory import CheckedBuffer, Numbers, RaceError, Threads, Watch
from tcopt.interpreters.kernel_vectors import VECTOR_RULES
from tcopt.interpreters.kernel_warps import LANES, WARP_RULES, per_thread
from tcopt.interpreters.scalars import evaluate_scalar
from tcopt.support.data.dtypes import numpy_dtype
from tcopt.support.errors import InputError, UnsupportedError

Array = NDArray[Any]

_DIMENSIONS = {gpu.DimensionEnum.X: 0, gpu.DimensionEnum.Y: 1, gpu.DimensionEnum.Z: 2}


def run_kernel(
    function: func.FuncOp, arrays: Sequence[Array], *, check_races: bool = True
) -> list[Array]:
    """Launch one kernel, which writes to its arrays in place.

    Args:
        function: a function marked as a kernel, with the sizes of its grid.
        arrays: one array for each argument, of its shape and dtype.
        check_races: whether to track the accesses of threads.
    Returns:
        The same arrays.
    Raises:
        RaceError: threads race, or wait at a barrier that others do not reach.
        InputError: an access is out of bounds, or the arrays do not match.
        UnsupportedError: an op that the interpreter does not know.
    """
    if KERNEL not in function.attributes:
        raise InputError("the function is not launched on a grid", op=function)
    grid, block = sizes_of(function, GRID_SIZE), sizes_of(function, BLOCK_SIZE)
    LaunchState(function, Threads(grid, block), check_races=check_races).run(arrays)
    return list(arrays)


class LaunchState:
    """State of one kernel launch."""

    def __init__(self, function: func.FuncOp, threads: Threads, *, check_races: bool):
        self.function = function
        self.check_races = check_races
        self.threads = threads
        self.everyone = np.arange(self.threads.count, dtype=np.int64)
        self.blocks = self.threads.blocks()
        self.rounds = np.zeros(self.threads.count, np.int64)
        self.global_rounds = np.zeros(self.threads.count, np.int64)
        self.active: NDArray[np.bool_] = np.ones(self.threads.count, np.bool_)
        self.values: dict[SSAValue, Any] = {}
        self.buffers: dict[SSAValue, CheckedBuffer] = {}
        self.rules: dict[type[Operation], Callable[[Any], None]] = {
            arith.ConstantOp: self._constant,
            func.ReturnOp: lambda _: None,
            gpu.BarrierOp: self._barrier,
            gpu.BlockIdOp: self._block_id,
            gpu.ThreadIdOp: self._thread_id,
            memref.AllocaOp: self._alloc,
            memref.LoadOp: self._load,
            memref.StoreOp: self._store,
            PrefetchOp: lambda _: None,
            scf.ForOp: self._for,
            scf.IfOp: self._if,
            scf.YieldOp: lambda _: None,
            vector.LoadOp: self._load,
            vector.StoreOp: self._store,
            vector.MaskedLoadOp: self._masked_load,
            vector.MaskedStoreOp: self._masked_store,
            GatherOp: self._gather,
            ScatterOp: self._scatter,
            CommitCopiesOp: lambda _: None,
            CopyAsyncOp: self._copy,
            ShuffleOp: self._shuffle,
            WaitCopiesOp: lambda _: None,
        }

    def run(self, arrays: Sequence[Array]) -> None:
        arguments = self.function.body.block.args
        if len(arrays) != len(arguments):
            message = f"{len(arrays)} arrays for {len(arguments)} arguments"
            raise InputError(message, op=self.function)
        made: dict[int, CheckedBuffer] = {}
        for array, argument in zip(arrays, arguments, strict=True):
            if not isa(argument.type, MemRefType):
                self.values[argument] = array[()]
                continue
            if tuple(array.shape) != argument.type.get_shape():
                raise InputError(f"array of shape {array.shape} given for {argument.type}")
            if id(array) not in made:
                name = argument.name_hint or f"argument {len(made)}"
                made[id(array)] = self._argument(name, array)
            self.buffers[argument] = made[id(array)]
        with np.errstate(all="ignore"):
            self.block(self.function.body.block)
        for array in arrays:
            if id(array) in made and array.flags.writeable:
                array[...] = made[id(array)].values.reshape(array.shape)

    def _argument(self, name: str, array: Array) -> CheckedBuffer:
        owner = np.zeros(self.threads.count, np.int64)
        buffer = CheckedBuffer(name, np.array(array).reshape(-1), array.shape, owner)
        if self.check_races and array.flags.writeable:
            size = buffer.values.size
            never = np.zeros(self.threads.count, np.int64)
            buffer.watch = [
                Watch(self.threads, size, self.everyone, self.global_rounds),
                Watch(self.threads, size, self.blocks, never),
            ]
        return buffer

    # Control flow.

    def block(self, block: Block) -> None:
        for op in block.ops:
            rule = self.rules.get(type(op))
            if rule is not None:
                rule(op)
            elif (vector_rule := VECTOR_RULES.get(op.name)) is not None:
                operands = [self.values[value] for value in op.operands]
                self.values[op.results[0]] = vector_rule(op, operands)
            elif op.name in WARP_RULES:
                self._warp(op)
            else:
                self._pure(op)

    @contextmanager
    def _only(self, condition: Any):
        """Restrict the active threads to those for which a condition holds."""
        saved = self.active
        self.active = saved & condition
        yield
        self.active = saved

    def _for(self, op: scf.ForOp) -> None:
        variable, *carried = op.body.block.args
        position, upper, step = (self.values[value] for value in (op.lb, op.ub, op.step))
        state = [self.values[value] for value in op.iter_args]
        while True:
            goes_on = position < upper
            if not (np.asarray(goes_on) & self.active).any():
                break
            with self._only(goes_on):
                self.values[variable] = position
                self.values.update(zip(carried, state, strict=True))
                self.block(op.body.block)
                last = op.body.block.last_op
                assert isinstance(last, scf.YieldOp)
                new = [self.values[value] for value in last.operands]
                state = [self._where(goes_on, a, b) for a, b in zip(new, state, strict=True)]
            position = position + step
        self.values.update(zip(op.results, state, strict=True))

    def _if(self, op: scf.IfOp) -> None:
        condition = self.values[op.cond]
        results: list[list[Any]] = []
        for region, holds in ((op.true_region, condition), (op.false_region, ~condition)):
            results.append([])
            if not region.blocks:
                continue
            with self._only(holds):
                if not self.active.any() and not op.results:
                    continue
                self.block(region.block)
                last = region.block.last_op
                if isinstance(last, scf.YieldOp):
                    results[-1] = [self.values[value] for value in last.operands]
        for result, a, b in zip(op.results, *results, strict=False):
            self.values[result] = self._where(condition, a, b)

    def _where(self, condition: Any, a: Any, b: Any) -> Any:
        if np.ndim(condition) == 0:
            return a if condition else b
        rank = max(np.ndim(a), np.ndim(b))
        return np.where(condition.reshape(condition.shape + (1,) * (rank - 1)), a, b)

    def _barrier(self, op: gpu.BarrierOp) -> None:
        there = self.active.reshape(-1, self.threads.per_block)
        complete = there.all(axis=1)
        if (there.any(axis=1) & ~complete).any():
            block = int(np.flatnonzero(there.any(axis=1) & ~complete)[0])
            first = block * self.threads.per_block
            missing = first + int(np.flatnonzero(~there[block])[0])
            waiting = first + int(np.flatnonzero(there[block])[0])
            raise RaceError(
                f"{self.threads.name(waiting)} waits at a barrier that "
                f"{self.threads.name(missing)} does not reach",
                op=op,
            )
        passed = np.repeat(complete, self.threads.per_block)
        self.rounds[passed] += 1
        if FENCE in op.attributes:
            self.global_rounds[passed] += 1

    def _shuffle(self, op: ShuffleOp) -> None:
        number = self.everyone % self.threads.per_block
        other = number ^ op.distance
        missing = self.active & (other >= self.threads.per_block)
        source = self.everyone - number + np.where(missing, number, other)
        missing |= self.active & ~self.active[source]
        if missing.any():
            thread = self.threads.name(int(np.flatnonzero(missing)[0]))
            message = f"{thread} reads the value of an inactive thread"
            raise RaceError(message, op=op)
        value = self.values[op.value]
        self.values[op.result] = value[source] if np.ndim(value) else value

    def _warp(self, op: Operation) -> None:
        """Run an op of the whole warp, whose lanes must all be active."""
        if self.threads.per_block % LANES:
            raise UnsupportedError(
                f"the block size is not a multiple of {LANES} threads, the size of a warp", op=op
            )
        there = self.active.reshape(-1, LANES)
        if (there.any(axis=1) & ~there.all(axis=1)).any():
            warp = int(np.flatnonzero(there.any(axis=1) & ~there.all(axis=1))[0])
            missing = warp * LANES + int(np.flatnonzero(~there[warp])[0])
            message = f"{self.threads.name(missing)} is inactive, but others of its warp are active"
            raise RaceError(message, op=op)
        count = self.threads.count
        operands = [per_thread(self.values[v], v.type, count) for v in op.operands]
        self.values[op.results[0]] = WARP_RULES[op.name](op, operands)

    # Ops on values.

    def _thread_id(self, op: gpu.ThreadIdOp) -> None:
        number = self.everyone % self.threads.per_block
        self.values[op.result] = _coordinate(number, self.threads.block, op.dimension.data)

    def _block_id(self, op: gpu.BlockIdOp) -> None:
        self.values[op.result] = _coordinate(self.blocks, self.threads.grid, op.dimension.data)

    def _constant(self, op: arith.ConstantOp) -> None:
        if isa(op.value, DenseIntOrFPElementsAttr):
            assert isa(op.result.type, VectorType)
            dtype = numpy_dtype(op.result.type.get_element_type())
            values = np.asarray(list(op.value.get_values())).astype(dtype)
            shape = op.result.type.get_shape()
            self.values[op.result] = np.broadcast_to(values.reshape(-1)[:1], shape)
            if values.size > 1:
                self.values[op.result] = values.reshape(shape)
        else:
            self.values[op.result] = evaluate_scalar(op, ())

    def _pure(self, op: Operation) -> None:
        if len(op.results) != 1 or op.regions:
            raise UnsupportedError("the kernel interpreter does not run this op", op=op)
        operands = [self._aligned(value, op) for value in op.operands]
        self.values[op.results[0]] = evaluate_scalar(op, operands)

    def _aligned(self, value: SSAValue, op: Operation) -> Any:
        """Return an operand, broadcasting a thread's scalar to the rank of a vector result."""
        found = self.values[value]
        if isinstance(op.results[0].type, VectorType) and not isinstance(value.type, VectorType):
            rank = len(op.results[0].type.get_shape())
            return np.reshape(found, np.shape(found) + (1,) * rank) if np.ndim(found) else found
        return found

    # Memory accesses.

    def _alloc(self, op: memref.AllocaOp | memref.AllocOp) -> None:
        type_ = op.memref.type
        assert isa(type_, MemRefType)
        is_shared = is_shared_space(type_.memory_space)
        owner = self.blocks if is_shared else self.everyone
        name = op.memref.name_hint or "buffer"
        dtype, size = numpy_dtype(type_.get_element_type()), type_.element_count()
        values = np.full((int(owner[-1]) + 1) * size, _unwritten(dtype), dtype)
        buffer = CheckedBuffer(name, values, type_.get_shape(), owner)
        if is_shared and self.check_races:
            buffer.watch = [Watch(self.threads, values.size, self.everyone, self.rounds)]
        self.buffers[op.memref] = buffer

    def _places(
        self, buffer: CheckedBuffer, indices: Sequence[SSAValue], lanes: int, op: Operation
    ) -> Numbers:
        values = [self.values[index] for index in indices]
        places = buffer.places(values, self.active, op, leaves_row=lanes > 0)
        if not lanes:
            return places
        last = buffer.size * (buffer.owner + 1) - lanes
        if (self.active & (places > last)).any():
            raise InputError(f"a vector ends outside of %{buffer.name}", op=op)
        return places[:, None] + np.arange(lanes)

    def _load(self, op: memref.LoadOp | vector.LoadOp) -> None:
        source, *indices = op.operands
        (result,) = op.results
        buffer, lanes = self.buffers[source], _lanes(result.type)
        places = self._places(buffer, indices, lanes, op)
        self._note(buffer.read, places, op)
        shown = np.where(self._spread(lanes), places, 0)
        loaded = buffer.values[shown]
        if isinstance(result.type, VectorType):
            loaded = loaded.reshape(len(loaded), *result.type.get_shape())
        self.values[result] = loaded

    def _store(self, op: memref.StoreOp | vector.StoreOp) -> None:
        value, target, *indices = op.operands
        buffer, lanes = self.buffers[target], _lanes(value.type)
        places = self._places(buffer, indices, lanes, op)
        self._note(buffer.write, places, op)
        active = np.broadcast_to(self._spread(lanes), places.shape)
        stored = self.values[value]
        if isinstance(value.type, VectorType):
            rank = len(value.type.get_shape())
            stored = np.reshape(stored, (*np.shape(stored)[: np.ndim(stored) - rank], lanes))
        buffer.values[places[active]] = np.broadcast_to(stored, places.shape)[active]

    def _copy(self, op: CopyAsyncOp) -> None:
        """Copy at once, or store zeros."""
        source, target, lanes = self.buffers[op.source], self.buffers[op.target], op.elements
        inside = True if op.inside is None else self.values[op.inside]
        with self._only(inside):
            places = self._places(source, op.source_indices, lanes, op)
            self._note(source.read, places, op)
            on = np.broadcast_to(self._spread(lanes), places.shape)
            loaded = np.where(on, source.values[np.where(on, places, 0)], 0)
        places = self._places(target, op.target_indices, lanes, op)
        self._note(target.write, places, op)
        active = np.broadcast_to(self._spread(lanes), places.shape)
        target.values[places[active]] = loaded[active].astype(target.values.dtype)

    def _masked_load(self, op: vector.MaskedLoadOp) -> None:
        offsets = np.arange(_lanes(op.result.type))
        self._lanes_in(op, op.base, op.indices, offsets, op.mask, op.pass_thru, op.result)

    def _gather(self, op: GatherOp) -> None:
        offsets = self.values[op.index_vec]
        self._lanes_in(op, op.base, op.indices, offsets, op.mask, op.pass_thru, op.result)

    def _masked_store(self, op: vector.MaskedStoreOp) -> None:
        offsets = np.arange(_lanes(op.value_to_store.type))
        self._lanes_out(op, op.base, op.indices, offsets, op.mask, op.value_to_store)

    def _scatter(self, op: ScatterOp) -> None:
        offsets = self.values[op.index_vec]
        self._lanes_out(op, op.base, op.indices, offsets, op.mask, op.value_to_store)

    def _lanes_in(
        self,
        op: Operation,
        base: SSAValue,
        indices: Sequence[SSAValue],
        offsets: Any,
        mask: SSAValue,
        otherwise: SSAValue,
        result: SSAValue,
    ) -> None:
        """Load the lanes whose mask is on, each at an offset from the first one's address."""
        buffer = self.buffers[base]
        places, on = self._lane_places(buffer, indices, offsets, mask, op)
        who = np.broadcast_to(self.everyone[:, None], places.shape)
        buffer.read(places[on], who[on], op)
        loaded = buffer.values[np.where(on, places, 0)]
        self.values[result] = np.where(on, loaded, self.values[otherwise])

    def _lanes_out(
        self,
        op: Operation,
        base: SSAValue,
        indices: Sequence[SSAValue],
        offsets: Any,
        mask: SSAValue,
        value: SSAValue,
    ) -> None:
        """Store the lanes whose mask is on."""
        buffer = self.buffers[base]
        places, on = self._lane_places(buffer, indices, offsets, mask, op)
        who = np.broadcast_to(self.everyone[:, None], places.shape)
        buffer.write(places[on], who[on], op)
        buffer.values[places[on]] = np.broadcast_to(self.values[value], places.shape)[on]

    def _lane_places(
        self,
        buffer: CheckedBuffer,
        indices: Sequence[SSAValue],
        offsets: Any,
        mask: SSAValue,
        op: Operation,
    ) -> tuple[Numbers, NDArray[np.bool_]]:
        values = [self.values[index] for index in indices]
        # The first lane may be inactive and out of bounds.
        first = buffer.places(values, np.zeros_like(self.active), op)
        places = first[:, None] + offsets
        on = np.broadcast_to(self.values[mask] & self.active[:, None], places.shape)
        low = (buffer.owner * buffer.size)[:, None]
        if (on & ((places < low) | (places >= low + buffer.size))).any():
            raise InputError(f"a lane is outside of %{buffer.name}", op=op)
        return places, on

    def _spread(self, lanes: int) -> NDArray[np.bool_]:
        return self.active[:, None] if lanes else self.active

    def _note(self, note: Callable[..., None], places: Numbers, op: Operation) -> None:
        who = self.everyone[self.active]
        chosen = places[self.active]
        if chosen.ndim > 1:
            who = np.repeat(who, chosen.shape[1])
        note(chosen.reshape(-1), who, op)


def _coordinate(number: Numbers, sizes: Sequence[int], axis: gpu.DimensionEnum) -> Numbers:
    for size in sizes[: _DIMENSIONS[axis]]:
        number = number // size
    return number % sizes[_DIMENSIONS[axis]]


def _lanes(type: Attribute) -> int:
    return type.element_count() if isa(type, VectorType) else 0


def _unwritten(dtype: np.dtype[Any]) -> Any:
    """Return the initial value of memory, chosen to show up in results."""
    if dtype.kind == "b":
        return True
    return np.iinfo(dtype).min if dtype.kind in "iu" else np.nan
