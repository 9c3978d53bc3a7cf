"""Compiled models at run time: load, run, save."""

from tcopt.runtime.model import Model, TensorSpec, load

__all__ = ["Model", "TensorSpec", "load"]
