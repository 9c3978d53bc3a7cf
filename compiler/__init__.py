"""The compiler as one call: a model in, native code out, through a printable pipeline.

What it takes to compile is imported when something is compiled: a program from the cache needs
none of it, and a worker process, which compiles kernels alone, nothing of the front end.
"""

from typing import TYPE_CHECKING, Any

from tcopt.compiler.pipeline import PHASES, pipeline
from tcopt.compiler.report import STEPS
from tcopt.support.collector import quiet_collector
from tcopt.support.pass_specs import PassSpec
from tcopt.support.phases import Phase

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
