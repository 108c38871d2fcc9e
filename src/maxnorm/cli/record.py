"""The record of a training run, which ``maxnorm fit`` writes into the model file beside the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

KEYS = {"data": str, "source": dict, "finished": bool, "epoch": int, "before": int, "history": list}


class TrainingRecord(NamedTuple):
    """How far a training run has come, and on which data.

    The names of the fields are keys of the header of a model file.
    """

    data: str
    """Argument DATA of the command."""
    source: dict[str, Any]
    """Argument DATA and the options that describe how to read it."""
    finished: bool
    """Whether all epochs are completed."""
    epoch: int
    """Number of completed epochs."""
    before: int
    """Number of samples learnt from before the current epoch."""
    seconds: float
    """Time that the training has taken."""
    history: list[tuple[int, float]]
    """Numbers of samples, and the values of the objective after them."""

    @classmethod
    def read(cls, about: Mapping[str, Any]) -> TrainingRecord | None:
        """Return the record in the remarks about a model; None if the model is not from ``maxnorm fit``.

        Raises
        ------
        ValueError
            If the record is damaged.
        """
        if "finished" not in about:
            return None
        values: dict[str, Any] = {name: about.get(name) for name in cls._fields}
        is_valid = all(isinstance(values[name], kind) for name, kind in KEYS.items())
        is_valid &= isinstance(values["seconds"], int | float)
        if not is_valid or min(values["epoch"], values["before"]) < 0:
            raise ValueError("the record of the training is damaged; fit the model again")
        values["history"] = [_read_point(point) for point in values["history"]]
        return cls(**values)


def _read_point(point: Any) -> tuple[int, float]:
    if isinstance(point, list) and len(point) == 2:
        n_samples, objective = point
        if isinstance(n_samples, int) and isinstance(objective, int | float):
            return n_samples, float(objective)
    raise ValueError("the history of the objective is damaged; fit the model again")
