"""The compiler as one call: from a model to native code, through a printable pipeline.

Modules that are only needed to compile are imported lazily: loading a cached program needs none of
them, and worker processes, which only compile kernels, need no front end.
"""

from typing import TYPE_CHECKING, Any

from tcopt.compiler.pipeline import pipeline
from tcopt.compiler.report import STEPS
from tcopt.support.pipelines.pass_specs import PassSpec
from tcopt.support.pipelines.phases import PHASES, Phase
from tcopt.support.processes.collector import quiet_collector

if TYPE_CHECKING:
    from tcopt.compiler.driver import lower
    from tcopt.compiler.entry import compile

_HOMES = {"compile": "entry", "lower": "driver"}

__all__ = ["PHASES", "STEPS", "PassSpec", "Phase", "compile", "lower", "pipeline"]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'tcopt.compiler' has no attribute {name!r}")
    with quiet_collector():
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
