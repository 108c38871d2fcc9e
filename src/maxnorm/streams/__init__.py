"""Sources of samples: files, arrays and iterables, batch by batch."""

from maxnorm.streams.opening import open_stream
from maxnorm.streams.stream import Stream, StreamError

__all__ = ["Stream", "StreamError", "open_stream"]
