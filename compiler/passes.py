"""Running passes of a pipeline on a module."""

from __future__ import annotations

from functools import lru_cache

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import DiagnosticException, PassFailedException, VerifyException

from tcopt.support.errors import PassFailedError, TcoptError
from tcopt.support.pass_specs import Passes
from tcopt.support.pipelines import make_passes, parse_specs
from tcopt.support.registry import DIALECTS, PASSES, all_dialects


def new_context() -> Context:
    """A context that knows every dialect."""
    context = Context()
    for name, factory in all_dialects().items():
        context.register_dialect(name, factory)
    return context


def shared_context() -> Context:
    """The context of all passes in this process."""
    return _context(DIALECTS.generation)


@lru_cache(maxsize=2)
def _context(generation: int) -> Context:
    return new_context()


def run_passes(module: ModuleOp, passes: Passes | str) -> None:
    """Run passes on a module, in place.

    Args:
        passes: also as text.
    Raises:
        PassFailedError: a pass could not rewrite the module.
    """
    context = shared_context()
    for each in passes_of(parse_specs(passes) if isinstance(passes, str) else passes):
        try:
            each.apply(context, module)
        except (PassFailedException, VerifyException, DiagnosticException) as error:
            raise PassFailedError(f"pass '{each.name}' failed: {error}") from error
        except Exception as error:
            if not isinstance(error, TcoptError):
                error.add_note(f"in pass '{each.name}'")
            raise


def passes_of(passes: Passes) -> tuple[ModulePass, ...]:
    """The passes that specifications name; they have no state, so they are made once."""
    return _passes(passes, PASSES.generation)


@lru_cache(maxsize=64)
def _passes(passes: Passes, generation: int) -> tuple[ModulePass, ...]:
    return make_passes(passes)
