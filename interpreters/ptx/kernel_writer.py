"""Translation of a kernel to an LLVM function that runs one thread.

PTX registers become stack variables, which LLVM promotes to SSA values. If threads wait for each
other at barriers or warp exchanges, the function is a coroutine: a waiting thread suspends, and the
scheduler resumes it when the other threads have arrived.
"""

from __future__ import annotations

import ctypes
import re
from typing import NoReturn

from tcopt.interpreters.ptx import layout, types
from tcopt.interpreters.ptx.function_text import FunctionText
from tcopt.interpreters.ptx.registry import PtxRule, rules
from tcopt.interpreters.ptx.text import Label, PtxInstruction, PtxKernel
from tcopt.interpreters.ptx.uses import Uses
from tcopt.support.errors import UnsupportedError

_MEETINGS = frozenset(("bar", "barrier", "shfl", "vote", "redux", "ldmatrix", "mma"))
"""Opcodes at which a thread waits for other threads."""

_SPECIAL = re.compile(r"%(n?tid|n?ctaid)\.([xyz])")
_SPECIAL_FIELDS: dict[str, tuple[type[ctypes.Structure], str]] = {
    "tid": (layout.Thread, "place"),
    "ntid": (layout.PtxBlock, "block"),
    "ctaid": (layout.PtxBlock, "place"),
    "nctaid": (layout.PtxBlock, "grid"),
}
_ADDRESS = re.compile(r"\[\s*([%$\w]+)\s*(?:\+\s*(-?\w+))?\s*\]")


class PtxKernelWriter(FunctionText):
    """Writer of a kernel's LLVM function, which is passed to the rules of instructions.

    Args:
        symbols: offsets of shared variables and parameters, and addresses of global variables, as
            LLVM constants.

    Attributes:
        helpers: texts of helper functions that the kernel calls, by name.
        uses: uses of the kernel's registers.
    """

    def __init__(self, kernel: PtxKernel, symbols: dict[str, str], helpers: dict[str, str]):
        super().__init__()
        self.kernel = kernel
        self.symbols = dict(symbols)
        self.helpers = helpers
        self.suspends = any(
            isinstance(each, PtxInstruction) and each.opcode in _MEETINGS for each in kernel.body
        )
        self.instruction: PtxInstruction | None = None
        self.locals = {each.name for each in kernel.variables if each.space == "local"}
        self._entry: list[str] = []
        self._registers: dict[str, int] = {}
        self.uses = Uses(kernel)
        self._has_carry = False
        self._is_open = True
        """Whether the current basic block has no terminator yet."""

    # Text.

    def label(self, name: str) -> None:
        """Begin a basic block; the current one falls through to it."""
        if self._is_open:
            self.line(f"br label %{name}")
        self.lines.append(f"{name}:")
        self._is_open = True

    def jump(self, text: str) -> None:
        """End the current basic block with a terminator."""
        self.line(text)
        self._is_open = False

    def helper(self, name: str, text: str) -> str:
        """Return the name of a helper function, after adding it at its first use."""
        self.helpers.setdefault(name, text)
        return name

    # Values.

    def register_bits(self, name: str) -> int:
        """Return the declared size of a register."""
        declared = self.kernel.registers
        type_ = declared.get(name) or declared.get(name.rstrip("0123456789"))
        if type_ is None:
            self.refuse(f"register {name} is not declared")
        return types.bits(type_)

    def carry(self) -> str:
        """Return the pointer to the carry flag."""
        if not self._has_carry:
            self._has_carry = True
            self._entry.append("%carry = alloca i1")
            self._entry.append("store i1 false, ptr %carry")
        return "%carry"

    def raw(self, operand: str) -> tuple[str, int]:
        """Return an operand's bits as an LLVM integer, and its size; 0 for an immediate."""
        if operand in self.symbols:
            return self.symbols[operand], 0
        if operand in self.locals:
            return self.value(f'ptrtoint ptr %"local.{operand}" to i64'), 64
        if operand.startswith("%"):
            special = self._special(operand)
            if special is not None:
                return special, 32
            size = self.register_bits(operand)
            return self.value(f"load i{size}, ptr {self._variable(operand)}"), size
        number = types.float_bits(operand)
        if number is None:
            number = {"true": 1, "false": 0}.get(operand)
        if number is None:
            try:
                number = int(operand.rstrip("Uu"), 0)
            except ValueError:
                self.refuse(f"operand {operand!r}")
        return str(number), 0

    def bits(self, operand: str, type_: str) -> str:
        """Return an operand's bits, resized to the integer of a type's size."""
        found, size = self.raw(operand)
        wanted = types.bits(type_)
        if size == 0:
            return self._immediate(found, wanted)
        return self.resize(found, size, wanted, types.is_signed(type_))

    def read(self, operand: str, type_: str) -> str:
        """Return an operand as a value of the LLVM type that a PTX type is computed in."""
        found = self.bits(operand, type_)
        if not types.is_float(type_):
            return found
        if type_ == "bf16":
            wide = self.value(f"zext i16 {found} to i32")
            found = self.value(f"shl i32 {wide}, 16")
            return self.value(f"bitcast i32 {found} to float")
        return self.value(f"bitcast {types.integer(type_)} {found} to {types.llvm_type(type_)}")

    def write(self, operand: str, type_: str, value: str) -> None:
        """Store a value, of the LLVM type that a PTX type is computed in, in a register."""
        if type_ == "bf16":
            value = self.value(f"call i16 @{self.helper(*ROUND_BF16)}(float {value})")
        elif types.is_float(type_):
            value = self.value(
                f"bitcast {types.llvm_type(type_)} {value} to {types.integer(type_)}"
            )
        self.write_bits(operand, type_, value)

    def write_bits(self, operand: str, type_: str, value: str) -> None:
        """Store an integer of a type's size in a register, which may be wider."""
        if operand == "_":
            return
        size = self.register_bits(operand)
        value = self.resize(value, types.bits(type_), size, types.is_signed(type_))
        self.line(f"store i{size} {value}, ptr {self._variable(operand)}")

    def resize(self, value: str, size: int, wanted: int, signed: bool) -> str:
        """Extend or truncate an integer from `size` to `wanted` bits."""
        if size == wanted:
            return value
        op = "trunc" if size > wanted else "sext" if signed else "zext"
        return self.value(f"{op} i{size} {value} to i{wanted}")

    def address(self, operand: str) -> str:
        """Return the address `[register+offset]` or `[symbol+offset]` as an i64."""
        found = _ADDRESS.fullmatch(operand)
        if found is None:
            self.refuse(f"address {operand!r}")
        base = self.bits(found[1], "u64")
        return base if found[2] is None else self.value(f"add i64 {base}, {int(found[2], 0)}")

    def _immediate(self, text: str, size: int) -> str:
        """Return an immediate, modulo 2**size, or a symbol as an integer of `size` bits."""
        if not re.fullmatch(r"-?\d+", text):
            if size == 64:
                return text
            return self.value(f"trunc i64 {text} to i{size}")
        return str(int(text) % (1 << size))

    def _variable(self, register: str) -> str:
        name = f'%"{register[1:]}"'
        if register not in self._registers:
            size = self._registers[register] = self.register_bits(register)
            # Uninitialised registers hold a recognisable bit pattern.
            self._entry.append(f"{name} = alloca i{size}")
            self._entry.append(f"store i{size} {0x5A5A5A5A5A5A5A5A % (1 << size)}, ptr {name}")
        return name

    def _special(self, operand: str) -> str | None:
        if operand == "%laneid":
            return self.lane()
        found = _SPECIAL.fullmatch(operand)
        if found is None:
            return None
        structure, field = _SPECIAL_FIELDS[found[1]]
        owner = "%thread" if structure is layout.Thread else "%block"
        return self.field(owner, layout.offset(structure, field, "xyz".index(found[2])))

    # Control.

    def require(self, condition: str) -> None:
        """End the thread if a check failed; the check has recorded the fault."""
        name = self.fresh()
        self.jump(f"br i1 {condition}, label %{name}, label %end")
        self.lines.append(f"{name}:")
        self._is_open = True

    def suspend(self, state: int, mask: str) -> None:
        """Suspend the thread until the scheduler resumes it.

        Args:
            state: the state of the waiting thread, a constant of `layout`.
            mask: lanes of the warp that it waits for; at a barrier, whether the barrier is aligned.
        """
        for field, value in (("state", str(state)), ("line", self._line()), ("mask", mask)):
            self.set_field("%thread", layout.offset(layout.Thread, field), value)
        resumed = self.fresh()
        found = self.value("call i8 @llvm.coro.suspend(token none, i1 false)")
        self.jump(f"switch i8 {found}, label %leave [i8 0, label %{resumed} i8 1, label %leave]")
        self.lines.append(f"{resumed}:")
        self._is_open = True

    def meet(self, words: list[str], mask: str) -> None:
        """Exchange words in a warp: wait for the lanes in `mask`; then `handed` reads theirs."""
        for number, word in enumerate(words):
            self.set_field("%thread", layout.offset(layout.Thread, "inbox", number), word)
        self.suspend(layout.AT_MEETING, mask)

    def refuse(self, reason: str) -> NoReturn:
        """Raise UnsupportedError for the current instruction."""
        where = f"kernel {self.kernel.name}, line {self._line()}"
        name = "" if self.instruction is None else f"{self.instruction.name}: "
        raise UnsupportedError(f"the PTX interpreter: {name}{reason}", where=where)

    def _line(self) -> str:
        return str(self.kernel.line if self.instruction is None else self.instruction.line)

    # Whole kernel.

    def write_kernel(self) -> str:
        """Return the text of the function that runs a thread."""
        table = rules.values_by_key()
        for each in self.kernel.body:
            if isinstance(each, Label):
                self.label(label_name(each.name))
                continue
            if not self._is_open:
                # Code after a jump is unreachable.
                self.lines.append(f"{self.fresh()}:")
                self._is_open = True
            self.instruction = each
            rule = table.get(each.opcode)
            if rule is None:
                self.refuse("there is no rule for it")
            if each.guard is None or each.opcode == "bra":
                rule(self, each)
                continue
            self._guarded(each, rule)
        if self._is_open:
            self.jump("br label %end")
        return self._function()

    def _guarded(self, each: PtxInstruction, rule: PtxRule) -> None:
        assert each.guard is not None
        condition = self.read(each.guard, "pred")
        do, after = self.fresh(), self.fresh()
        targets = (after, do) if each.negated else (do, after)
        self.jump(f"br i1 {condition}, label %{targets[0]}, label %{targets[1]}")
        self.lines.append(f"{do}:")
        self._is_open = True
        rule(self, each)
        self.label(after)

    def _function(self) -> str:
        for variable in self.kernel.variables:
            if variable.space == "local":
                name = f'%"local.{variable.name}"'
                self._entry.append(
                    f"{name} = alloca [{variable.size} x i8], align {variable.alignment}"
                )
        done = layout.offset(layout.Thread, "state")
        finish = [
            "end:",
            f"  %state = getelementptr i8, ptr %thread, i64 {done}",
            f"  store i32 {layout.DONE}, ptr %state",
        ]
        entry = [f"  {text}" for text in self._entry]
        name = f'@"{self.kernel.name}"'
        if not self.suspends:
            head = [f"define ptr {name}(ptr %block, ptr %thread) {{", "entry:"]
            last = ["  ret ptr null", "}"]
            return "\n".join(
                [*head, *entry, "  br label %body", "body:", *self.lines, *finish, *last]
            )
        head = [
            f"define ptr {name}(ptr %block, ptr %thread) presplitcoroutine {{",
            "entry:",
            "  %id = call token @llvm.coro.id(i32 16, ptr null, ptr null, ptr null)",
            "  %size = call i64 @llvm.coro.size.i64()",
            "  %memory = call ptr @malloc(i64 %size)",
            "  %frame = call ptr @llvm.coro.begin(token %id, ptr %memory)",
        ]
        last = [
            "  br label %leave",
            "leave:",
            "  call void @llvm.coro.end(ptr %frame, i1 false, token none)",
            "  ret ptr %frame",
            "}",
        ]
        return "\n".join([*head, *entry, "  br label %body", "body:", *self.lines, *finish, *last])


def label_name(name: str) -> str:
    """Return the LLVM label of a PTX label."""
    return f'"L{name}"'


ROUND_BF16 = (
    "ptx.round_bf16",
    """define internal i16 @ptx.round_bf16(float %x) alwaysinline {
  %bits = bitcast float %x to i32
  %high = lshr i32 %bits, 16
  %odd = and i32 %high, 1
  %half = add i32 %odd, 32767
  %sum = add i32 %bits, %half
  %rounded = lshr i32 %sum, 16
  %nan = fcmp uno float %x, %x
  %chosen = select i1 %nan, i32 32767, i32 %rounded
  %result = trunc i32 %chosen to i16
  ret i16 %result
}""",
)
"""Helper function that rounds an f32 to bf16, to nearest with ties to even."""
