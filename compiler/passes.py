"""Runs passes of a pipeline on a module."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from tcopt.support.pipelines import running
from tcopt.support.pipelines.pass_specs import Passes
from tcopt.support.pipelines.running import Instrument, new_context
from tcopt.support.pipelines.text import make_passes, parse_specs
from tcopt.support.registries.registry import DIALECTS, PASSES


def shared_context() -> Context:
    """Return the context shared by all passes in this process."""
    return _context(DIALECTS.generation)


@lru_cache(maxsize=2)
def _context(generation: int) -> Context:
    return new_context()


def run_passes(
    module: ModuleOp, passes: Passes | str, instruments: Sequence[Instrument] = ()
) -> None:
    """Run passes on a module, in place.

    Args:
        passes: pass specifications, or their textual form.
        instruments: called around each pass.
    Raises:
        PassFailedError: a pass could not rewrite the module.
    """
    specs = parse_specs(passes) if isinstance(passes, str) else passes
    running.run_passes(shared_context(), module, passes_of(specs), instruments)


def passes_of(passes: Passes) -> tuple[ModulePass, ...]:
    """Return the passes of some specifications; they are stateless, so they are memoised."""
    return _passes(passes, PASSES.generation)


@lru_cache(maxsize=64)
def _passes(passes: Passes, generation: int) -> tuple[ModulePass, ...]:
    return make_passes(passes)
