"""Thread axes of a kernel: its grid of thread blocks, and a thread's position in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    MemRefType,
    UnitAttr,
    i32,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineDimExpr

from tcopt.dialects import loop
from tcopt.dialects.gpu_kernels import (
    BLOCK_SIZE,
    GRID_SIZE,
    KERNEL,
    SHARED_SPACE,
    SIZED_GRID,
    sizes_of,
)
from tcopt.dialects.loop.structure import size_of_index
from tcopt.dialects.size import SizeValues, dims_attr
from tcopt.passes.kernel.lowering.lowering_levels import LevelWriter
from tcopt.support.arithmetic.sizes import Extent, is_fixed, maximum, minimum, product
from tcopt.support.errors import PassFailedError
from tcopt.support.machines.grids import LARGEST_GRID

__all__ = ["BLOCK_SIZE", "GRID_SIZE", "KERNEL", "SHARED_SPACE", "LaunchGrid", "sizes_of"]


@dataclass
class LaunchGrid:
    """The launch grid of a function: along each axis, its longest bound loop.

    A grid that is too large along y or z is launched along x only, and the positions of a block are
    computed from its number. The number of blocks along an axis follows from sizes if all loops
    over it have limits.

    Attributes:
        extents: by axis, upper bounds; missing axes have extent 1.
        live: the number of blocks along each axis, over the function's sizes.
        folded: whether all blocks are launched along x.
        sizes: values of the function's sizes, for positions in a folded grid.
        positions: this thread's position along each axis used so far.
    """

    extents: dict[loop.ThreadAxis, int]
    live: dict[loop.ThreadAxis, Extent]
    folded: bool = False
    sizes: SizeValues | None = None
    positions: dict[loop.ThreadAxis, SSAValue] = field(
        default_factory=dict[loop.ThreadAxis, SSAValue]
    )

    @classmethod
    def of(cls, function: loop.FuncOp) -> LaunchGrid:
        """Return the grid for the loops of a function.

        Raises:
            PassFailedError: there are more blocks than a grid may have.
        """
        extents: dict[loop.ThreadAxis, int] = {}
        live: dict[loop.ThreadAxis, Extent] = {}
        for op in function.walk():
            if isinstance(op, loop.ForOp) and op.axis is not None:
                axis = op.axis.data
                extents[axis] = max(extents.get(axis, 1), op.trip_count)
                live[axis] = maximum(live.get(axis, 0), live_iterations(op))
        sizes = [extents.get(axis, 1) for axis in loop.BLOCK_AXES]
        folded = any(size > most for size, most in zip(sizes, LARGEST_GRID, strict=True))
        if folded and prod(sizes) > LARGEST_GRID[0]:
            raise PassFailedError(
                f"{prod(sizes)} blocks are more than the {LARGEST_GRID[0]} that a grid may have",
                op=function,
                hint="bind fewer iterations to blocks",
            )
        return cls(extents, live, folded)

    def position(self, axis: loop.ThreadAxis, writer: LevelWriter) -> SSAValue:
        """Return the index of this thread, or of its block, along an axis."""
        found = self.positions.get(axis)
        if found is None:
            found = self._unfold(axis, writer) if self.folded else None
            if found is None:
                found = _write_position(axis, writer)
                writer.known.ranges[found] = (0, self.extents.get(axis, 1) - 1)
            found.name_hint = axis.value.replace("Idx.", "_")
            self.positions[axis] = found
        return found

    def _unfold(self, axis: loop.ThreadAxis, writer: LevelWriter) -> SSAValue | None:
        """Return the index of a block along an axis, from its number in the grid; None for a thread
        axis.
        """
        if axis not in loop.BLOCK_AXES:
            return None
        sizes = [self.extents.get(each, 1) for each in loop.BLOCK_AXES]
        place = loop.BLOCK_AXES.index(axis)
        number = _write_position(loop.BLOCK_AXES[0], writer)
        writer.known.ranges[number] = (0, prod(sizes) - 1)
        live = self._live(loop.BLOCK_AXES)
        if is_fixed(live):
            expr = AffineDimExpr(0) // prod(sizes[:place]) % sizes[place]
            found = writer.index(expr, [number])
        else:
            assert self.sizes is not None
            found, below = number, product(live[:place])
            if below != 1:
                found = writer.index_op(arith.DivUIOp, found, self.sizes.of(below))
            if product(live[place + 1 :]) != 1:
                found = writer.index_op(arith.RemUIOp, found, self.sizes.of(live[place]))
        writer.known.ranges[found] = (0, sizes[place] - 1)
        return found

    def check_scope(self, alloc: loop.AllocOp) -> None:
        """Check that a kernel may allocate a buffer: private to each thread, or shared.

        Raises:
            PassFailedError: threads would share memory that is not declared as shared.
        """
        has_threads = any(self.extents.get(axis, 1) > 1 for axis in loop.THREAD_AXES)
        is_global = alloc.scope.data.sharing is loop.Sharing.ALL
        if is_global and has_threads and not any(map(loop.is_thread, loop.enclosing_loops(alloc))):
            raise PassFailedError(
                f"%{alloc.result.name_hint or 'unnamed'} would be global memory that a kernel "
                "allocates for several threads",
                op=alloc,
                hint="make it shared, or an argument",
            )

    def buffer_type(self, alloc: loop.AllocOp) -> MemRefType:
        """Return the type of a buffer inside of a kernel."""
        return with_space(alloc.result.type, alloc.scope.data)

    def attributes(self) -> dict[str, Attribute]:
        """Return the launch attributes of a function."""
        found: dict[str, Attribute] = {
            KERNEL: UnitAttr(),
            BLOCK_SIZE: self._sizes(loop.THREAD_AXES),
            GRID_SIZE: self._sizes(loop.BLOCK_AXES, self.folded),
        }
        live = self._live(loop.BLOCK_AXES)
        grid = dims_attr([product(live), 1, 1] if self.folded else live)
        return found if grid is None else {**found, SIZED_GRID: grid}

    def _live(self, axes: Sequence[loop.ThreadAxis]) -> list[Extent]:
        return [self.live.get(axis, 1) for axis in axes]

    def _sizes(self, axes: Sequence[loop.ThreadAxis], folded: bool = False) -> DenseArrayBase:
        sizes = [self.extents.get(axis, 1) for axis in axes]
        return DenseArrayBase.from_list(i32, [prod(sizes), 1, 1] if folded else sizes)


def live_iterations(op: loop.ForOp) -> Extent:
    """Return the number of iterations of a loop over blocks or threads."""
    if op.limit is None:
        return op.trip_count
    return minimum(maximum(size_of_index(op.limit), 0), op.trip_count)


def with_space(type_: MemRefType, scope: loop.Scope) -> MemRefType:
    """Return the type of a buffer with the memory space of a scope, if it has one."""
    if scope.space is None:
        return type_
    space = IntegerAttr(scope.space, i64)
    return MemRefType(type_.element_type, type_.shape, type_.layout, space)


def _write_position(axis: loop.ThreadAxis, writer: LevelWriter) -> SSAValue:
    # Compiling for a CPU should not import the dialect.
    from xdsl.dialects import gpu

    kind, dimension = axis.value.split("Idx.")
    op_class = gpu.BlockIdOp if kind == "block" else gpu.ThreadIdOp
    attribute = gpu.DimensionAttr(gpu.DimensionEnum(dimension))
    return writer.pure(op_class, (), IndexType(), {"dimension": attribute})
