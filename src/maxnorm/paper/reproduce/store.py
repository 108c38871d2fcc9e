"""Compute cells in parallel processes, and save each result as soon as it is known."""

from __future__ import annotations

import json
import os
import signal
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from pathlib import Path

from threadpoolctl import threadpool_limits

from maxnorm.paper.reproduce.cells import Cell, Result


class CellError(RuntimeError):
    """The computation of a cell has failed. The message names the cell and the error."""


def load(cell: Cell, folder: Path) -> Result | None:
    """Return the saved result of a cell, or None if there is none.

    Parameters
    ----------
    cell : Cell
        The cell.
    folder : Path
        Folder of the results.

    Returns
    -------
    dict or None
        The result. An unreadable file counts as missing, so that the cell is computed again.
    """
    try:
        result: Result = json.loads(_path(cell, folder).read_text())["result"]
    except (OSError, ValueError, KeyError):
        return None
    return result


def save(cell: Cell, result: Result, folder: Path) -> None:
    """Save the result of a cell; it is written to a temporary file and renamed when complete.

    Parameters
    ----------
    cell : Cell
        The cell.
    result : dict
        Its result.
    folder : Path
        Folder of the results.
    """
    path = _path(cell, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.part")
    temporary.write_text(json.dumps({"kind": cell.kind, "settings": dict(cell.settings), "result": result}))
    temporary.replace(path)


def restore(path: Path, folder: Path) -> None:
    """Save the cells of a results.json that the folder does not contain yet.

    Parameters
    ----------
    path : Path
        File that :func:`maxnorm.paper.reproduce.page.write` has written, perhaps on another machine.
    folder : Path
        Folder of the results.
    """
    for row in json.loads(path.read_text())["cells"]:
        del row["figures"]
        kind, result = row.pop("kind"), row.pop("result")
        cell = Cell.of(kind, **row)
        if load(cell, folder) is None:
            save(cell, result, folder)


def _path(cell: Cell, folder: Path) -> Path:
    return folder / "cells" / f"{cell.key}.json"


def compute(cell: Cell, folder: Path) -> None:
    """Compute a cell with one BLAS thread, and save its result.

    Parameters
    ----------
    cell : Cell
        The cell.
    folder : Path
        Folder of the results.
    """
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PCP does not converge on data that cannot be recovered
        save(cell, cell.run(), folder)


def _leave_signals_to_parent() -> None:
    """Let a worker process ignore Ctrl-C, on which its parent terminates it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def run(
    cells: Sequence[Cell], folder: Path, jobs: int, progress: Callable[[int, int], None]
) -> dict[Cell, Result]:
    """Compute the cells that have no saved result, and return the results of all.

    Parameters
    ----------
    cells : sequence of Cell
        The cells. Repeated cells are computed once.
    folder : Path
        Folder of the results.
    jobs : int
        Number of processes.
    progress : callable
        Function that receives the number of finished cells and the number of all cells, once at the start and
        after each cell.

    Returns
    -------
    dict
        Result of each cell.

    Raises
    ------
    CellError
        If a cell fails. The other processes are terminated; finished cells stay saved.
    """
    unique = list(dict.fromkeys(cells))
    missing = [cell for cell in unique if load(cell, folder) is None]
    done = len(unique) - len(missing)
    progress(done, len(unique))
    if missing:
        pool = ProcessPoolExecutor(min(jobs, len(missing)), initializer=_leave_signals_to_parent)
        try:
            futures: dict[Future[None], Cell] = {pool.submit(compute, c, folder): c for c in missing}
            for future in as_completed(futures):
                if (error := future.exception()) is not None:
                    cell = futures[future]
                    raise CellError(f"{cell.kind} {dict(cell.settings)}: {error!r}") from error
                done += 1
                progress(done, len(unique))
        except BaseException:
            for process in list((pool._processes or {}).values()):
                process.terminate()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
        pool.shutdown()
    results = {cell: load(cell, folder) for cell in unique}
    return {cell: result for cell, result in results.items() if result is not None}
