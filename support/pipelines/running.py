"""Application of passes to modules, shared by the compiler and the tools."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import DiagnosticException

from tcopt.support.errors import PassFailedError, TcoptError
from tcopt.support.registries.registry import all_dialects

_OWN = "tcopt."


def new_context(*, allow_unregistered: bool = False) -> Context:
    """Return a context with all dialects, each of which is loaded on first use."""
    context = Context(allow_unregistered=allow_unregistered)
    for name, factory in all_dialects().items():
        context.register_dialect(name, factory)
    return context


class Instrument:
    """Called around each pass; the default implementation does nothing."""

    def start(self, ctx: Context, module: ModuleOp) -> None:
        """Called once before the first pass."""

    def before(self, index: int, module_pass: ModulePass, module: ModuleOp) -> None:
        """Called before pass number `index`."""

    def after(self, index: int, module_pass: ModulePass, module: ModuleOp) -> None:
        """Called after pass number `index`."""

    def finish(self, module: ModuleOp) -> None:
        """Called once after the last pass."""


def run_passes(
    ctx: Context,
    module: ModuleOp,
    passes: Sequence[ModulePass],
    instruments: Sequence[Instrument] = (),
) -> None:
    """Apply passes in order; instruments run before the first pass and after each.

    Raises:
        TcoptError: a pass failed; the message names the pass.
    """
    for instrument in instruments:
        instrument.start(ctx, module)
    for index, module_pass in enumerate(passes):
        for instrument in instruments:
            instrument.before(index, module_pass, module)
        _check_functions(module_pass, module)
        apply_pass(ctx, module, module_pass)
        # Instruments run in reverse order, so that the clock stops before the others take time.
        for instrument in reversed(instruments):
            instrument.after(index, module_pass, module)
    for instrument in instruments:
        instrument.finish(module)


def _check_functions(module_pass: ModulePass, module: ModuleOp) -> None:
    """Check that each function is one block, as this project's passes require."""
    if not type(module_pass).__module__.startswith(_OWN):
        return
    for op in module.ops:
        if isinstance(op, FuncOp) and len(op.body.blocks) > 1:
            raise PassFailedError(
                f"pass '{module_pass.name}' works on functions of one block, "
                f"@{op.sym_name.data} has {len(op.body.blocks)}",
                op=op,
            )


def apply_pass(context: Context, module: ModuleOp, module_pass: ModulePass) -> None:
    """Apply a pass to a module, in place.

    Raises:
        TcoptError: the pass failed; unexpected exceptions get a note with the name of the pass.
    """
    try:
        module_pass.apply(context, module)
    except DiagnosticException as error:
        raise PassFailedError(f"pass '{module_pass.name}': {_first_line(error)}") from error
    except Exception as error:
        if not isinstance(error, TcoptError):
            error.add_note(f"in pass '{module_pass.name}'")
        raise


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "failed")
