"""Sources of samples: files, arrays and iterables, read batch by batch.

==================  ==================================================================================
module              contents
==================  ==================================================================================
``opening``         ``open_stream``, which chooses the reader for a source
``stream``          ``Stream``, the type that every reader returns, and functions that resize batches
``columns``         the selection of columns by name or position
``prefetch``        reading ahead of the consumer in a background thread
``array_files``     readers of ``.npy``, ``.npz``, HDF5, Zarr and MATLAB files
``text_files``      reader of CSV, TSV and other delimited text, and of standard input
``columnar_files``  readers of Parquet, Arrow and Feather files
``memory``          readers of arrays, data frames, sparse matrices, Dask collections and iterables
``writing``         writers of results
==================  ==================================================================================
"""

from maxnorm.streams.opening import open_stream
from maxnorm.streams.stream import Stream, StreamError

__all__ = ["Stream", "StreamError", "open_stream"]
