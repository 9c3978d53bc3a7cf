"""Measurement on several machines: Dask distributed, with workers labelled by device."""
