"""Handwritten kernels: `y = x + x` on 4096 floats, fast, slow, and wrong in every way."""

from __future__ import annotations

from collections.abc import Sequence

from tcopt.backends.llvm.machine.host import host_target
from tcopt.backends.llvm.machine.machine import assemble_object
from tcopt.backends.llvm.pool.text import STOP_VARIABLE
from tcopt.tuner.arguments import INPUT, OUTPUT, WORKSPACE, Argument
from tcopt.tuner.candidates import Candidate
from tcopt.tuner.measure.builders import Built
from tcopt.tuner.measure.outcomes import COMPILE_TIMEOUT, CandidateFailed
from tcopt.tuner.measure.reference import Reference
from tcopt.tuner.measure.values import SETS, make_values
from tcopt.tuner.measure.workload import Code, Workload
from tcopt.tuner.tasks import Task

SIZE = 4096

ARGUMENTS = (
    Argument((SIZE,), "float32", INPUT),
    Argument((SIZE,), "float32", OUTPUT),
)
EXPECTED = tuple((2.0 * make_values((SIZE,), "float32", 0, kind),) for kind in range(SETS))
WORKLOAD = Workload("double", ARGUMENTS, EXPECTED)


def _loop(body: str, count: int = SIZE, name: str = "loop") -> str:
    """Run `body` for each %i, whatever it contains."""
    return f"""
  br label %{name}
{name}:
  %i.{name} = phi i64 [ 0, %{"entry" if name == "loop" else "end.loop"} ], [ %next.{name}, %{name} ]
{body.replace("%i", f"%i.{name}").replace("%v", f"%v.{name}")}
  %next.{name} = add i64 %i.{name}, 1
  %more.{name} = icmp slt i64 %next.{name}, {count}
  br i1 %more.{name}, label %{name}, label %end.{name}
end.{name}:"""


def _double(limit: int = SIZE, source: str = "x") -> str:
    return _loop(
        f"""  %vp = getelementptr float, ptr %{source}, i64 %i
  %v = load float, ptr %vp, align 4
  %vd = fadd float %v, %v
  %vq = getelementptr float, ptr %y, i64 %i
  store volatile float %vd, ptr %vq, align 4""",
        limit,
    )


def _waste(count: int) -> str:
    """Precede the work with this many loads."""
    return f"""
  br label %waste
waste:
  %n = phi i64 [ 0, %entry ], [ %n2, %waste ]
  %w = load volatile float, ptr %x, align 4
  %n2 = add i64 %n, 1
  %on = icmp slt i64 %n2, {count}
  br i1 %on, label %waste, label %work
work:"""


def _text(body: str, more: str = "", parameters: str = "ptr %x, ptr %y") -> str:
    return f"""
@{STOP_VARIABLE} = external global i32
{more}
define void @tcopt.candidate({parameters}) {{
entry:
{body}
  ret void
}}
"""


def _at(position: int, pointer: str = "y") -> str:
    return f"""
  %out = getelementptr float, ptr %{pointer}, i64 {position}
  store volatile float 1.0, ptr %out, align 4"""


_GREEDY = f"""
  br label %take
take:
  %p = call ptr @malloc(i64 67108864)
  %none = icmp eq ptr %p, null
  br i1 %none, label %out, label %touch
touch:
  store volatile i8 1, ptr %p
  br label %take
out:
  store atomic i32 -65536, ptr @{STOP_VARIABLE} monotonic, align 4"""

TEXTS = {
    "good": _text(_double()),
    "slow": _text(_waste(20_000) + _double().replace("%entry", "%work")),
    "very slow": _text(_waste(1_000_000) + _double().replace("%entry", "%work")),
    "crash": _text("  store volatile float 1.0, ptr null, align 4" + _double()),
    "far": _text(_double() + _at(SIZE + 65536)),
    "behind": _text(_double() + _at(SIZE)),
    "in front": _text(_double() + _at(-1)),
    "to an input": _text(_double() + _at(0, "x")),
    "wrong": _text(_double(source="y")),
    "a hole": _text(_double(SIZE - 1)),
    "hang": _text("  br label %for_ever\nfor_ever:\n  br label %for_ever\nnever:"),
    "greedy": _text(_GREEDY, "declare ptr @malloc(i64)"),
    "ends": _text("  call void @abort()" + _double(), "declare void @abort()"),
    # Killed, as by a system that is out of memory.
    "killed": _text(
        "  %me = call i32 @getpid()\n  %done = call i32 @kill(i32 %me, i32 9)" + _double(),
        "declare i32 @getpid()\ndeclare i32 @kill(i32, i32)",
    ),
    "old workspace": _text(_double(source="w"), parameters="ptr %x, ptr %y, ptr %w"),
}


def planted(name: str) -> Code:
    """Return the code of a planted kernel."""
    called = {"greedy": ("malloc",), "ends": ("abort",), "killed": ("getpid", "kill")}
    externals = called.get(name, ())
    workspace = (Argument((SIZE,), "float32", WORKSPACE),) if name == "old workspace" else ()
    data = assemble_object(TEXTS[name], host_target())
    return Code("tcopt.candidate", data, externals, workspace, sequence=name, rule="planted")


def planted_task(name: str = "double") -> Task:
    """Return a task for the planted kernels."""
    return Task(
        key=name,
        anchor=name,
        name=name,
        functions=(name,),
        nodes=(),
        text="""
te.func @double(%x: tensor<4096xf32>) -> tensor<4096xf32> {
  %y = te.compute "double" [%i = 4096] : tensor<4096xf32> {
    %0 = te.read %x[%i] : tensor<4096xf32>
    %1 = arith.addf %0, %0 : f32
    te.yield %1 : f32
  }
  te.return %y : tensor<4096xf32>
}""",
        te_text="",
        target="",
        kind="cpu",
        arguments=ARGUMENTS,
        phases=(),
        ns=1000.0,
    )


class PlantedBuilder:
    """Builder of the kernel that a candidate's rule names; the default is slow."""

    def __init__(self) -> None:
        self.stopped = False

    def build(self, candidates: Sequence[Candidate], limit: float) -> list[Built]:
        return [self._one(candidate) for candidate in candidates]

    def _one(self, candidate: Candidate) -> Built:
        if candidate.rule == "takes for ever":
            return CandidateFailed(COMPILE_TIMEOUT, "compiling did not end within 10 s")
        return planted(candidate.rule or "slow")

    def reference(self, task: Task) -> Reference:
        return Reference(EXPECTED, 2.0**-24, False)

    def stop(self) -> None:
        self.stopped = True
