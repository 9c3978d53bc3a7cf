"""Models of PyTorch: `torch.compile(model, backend="tcopt")` and `tcopt.torch.compile(program)`.

Only this folder imports torch. PyTorch's own exporter translates a program to ONNX, and
`frontends/onnx` imports the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tcopt.torch.dynamo import backend
    from tcopt.torch.exported import CompiledProgram, compile
    from tcopt.torch.fallbacks import FallbackWarning

_HOMES = {
    "CompiledProgram": "tcopt.torch.exported",
    "FallbackWarning": "tcopt.torch.fallbacks",
    "backend": "tcopt.torch.dynamo",
    "compile": "tcopt.torch.exported",
}

__all__ = ["CompiledProgram", "FallbackWarning", "backend", "compile"]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    from tcopt.support.extras import missing_package

    if name not in _HOMES:
        raise AttributeError(f"module 'tcopt.torch' has no attribute {name!r}")
    try:
        return getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        missing = missing_package(error)
        if missing is None:
            raise
        raise missing from error
