"""Compiled models at run time: loading, running and saving."""

from tcopt.runtime.model import Model, TensorSpec
from tcopt.runtime.saved import load
from tcopt.runtime.session import Session
from tcopt.runtime.stopping import Cancellation

__all__ = ["Cancellation", "Model", "TensorSpec", "Session", "load"]
