"""Finds kernels that would be slow, without generating code for them."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from tcopt.compiler.passes import run_passes
from tcopt.compiler.pipeline import Phase
from tcopt.support.remarks import Remark, collect_remarks

_LAST = "schedule"


def slow_kernels(module: ModuleOp, phases: list[Phase]) -> list[Remark]:
    """Return the remarks about slow kernels after scheduling.

    Args:
        module: an imported model, which is modified.
        phases: the pipeline of the target.
    Raises:
        PassFailedError: a pass could not rewrite the module.
    """
    names = [phase.name for phase in phases]
    with collect_remarks() as remarks:
        for phase in phases[: names.index(_LAST) + 1]:
            run_passes(module, phase.passes)
    return list(dict.fromkeys(remark for remark in remarks if remark.slow))
