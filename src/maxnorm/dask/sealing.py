"""Functions and values that any process can unpickle, even if it lacks this version of the library.

Schedulers and workers unpickle whatever arrives. If that fails, for instance because a module is missing,
Dask may wait forever. Graphs therefore contain no function and no value of this library as such. A function
is sent as bytes that carry the version of the client (:class:`Guarded`). The worker compares it with its own
version where the work happens, before it unpickles the function. A value is sent as bytes that only a guarded
function opens (:class:`Sealed`). Without a cluster nothing is pickled, and both are thin wrappers.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import partial, update_wrapper
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

import maxnorm


class Guarded:
    """A function of this library that raises a clear error on workers with another version.

    Parameters
    ----------
    function : callable
        Function that can be imported by its name.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        update_wrapper(self, function)  # Dask looks at the signature

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Call the function."""
        return self.function(*arguments, **keywords)

    def __reduce__(self) -> tuple[Any, ...]:
        import cloudpickle

        run = partial(_make_run(), maxnorm.__version__, pickle.dumps(self.function))
        return pickle.loads, (cloudpickle.dumps(run),)

    def __dask_tokenize__(self) -> str:
        return f"{self.function.__module__}.{self.function.__qualname__}"


def _make_run() -> Callable[..., Any]:
    """Return the function that a guarded function is pickled as.

    A function that is defined in a function is pickled as its code, so that it reaches a worker that lacks
    this module. It must not use any name of this module.
    """

    def run(version: str, payload: bytes, *arguments: Any, **keywords: Any) -> Any:
        import pickle

        try:
            import maxnorm

            installed = f"maxnorm {maxnorm.__version__}"
        except ImportError:
            installed = "no maxnorm"
        if installed != f"maxnorm {version}":
            try:
                from distributed import get_worker

                worker = f"worker {get_worker().address}"
            except (ImportError, ValueError):  # Dask uses processes without a cluster
                worker = "a worker"
            raise RuntimeError(f"{worker} has {installed}; install maxnorm {version} on all workers")
        return pickle.loads(payload)(*arguments, **keywords)

    return run


class Sealed:
    """A value that is unpickled as a function without arguments, which unpickles and returns the value.

    Both the sealed value and this function return the value when they are called.

    Parameters
    ----------
    value : object
        Any value. It has to be picklable only if it is sent to another process.
    """

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self) -> Any:
        """Return the value."""
        return self.value

    def __reduce__(self) -> tuple[Any, ...]:
        import cloudpickle

        buffers: list[Any] = []
        payload = cloudpickle.dumps(self.value, protocol=5, buffer_callback=buffers.append)
        # Arrays are kept apart from the bytes, so that the unpickled ones share their memory.
        arrays = [np.asarray(buffer.raw()) for buffer in buffers]
        function = partial(pickle.loads, payload, buffers=arrays)
        return tuple(function.__reduce__())


_opened: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


def open_once(sealed: Any) -> Any:
    """Return the value of a sealed value, which is unpickled once and kept as long as the sealed value is.

    Raises
    ------
    RuntimeError
        If the value needs a module that this process lacks, for instance one with a noise model of the user.
    """
    if sealed not in _opened:
        try:
            _opened[sealed] = sealed()
        except (ImportError, AttributeError) as error:
            raise RuntimeError(
                f"a worker lacks what the model needs: {error}; install it on all workers"
            ) from error
    return _opened[sealed]
