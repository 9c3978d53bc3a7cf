"""The compiler as one call: a model in, native code out, through a printable pipeline.

What compiles whole models is imported when it is first used: a worker process, which compiles
kernels alone, needs nothing of the front end.
"""

from typing import TYPE_CHECKING, Any

from tcopt.compiler.pipeline import PHASES, Phase, pipeline
from tcopt.support.collector import quiet_collector

if TYPE_CHECKING:
    from tcopt.compiler.driver import STEPS, compile, lower

__all__ = ["PHASES", "STEPS", "Phase", "compile", "lower", "pipeline"]


def __getattr__(name: str) -> Any:
    if name in ("STEPS", "compile", "lower"):
        with quiet_collector():
            from tcopt.compiler import driver

        return getattr(driver, name)
    raise AttributeError(f"module 'tcopt.compiler' has no attribute {name!r}")
