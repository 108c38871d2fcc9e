"""Reader of the ``.hspy`` files of HyperSpy, which are HDF5 files with signals and their axes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from maxnorm.streams.chunked_files import follow_links, open_hdf5
from maxnorm.streams.file_checks import LARGEST_ROW_ENTRIES
from maxnorm.streams.stream import Columns, Stream, StreamError, needs

SIGNALS = "Experiments"  # the group that holds the signals


def open_hspy(
    path: Path, *, batch_size: int | None, columns: Columns, key: str | None, transpose: bool, external: bool
) -> Stream:
    """Return a stream over a signal: each position of the navigation axes is a sample.

    The entries along the signal axes are the features: the energies of a spectrum, or the pixels of a
    diffraction pattern. ``key`` is the name of the signal, if the file holds several.
    """
    h5py = needs("h5py", "reading HyperSpy files")
    title = str(path)
    if transpose:
        raise StreamError(f"{title}: a signal of HyperSpy cannot be transposed; set transpose to False")
    with h5py.File(path, "r") as file:
        names = list(_group(file, SIGNALS, external, title))
        name = key or (names[0] if len(names) == 1 else None)
        if name not in names:
            reason = f"holds {len(names)} signals" if key is None else f"key={key!r} names no signal"
            raise StreamError(f"{title}: {reason}; set key to one of {', '.join(map(repr, names))}")
        signal = f"{SIGNALS}/{name}"
        n_axes = sum(axis.startswith("axis-") for axis in _group(file, signal, external, title))
        axes = [_group(file, f"{signal}/axis-{i}", external, title) for i in range(n_axes)]
        navigates = [bool(axis.attrs["navigate"]) for axis in axes]
        shape = file[follow_links(file, f"{signal}/data", external, title)].shape
    if len(shape) != n_axes:
        raise StreamError(f"{title}: {name!r} has {n_axes} axes and data of shape {shape}; it is damaged")
    n_navigation = sum(navigates)
    if not 0 < n_navigation < n_axes or not all(navigates[:n_navigation]):
        raise StreamError(
            f"{title}: {name!r} does not have navigation axes followed by signal axes, so that there are no "
            "samples and features; use transpose of HyperSpy and save the signal again"
        )
    if n_navigation > 1 and math.prod(shape[1:]) > LARGEST_ROW_ENTRIES:
        raise StreamError(
            f"{title}: {name!r} has {math.prod(shape[1:])} entries per row of the scan, more than the "
            f"{LARGEST_ROW_ENTRIES} that can be read at once; save a signal with one navigation axis"
        )
    return open_hdf5(
        path,
        batch_size=batch_size,
        columns=columns,
        key=f"{signal}/data",
        transpose=False,
        external=external,
        n_sample_axes=n_navigation,
    )


def _group(file: Any, key: str, external: bool, title: str) -> Any:
    """Return a group of an HDF5 file, which is in another file only if ``external`` allows it."""
    name = follow_links(file, key, external, title)
    if name not in file or not hasattr(file[name], "keys"):
        raise StreamError(f"{title}: has no group {key!r}; it is damaged, or was not saved by HyperSpy")
    return file[name]
