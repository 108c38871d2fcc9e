"""Learning from Dask collections."""
