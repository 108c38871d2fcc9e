"""Sources of samples: files, arrays and iterables, read batch by batch.

==================  ==================================================================================
module              contents
==================  ==================================================================================
``opening``         ``open_stream``, which chooses the reader for a source
``stream``          ``Stream``, the type that every reader returns, and functions that resize batches
``columns``         the selection of columns by name or position
``prefetch``        reading ahead of the consumer in a background thread
``numpy_files``     readers of ``.npy`` and ``.npz`` files
``chunked_files``   readers of HDF5, MATLAB v7.3 and Zarr files
``matlab_files``    reader of MATLAB files before v7.3
``text_files``      reader of CSV, TSV and other delimited text, and of standard input
``live_lines``      lines of standard input and of pipes, as they arrive
``columnar_files``  readers of Parquet, Arrow and Feather files
``file_checks``     checks of what a file declares, and the limits on it
``sparse_checks``   checks of sparse matrices, before compiled code trusts them
``memory``          readers of arrays, data frames, sparse matrices, Dask collections and iterables
``writing``         writers of results
==================  ==================================================================================
"""

from maxnorm.streams.opening import open_stream
from maxnorm.streams.stream import Stream, StreamError

__all__ = ["Stream", "StreamError", "open_stream"]
