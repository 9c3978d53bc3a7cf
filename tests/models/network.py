"""The builder that the test networks are written with."""

from tcopt.frontends.onnx.building.network import Network

__all__ = ["Network"]
