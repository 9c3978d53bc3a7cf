"""Rules for loads and stores, with checks of each access."""

from __future__ import annotations

from tcopt.interpreters.ptx import layout, types
from tcopt.interpreters.ptx.kernel_writer import PtxKernelWriter
from tcopt.interpreters.ptx.registry import executes
from tcopt.interpreters.ptx.text import PtxInstruction

_SPACES = ("global", "shared", "local", "param", "const")


@executes("ld", "ldu")
def load(e: PtxKernelWriter, i: PtxInstruction) -> None:
    space = _space(i)
    results, size = i.vector(0), types.bits(i.type) // 8
    if space == "param":
        _load_parameter(e, i)
        return
    needed = _needed_bytes(e, results, size)
    place = checked(e, space, i.scalar(1), size * len(results), is_store=False, needed=needed)
    for number, result in enumerate(results):
        element = e.value(f"getelementptr i8, ptr {place}, i64 {size * number}")
        e.write_bits(
            result, i.type, e.value(f"load {types.integer(i.type)}, ptr {element}, align 1")
        )


def _needed_bytes(e: PtxKernelWriter, results: tuple[str, ...], size: int) -> int:
    """Return a bit mask of the loaded bytes that are used; all bytes if none is.

    Concurrent writes of unused bytes by other threads are harmless.
    """
    whole = (1 << size) - 1
    read = sum(
        (e.uses.bytes_read(result, e.instruction) & whole) << size * number
        for number, result in enumerate(results)
    )
    return read or (1 << size * len(results)) - 1


@executes("st")
def store(e: PtxKernelWriter, i: PtxInstruction) -> None:
    space = _space(i)
    values, size = i.vector(1), types.bits(i.type) // 8
    place = checked(e, space, i.scalar(0), size * len(values), is_store=True)
    for number, value in enumerate(values):
        element = e.value(f"getelementptr i8, ptr {place}, i64 {size * number}")
        bits = e.bits(value, i.type)
        e.line(f"store {types.integer(i.type)} {bits}, ptr {element}, align 1")


def _space(i: PtxInstruction) -> str:
    """Return the state space of an access; `generic` if the instruction names none."""
    return next((each for each in _SPACES if i.has(each)), "generic")


def _load_parameter(e: PtxKernelWriter, i: PtxInstruction) -> None:
    """Load a whole kernel parameter; its address is eight times its index."""
    parameters = e.field("%block", layout.offset(layout.PtxBlock, "parameters"), "ptr")
    place = e.value(f"getelementptr i8, ptr {parameters}, i64 {e.address(i.scalar(1))}")
    type_ = types.integer(i.type)
    e.write_bits(i.scalar(0), i.type, e.value(f"load {type_}, ptr {place}"))


def checked(
    e: PtxKernelWriter, space: str, operand: str, size: int, *, is_store: bool, needed: int = -1
) -> str:
    """Emit the checks of an access of `size` bytes, and return its pointer.

    Args:
        needed: bit mask of the bytes to check for races.
    """
    address = e.address(operand)
    line = 0 if e.instruction is None else e.instruction.line
    arguments = f"ptr %block, ptr %thread, i64 {address}, i64 {size}, i32 {line}"
    if space in ("global", "const"):
        e.require(e.value(f"call i1 @ptx.check_global({arguments})"))
        return e.value(f"inttoptr i64 {address} to ptr")
    if space == "shared":
        kind = "true" if is_store else "false"
        e.require(e.value(f"call i1 @ptx.check_shared({arguments}, i1 {kind}, i64 {needed})"))
        memory = e.field("%block", layout.offset(layout.PtxBlock, "shared"), "ptr")
        return e.value(f"getelementptr i8, ptr {memory}, i64 {address}")
    if space == "local":
        return _local(e, address, size, arguments)
    return _generic(e, address, size, arguments)


def _local(e: PtxKernelWriter, address: str, size: int, arguments: str) -> str:
    """Return the pointer of an access that must be within one of the thread's local arrays."""
    inside = _inside_local(e, address, size)
    e.require(e.value(f"call i1 @ptx.check_local({arguments}, i1 {inside})"))
    return e.value(f"inttoptr i64 {address} to ptr")


def _generic(e: PtxKernelWriter, address: str, size: int, arguments: str) -> str:
    """Return the pointer of a generic access, to the thread's local arrays or global memory."""
    inside = _inside_local(e, address, size)
    own, other, after = e.fresh(), e.fresh(), e.fresh()
    e.jump(f"br i1 {inside}, label %{own}, label %{other}")
    e.label(own)
    e.require(e.value(f"call i1 @ptx.check_local({arguments}, i1 true)"))
    e.jump(f"br label %{after}")
    e.label(other)
    e.require(e.value(f"call i1 @ptx.check_global({arguments})"))
    e.label(after)
    return e.value(f"inttoptr i64 {address} to ptr")


def _inside_local(e: PtxKernelWriter, address: str, size: int) -> str:
    """Return an i1 value: whether an access is within one of the thread's local arrays."""
    inside = "false"
    for variable in e.kernel.variables:
        if variable.space == "local" and size <= variable.size:
            start = e.value(f'ptrtoint ptr %"local.{variable.name}" to i64')
            distance = e.value(f"sub i64 {address}, {start}")
            fits = e.value(f"icmp ule i64 {distance}, {variable.size - size}")
            inside = e.value(f"or i1 {inside}, {fits}")
    return inside
