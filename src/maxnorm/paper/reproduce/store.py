"""Run cells in parallel and keep each result as soon as it is there."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from pathlib import Path

from threadpoolctl import threadpool_limits

from maxnorm.paper.reproduce.cells import Cell, Result


class CellError(RuntimeError):
    """A cell failed; the message says which and why."""


def load(cell: Cell, folder: Path) -> Result | None:
    """Return a kept result, or None."""
    path = folder / "cells" / f"{cell.key}.json"
    try:
        result: Result = json.loads(path.read_text())["result"]
    except (OSError, ValueError, KeyError):  # not there, or not ours: it is computed again
        return None
    return result


def keep(cell: Cell, result: Result, folder: Path) -> None:
    """Write a result so that nobody ever sees half of it."""
    path = folder / "cells" / f"{cell.key}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_text(json.dumps({"kind": cell.kind, "settings": dict(cell.settings), "result": result}))
    part.replace(path)


def compute(cell: Cell, folder: Path) -> None:
    """Compute a cell on one BLAS thread and keep it, in a process of its own."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PCP on what cannot be recovered ends early
        keep(cell, cell.run(), folder)


def run(
    cells: Sequence[Cell], folder: Path, jobs: int, progress: Callable[[int, int], None]
) -> dict[Cell, Result]:
    """Compute what is not kept yet, and return everything. ``progress`` gets numbers done and in all."""
    unique = list(dict.fromkeys(cells))
    missing = [cell for cell in unique if load(cell, folder) is None]
    done = len(unique) - len(missing)
    progress(done, len(unique))
    if missing:
        pool = ProcessPoolExecutor(min(jobs, len(missing)))
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
