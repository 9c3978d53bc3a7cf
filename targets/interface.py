"""What a kind of target is made of: all that the compiler, the runtime and the tools ask of one.

A kind is one class in one file. `launched.LaunchedTarget` is the base of those whose kernels are
texts that something else runs, step by step, and needs least.

A module of a kind is imported for every compile and every load, also of what is found in the
cache, so it imports what takes long where it is used.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Protocol

from tcopt.support.accuracy import PRECISE
from tcopt.support.errors import UnsupportedError
from tcopt.support.pass_specs import PassSpec
from tcopt.support.phases import Phase, configured

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.dialects.func import FuncOp
    from xdsl.utils.target import Target

    from tcopt.dialects.target import TargetFacts
    from tcopt.runtime.container import Container
    from tcopt.runtime.device.steps import KernelLaunch
    from tcopt.runtime.whole_program import WholeProgram

    Array = NDArray[Any]
    Weights = MutableMapping[str, Array]


@dataclass(frozen=True)
class KernelCode:
    """What a kind makes of a function: code, and what the host must know to call it.

    Attributes:
        code: object code, or a text.
        workspace: types, as text, of the buffers that a caller gives after all other arguments.
        externals: C functions that the code calls.
        launches: what a call of the function launches, where the host only launches.
        host_call: the host function, with its settings, that is called in place of code.
    """

    code: bytes
    workspace: tuple[str, ...] = ()
    externals: tuple[str, ...] = ()
    launches: tuple[KernelLaunch, ...] = ()
    host_call: tuple[str, Mapping[str, Any]] | None = None


class CompiledKernel(Protocol):
    """A kernel as a program gets it: its code under a symbol."""

    @property
    def symbol(self) -> str: ...
    @property
    def code(self) -> bytes: ...
    @property
    def externals(self) -> tuple[str, ...]: ...
    @property
    def launches(self) -> tuple[KernelLaunch, ...]: ...


class TargetKind(ABC):
    """A kind of target.

    Attributes:
        name: as in `--target NAME`, and what saved models of the kind say.
        facts: class of the attribute that describes the machine of a module.
        machines: machines by name, the default first; a program may add to them.
        precisions: what layers may round their operands to.
        names_in_code: whether code shows names of the model, so that kernels that are equal but
            for these are kept apart.
        capabilities: what all of its machines have, as `TargetFacts.capabilities` may say.
        is_simulated: whether a simulator stands for its machines, so that times are exact.
    """

    name: ClassVar[str]
    precisions: ClassVar[Sequence[str]] = (PRECISE,)
    names_in_code: ClassVar[bool] = False
    capabilities: ClassVar[Collection[str]] = ()
    is_simulated: ClassVar[bool] = False

    # What the hardware is.

    if TYPE_CHECKING:
        # A kind assigns these in its class body, or has properties that import lazily.
        facts: type[TargetFacts]
        machines: MutableMapping[str, Any]
    else:

        @property
        @abstractmethod
        def facts(self):
            """Class of the attribute that describes the machine of a module."""

        @property
        @abstractmethod
        def machines(self):
            """Machines by name, the default first; a program may add to them."""

    def has_machine(self, name: str) -> bool:
        """Whether there is a machine of a name."""
        return name in self.machines

    def attribute(self, machine: str = "") -> TargetFacts:
        """What a module says that is compiled for a machine; without a name the default one.

        Raises:
            InputError: there is no such machine.
        """
        from tcopt.support.target_registry import unknown_machine

        name = machine or next(iter(self.machines))
        if name not in self.machines:
            raise unknown_machine(self, name)
        return self.machines[name]

    def register_facts(self) -> None:
        """Make the attribute of facts one that can be read, unless its dialect is there."""
        from xdsl.ir import Dialect

        from tcopt.support.registry import DIALECTS, register_dialect

        dialect = self.facts.name.partition(".")[0]
        if dialect not in DIALECTS:
            register_dialect(Dialect(dialect, [], [self.facts]))

    # How a model is lowered.

    @abstractmethod
    def pipeline(self, machine: str, accuracy: str, precision: str) -> list[Phase]:
        """The phases of a compile, those of `support.phases.PHASES` in order.

        Args:
            machine: its name, empty for the default.
            accuracy: one of `support.accuracy.ACCURACIES`.
            precision: one of `precisions`.
        """

    def set_target(self, machine: str) -> PassSpec:
        """The pass that says what a module is compiled for."""
        text = f"{self.name}:{machine}" if machine else self.name
        return PassSpec.of("set-target", target=text)

    def timed_pipeline(self, phases: Sequence[Phase]) -> list[Phase]:
        """The phases of a compile whose program notes when its kernels run.

        Kernel calls then know their ONNX nodes.
        """
        return configured(phases, "lower-graph-to-te", origins=True)

    def placed_phases(self) -> Sequence[Phase]:
        """The phases of a function of a program of another kind that is placed on this one.

        Raises:
            UnsupportedError: the kind has no functions in programs of another.
        """
        raise UnsupportedError(f"target {self.name} is not an accelerator beside another one")

    def check(self, module: ModuleOp) -> None:
        """Refuse a module, after the phase `te`, that needs what the kind does not have.

        Raises:
            UnsupportedError: an op, by its location.
        """
        return None

    # How kernels are timed where a simulator stands for the machine.

    def simulate(
        self, facts: TargetFacts, call: tuple[str, Mapping[str, Any]], arrays: Sequence[Array]
    ) -> float:
        """Run a kernel on arrays, some of which it writes; nanoseconds that the machine takes.

        Args:
            facts: of the machine.
            call: the host function that `kernel_code` gave, with its settings.
        Raises:
            UnsupportedError: no simulator stands for its machines.
        """
        raise UnsupportedError(f"no simulator stands for machines of target {self.name}")

    # How code becomes a program.

    @abstractmethod
    def kernel_code(self, module: ModuleOp, caller: FuncOp) -> KernelCode:
        """Code for a function after the phase `kernel`.

        Args:
            module: holds the function, and what it uses.
            caller: a host function that called it once, taken out of the module; buffers that it
                allocates are the function's workspace.
        Raises:
            UnsupportedError: an op or a type has no form there.
        """

    @abstractmethod
    def build(
        self,
        module: ModuleOp,
        weights: Weights,
        kernels: Mapping[str, CompiledKernel],
        *,
        timed: bool = False,
    ) -> WholeProgram:
        """A program of a host function and the kernels that it calls.

        Args:
            module: has the host function @main, whose memory is planned.
            weights: values by name; the mapping is emptied as they are packed.
            kernels: by the names of the functions that the module declares.
            timed: whether each run notes when kernels run.
        """

    def output(self) -> type[Target] | None:
        """The form of output that `tcopt -t` knows by the kind's name; None if it has none."""
        return None

    # How a program is kept.

    @abstractmethod
    def describe(self, program: Any) -> tuple[dict[str, Any], list[bytes | memoryview]]:
        """What `read` makes the program of: facts as JSON has them, and parts."""

    @abstractmethod
    def read(self, path: Path, content: Container) -> WholeProgram:
        """The program of a saved model.

        Raises:
            InputError: the description is not one that `describe` gives.
        """

    def save(self, path: Path, program: WholeProgram) -> None:
        """Write a program to a `.tcm` file, or to what else a suffix asks for.

        Raises:
            InputError: the folder does not exist or is not writable.
            UnsupportedError: a shared library is asked for.
        """
        from tcopt.runtime.archive import write_archive

        if path.suffix == ".so":
            raise UnsupportedError(
                f"a model for target {self.name} cannot be a shared library",
                hint="save it as a .tcm file",
            )
        write_archive(path, program)

    def write(self, stream: BinaryIO, program: WholeProgram) -> None:
        """Write a saved model to a stream that is empty."""
        from tcopt.runtime.container import write_container

        facts, parts = self.describe(program)
        write_container(stream, self.name, facts, parts)

    def cache_facts(self, machine: str) -> object | None:
        """What a program depends on beside the model and the pipeline, in a form that `repr` tells
        apart, and without importing what it takes to compile; None if programs are not kept."""
        return None

    def loaded(self) -> None:
        """A program was loaded: give back what is not needed any more."""
        return None

    # How a process gets ready.

    def warm_up(self) -> None:
        """Import what `kernel_code` needs, in a worker process that waits for work."""
        return None


def lacks_precision(kind: TargetKind, precision: str) -> UnsupportedError:
    """The error for a precision that a kind does not have."""
    return UnsupportedError(
        f"target {kind.name} has no precision '{precision}'",
        hint=f"it has {', '.join(kind.precisions)}",
    )
