"""Calls of the Python meanings of third-party ops from the plain translation.

The operands of an op and room for its result are in one block of stack memory. The code passes the
block's address to a Python function, which reads the operands and writes the result.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation, SSAValue
from xdsl.utils.hints import isa
from xdsl.utils.type import get_element_type_or_self

from tcopt.interpreters.meanings import meaning_of
from tcopt.interpreters.plain_text import BYTES, PlainWriter, element_text, memory_text
from tcopt.interpreters.scalars import dtype_of
from tcopt.support.errors import InputError

_ALIGNMENT = 16


@dataclass(frozen=True)
class _Slot:
    """A value's elements in the block of memory, in row-major order."""

    offset: int
    element: str
    memory: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def count(self) -> int:
        return prod(self.shape)

    @property
    def end(self) -> int:
        return self.offset + self.count * BYTES[self.memory]


def emit_meaning(w: PlainWriter, op: Operation, names: list[str]) -> str:
    """Emit a call of the meaning of an op with one result; return the result."""
    *inputs, output = _slots(op)
    block = w.local(output.end)
    for name, slot in zip(names, inputs, strict=True):
        lanes = w.lanes(name, slot.element, slot.count) if slot.shape else [name]
        for lane, value in enumerate(lanes):
            if slot.memory != slot.element:
                value = w.assign(f"zext {slot.element} {value} to {slot.memory}")
            w.line(f"store {slot.memory} {value}, ptr {_address(w, block, slot, lane)}")
    w.call_meaning(op, block)
    found: list[str] = []
    for lane in range(output.count):
        value = w.assign(f"load {output.memory}, ptr {_address(w, block, output, lane)}")
        if output.memory != output.element:
            value = w.assign(f"trunc {output.memory} {value} to {output.element}")
        found.append(value)
    return w.gather(found, output.element) if output.shape else found[0]


def run_meaning(op: Operation, address: int) -> None:
    """Compute an op by its meaning, from operands at an address.

    Raises:
        InputError: the meaning returns an array of another shape.
    """
    *operands, output = (_array(slot, address) for slot in _slots(op))
    meaning = meaning_of(op)
    assert meaning is not None
    result = np.asarray(meaning(*(operand.copy() for operand in operands)), output.dtype)
    if result.shape != output.shape:
        raise InputError(
            f"its meaning returns an array of shape {result.shape} instead of {output.shape}",
            op=op,
        )
    output[...] = result


def _slots(op: Operation) -> list[_Slot]:
    """Return the memory of each operand and of the result."""
    slots: list[_Slot] = []
    end = 0
    for value in (*op.operands, *op.results):
        element = get_element_type_or_self(value.type)
        start = -(-end // _ALIGNMENT) * _ALIGNMENT
        texts = element_text(element), memory_text(element)
        slots.append(_Slot(start, *texts, _shape(value), dtype_of(element)))
        end = slots[-1].end
    return slots


def _shape(value: SSAValue) -> tuple[int, ...]:
    return tuple(value.type.get_shape()) if isa(value.type, VectorType) else ()


def _address(w: PlainWriter, block: str, slot: _Slot, lane: int) -> str:
    offset = slot.offset + lane * BYTES[slot.memory]
    return w.assign(f"getelementptr i8, ptr {block}, i64 {offset}")


def _array(slot: _Slot, address: int) -> NDArray[Any]:
    size = slot.end - slot.offset
    memory = (ctypes.c_char * size).from_address(address + slot.offset)
    return np.frombuffer(memoryview(memory), slot.dtype).reshape(slot.shape)


__all__ = ["emit_meaning", "run_meaning"]
