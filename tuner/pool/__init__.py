"""Measurement on several machines by Dask distributed, with workers labelled by device."""
