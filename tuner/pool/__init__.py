"""Several machines that measure: Dask distributed, workers labelled by device."""
