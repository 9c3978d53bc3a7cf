"""The interface of target kinds: everything that compiler, runtime and tools ask of a target.

A kind is one class in one file. `launched.LaunchedTarget` is the base class for targets whose
kernels are source text that a device runs launch by launch; subclasses of it have the least to
implement.

The module of a kind is imported by every compile and every load, even if the program is cached. It
must therefore import expensive modules lazily.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Protocol

from tcopt.support.accuracy import PRECISE
from tcopt.support.errors import UnsupportedError
from tcopt.support.pipelines.pass_specs import PassSpec
from tcopt.support.pipelines.phases import Phase, configured

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.dialects.func import FuncOp
    from xdsl.utils.target import Target

    from tcopt.dialects.target import TargetFacts
    from tcopt.runtime.container import Container
    from tcopt.runtime.device.interface import Device
    from tcopt.runtime.device.steps import KernelLaunch
    from tcopt.runtime.run_options import DeviceName
    from tcopt.runtime.whole_program import WholeProgram

    Array = NDArray[Any]
    Weights = MutableMapping[str, Array]


@dataclass(frozen=True)
class KernelCode:
    """Code of a function, with the facts that the host needs to call it.

    Attributes:
        code: object code, or source text.
        workspace: types, as text, of the workspace buffers that a caller passes after all
            arguments.
        externals: C functions that the code calls.
        launches: kernel launches that make up a call of the function, if the host only launches.
        host_call: host function and its settings, called instead of `code`.
    """

    code: bytes
    workspace: tuple[str, ...] = ()
    externals: tuple[str, ...] = ()
    launches: tuple[KernelLaunch, ...] = ()
    host_call: tuple[str, Mapping[str, Any]] | None = None


class CompiledKernel(Protocol):
    """A compiled kernel as part of a program: its code and the symbol that names it."""

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
        name: name in `--target NAME` and in saved models of the kind.
        facts: class of the target attribute of a module.
        machines: target attributes by machine name, the default first; third-party code may add
            some.
        precisions: types that layers may round their operands to.
        names_in_code: whether code contains names from the model, so that kernels that differ only
            in names need separate cache entries.
        capabilities: names of `TargetFacts.capabilities` that all machines of the kind have.
        is_simulated: whether its machines are simulated, so that measured times are exact.
        serves_sizes: whether one program can serve a range of sizes.
        computes_sizes: whether a program can also compute sizes, and have loops that data ends.
        updates_inputs: whether programs can overwrite donated inputs with results.
    """

    name: ClassVar[str]
    precisions: ClassVar[Sequence[str]] = (PRECISE,)
    names_in_code: ClassVar[bool] = False
    capabilities: ClassVar[Collection[str]] = ()
    is_simulated: ClassVar[bool] = False
    serves_sizes: ClassVar[bool] = False
    computes_sizes: ClassVar[bool] = False
    updates_inputs: ClassVar[bool] = False

    # Facts about the hardware.

    if TYPE_CHECKING:
        # A kind assigns these in its class body, or defines properties that import lazily.
        facts: type[TargetFacts]
        machines: MutableMapping[str, Any]
    else:

        @property
        @abstractmethod
        def facts(self):
            """Class of the target attribute of a module."""

        @property
        @abstractmethod
        def machines(self):
            """Target attributes by machine name, the default first; can be extended."""

    def has_machine(self, name: str) -> bool:
        """Whether a machine of this name exists."""
        return name in self.machines

    def attribute(self, machine: str = "") -> TargetFacts:
        """Return the target attribute of a machine, by default that of the default machine.

        Args:
            machine: a name, or the text of a target attribute.
        Raises:
            InputError: no machine has this name, or the text does not parse.
        """
        from tcopt.support.registries.target_registry import is_attribute, unknown_machine

        if is_attribute(machine):
            return _parsed(machine, self.facts)
        name = machine or next(iter(self.machines))
        if name not in self.machines:
            raise unknown_machine(self, name)
        return self.machines[name]

    def register_facts(self) -> None:
        """Register the target attribute, unless its dialect is already registered."""
        from xdsl.ir import Dialect

        from tcopt.support.registries.registry import DIALECTS, register_dialect

        dialect = self.facts.name.partition(".")[0]
        if dialect not in DIALECTS:
            register_dialect(Dialect(dialect, [], [self.facts]))

    # Lowering of a model.

    @abstractmethod
    def pipeline(self, machine: str, accuracy: str, precision: str) -> list[Phase]:
        """Return the phases of a compile, in the order of `support.pipelines.phases.PHASES`.

        Args:
            machine: machine name, empty for the default.
            accuracy: one of `support.accuracy.ACCURACIES`.
            precision: one of `precisions`.
        """

    def set_target(self, machine: str) -> PassSpec:
        """Return the pass that sets the target attribute of a module."""
        text = f"{self.name}:{machine}" if machine else self.name
        return PassSpec.of("set-target", target=text)

    def timed_pipeline(self, phases: Sequence[Phase]) -> list[Phase]:
        """Return the phases of a compile whose program records the times of its kernels.

        Kernel calls are then labelled with their ONNX nodes.
        """
        return configured(phases, "lower-graph-to-te", origins=True)

    def placed_phases(self) -> Sequence[Phase]:
        """Return the phases that compile a function placed on this target by a program of another.

        Raises:
            UnsupportedError: the kind cannot be combined with another target.
        """
        raise UnsupportedError(f"target {self.name} is not an accelerator for another target")

    def check(self, module: ModuleOp) -> None:
        """Reject a module that needs something the target lacks; called after the phase `te`.

        Raises:
            UnsupportedError: an op is not supported; the error has its location.
        """
        return None

    # Timing of kernels on simulated machines.

    def simulate(
        self, facts: TargetFacts, call: tuple[str, Mapping[str, Any]], arrays: Sequence[Array]
    ) -> float:
        """Run a kernel on arrays, which it may write; return the simulated time in nanoseconds.

        Args:
            facts: target attribute of the machine.
            call: host function and settings, as in `KernelCode.host_call`.
        Raises:
            UnsupportedError: the machines of the kind have no simulator.
        """
        raise UnsupportedError(f"machines of target {self.name} have no simulator")

    # Code generation and linking.

    @abstractmethod
    def kernel_code(self, module: ModuleOp, caller: FuncOp) -> KernelCode:
        """Generate code for a function after the phase `kernel`.

        Args:
            module: module with the function and everything that it uses.
            caller: host function with a single call of the function, detached from the module; the
                buffers that it allocates are the function's workspace.
        Raises:
            UnsupportedError: the target has no equivalent of an op or a type.
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
        """Build a program from a host function and the kernels that it calls.

        Args:
            module: module with the host function @main, whose memory is planned.
            weights: values by name; the mapping is emptied while they are packed.
            kernels: kernels by the names of the functions that the module declares.
            timed: whether each run records the times of its kernels.
        """

    def output(self) -> type[Target] | None:
        """Return the output format that `tcopt -t` offers under the kind's name; None if none."""
        return None

    # Saving and loading of programs.

    @abstractmethod
    def describe(self, program: Any) -> tuple[dict[str, Any], list[bytes | memoryview]]:
        """Return a program as JSON facts and binary parts, from which `read` rebuilds it."""

    @abstractmethod
    def read(self, path: Path, content: Container) -> WholeProgram:
        """Load the program of a saved model.

        Raises:
            InputError: the content was not written by `describe`.
        """

    def write(self, stream: BinaryIO, program: WholeProgram) -> None:
        """Write a saved model to an empty stream."""
        from tcopt.runtime.container import write_container

        facts, parts = self.describe(program)
        write_container(stream, self.name, facts, parts)

    def cache_facts(self, machine: str) -> object | None:
        """Return what a program depends on apart from the model and the pipeline; None disables
        caching. The `repr` of the result is part of the cache key. This must not import the
        compiler.
        """
        return None

    def loaded(self) -> None:
        """Free memory that is only needed while a program is loaded."""
        return None

    # Devices that programs run on.

    def open_device(self, which: DeviceName | None = None) -> Device | None:
        """Return the device that programs of the kind run on; None for the CPU.

        Args:
            which: its number or a part of its name; None for the default one.
        Raises:
            UnsupportedError: there is no such device.
        """
        return None

    def machine_of(self, which: DeviceName) -> str:
        """Return the name of the machine that a device is; empty for the default one.

        Raises:
            UnsupportedError: there is no such device.
        """
        return ""

    # Preparation of a process.

    def warm_up(self) -> None:
        """Import what `kernel_code` needs; called in an idle worker process."""
        return None


def lacks_precision(kind: TargetKind, precision: str) -> UnsupportedError:
    """Return the error for a precision that a kind does not support."""
    return UnsupportedError(
        f"target {kind.name} has no precision '{precision}'",
        hint=f"it has {', '.join(kind.precisions)}",
    )


def _parsed(text: str, facts: type[TargetFacts]) -> TargetFacts:
    """Return the target attribute of a text.

    Raises:
        InputError: the text is not an attribute of this class.
    """
    from xdsl.context import Context
    from xdsl.utils.exceptions import ParseError, VerifyException

    from tcopt.support.errors import InputError, VerificationError
    from tcopt.support.syntax.parsing import TextParser

    context = Context()
    context.load_attr_or_type(facts)
    parser = TextParser(context, text, "target")
    try:
        found = parser.parse_attribute()
        if text[parser.pos :].strip():
            parser.raise_error("unexpected text after the attribute")
    except ParseError as error:
        raise InputError(f"target '{text}' does not parse: {error.msg.strip()}") from None
    except (VerificationError, VerifyException) as error:
        raise InputError(f"target '{text}' is invalid: {error}") from None
    assert isinstance(found, facts)
    return found
