"""Application of passes to modules, shared by the compiler and the tools."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import DiagnosticException

from tcopt.support.errors import PassFailedError, TcoptError
from tcopt.support.registries.registry import all_dialects


def new_context(*, allow_unregistered: bool = False) -> Context:
    """Return a context with all dialects, each of which is loaded on first use."""
    context = Context(allow_unregistered=allow_unregistered)
    for name, factory in all_dialects().items():
        context.register_dialect(name, factory)
    return context


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
