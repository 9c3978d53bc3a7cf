"""The builder of the test networks."""

from tcopt.frontends.onnx.building.network import Network

__all__ = ["Network"]
