"""A live log of sensors: every row is judged by what was learnt before it, and learnt from."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from maxnorm.core.deviations import usual_deviations
from maxnorm.core.types import Array, Mask
from maxnorm.detection import STREAM
from maxnorm.estimators.anomaly import AnomalyDetector
from maxnorm.sensors.sources import open_source
from maxnorm.sensors.stuck import RunLengths
from maxnorm.sensors.tables import TIME_NAME, ColumnChoice
from maxnorm.streams.stream import StreamError
from maxnorm.streams.text_files import (
    LIVE_LIMITS,
    BatchLimits,
    TextLayout,
    explained,
    parse_number,
    split_cells,
    wait_for_first_lines,
)

WINDOW = 600  # last rows that are shown
MOST_ALARMS = 200  # that are kept for the page
ENOUGH_JUDGED = 100  # rows from which it is known what deviations are usual
MOST_ENTRIES = 5  # of an alarm
BATCH = BatchLimits(lines=LIVE_LIMITS.lines, seconds=0.2)  # rows are learnt from soon after they arrive
MIN_SECONDS = 1e-9  # to divide by


class LiveReader:
    """The rows of a live log as numbers.

    Parameters
    ----------
    source : str
        Where the rows come from, as in :func:`maxnorm.sensors.sources.open_source`.
    choice : ColumnChoice
        What the user says of the columns.
    header : bool or None, default=None
        Whether the first line names the columns; None detects it.
    """

    def __init__(self, source: str, choice: ColumnChoice, header: bool | None = None) -> None:
        self._lines, self.title = open_source(source)
        self._choice, self._header = choice, header
        self.names: list[str] = []  #: of the sensors, once the first lines have arrived
        self.n_bad_lines = 0  #: lines with another number of cells, which are left out

    def __iter__(self) -> Iterator[tuple[list[str], Array]]:
        """Yield the times of rows and their sensors, as soon as rows have arrived."""
        first = wait_for_first_lines(self._lines, self.title, self._header)
        layout = TextLayout.detect(first, self.title, slice(None), self._header)
        names = [name or f"column {j}" for j, name in enumerate(layout.names or [""] * layout.n_columns)]
        sample = split_cells(
            next(line for line in first[layout.n_skipped :] if line.strip()), layout.delimiter
        )
        sensors, time_column = self._choose(names, sample, layout.has_decimal_commas)
        self.names = [names[j] for j in sensors]
        self._lines.put_back(first[layout.n_skipped :])
        n_rows = 0
        while True:
            block, failure = self._lines.read(BATCH)
            cells = [split_cells(line, layout.delimiter) for line in block if line.strip()]
            usable = [row for row in cells if len(row) == layout.n_columns]
            self.n_bad_lines += len(cells) - len(usable)
            if usable:
                numbers = [
                    [self._number(row[j], layout.has_decimal_commas) for j in sensors] for row in usable
                ]
                labels = [
                    row[time_column].strip() if time_column is not None else str(n_rows + i + 1)
                    for i, row in enumerate(usable)
                ]
                n_rows += len(usable)
                yield labels, np.array(numbers)
            if failure is not None:
                raise explained(failure, self.title)
            if not block:
                return

    def _choose(self, names: list[str], sample: list[str], commas: bool) -> tuple[list[int], int | None]:
        """Return the positions of the sensors and of the time, given the cells of the first row."""
        choice = self._choice
        time_column = choice.find(choice.time, names, "--time")[0] if choice.time else None
        if time_column is None:
            time_column = next((j for j, name in enumerate(names) if TIME_NAME.search(name)), None)
        if choice.columns:
            return choice.find(choice.columns, names, "--columns"), time_column
        excluded = set(choice.find(choice.exclude, names, "--exclude")) if choice.exclude else set()
        sensors = [
            j
            for j, cell in enumerate(sample)
            if j != time_column and j not in excluded and parse_number(cell, commas) is not None
        ]
        if not sensors:
            raise StreamError(f"{self.title}: the first row has no numbers; name the sensors with --columns")
        return sensors, time_column

    @staticmethod
    def _number(cell: str, commas: bool) -> float:
        number = parse_number(cell, commas)
        return float("nan") if number is None else number


@dataclass
class LiveLog:
    """The last rows of a live log, and what was found in it.

    One thread may feed rows while another takes snapshots.
    """

    detector: AnomalyDetector
    names: list[str] = field(default_factory=list)
    n_rows: int = 0
    n_alarms: int = 0
    is_ended: bool = False
    started: float = field(default_factory=time.monotonic)
    labels: deque[str] = field(default_factory=lambda: deque(maxlen=WINDOW))
    values: deque[Array] = field(default_factory=lambda: deque(maxlen=WINDOW))
    expected: deque[Array] = field(default_factory=lambda: deque(maxlen=WINDOW))
    wrong: deque[Array] = field(default_factory=lambda: deque(maxlen=WINDOW))
    decisions: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))
    alarms: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=MOST_ALARMS))
    changed_rows: list[int] = field(default_factory=list)  #: rows at which the process has changed

    def __post_init__(self) -> None:
        self.lock = threading.Lock()  #: held while rows are added to what is shown
        self.feeding = threading.Lock()  #: held while rows are learnt from
        self._runs: RunLengths | None = None
        self._was_stuck: Mask = np.zeros(0, dtype=np.bool_)
        self._n_changes = len(self._changes)
        self._judged: tuple[Any, ...] = (
            np.empty(0),
            np.empty(0),
        )  #: the last deviations, and which were there

    @property
    def _changes(self) -> list[Any]:
        return self.detector.changes_ if self.detector.__sklearn_is_fitted__() else []

    def feed(self, names: list[str], labels: list[str], X: Array) -> list[dict[str, Any]]:
        """Judge rows and learn from them; return the alarms that they give.

        Parameters
        ----------
        names : list of str
            Names of the sensors.
        labels : list of str
            Times of the rows.
        X : array of shape (n, p)
            The rows; NaN marks missing entries.

        Returns
        -------
        alarms : list of dict
            Alarms of the kinds "row", "stuck" and "change", in the order of time.
        """
        with self.feeding:
            pieces = range(0, len(X), STREAM.refresh)  # after which the detector may judge otherwise
            return [
                alarm
                for start in pieces
                for alarm in self._feed(
                    names, labels[start : start + STREAM.refresh], X[start : start + STREAM.refresh]
                )
            ]

    def _feed(self, names: list[str], labels: list[str], X: Array) -> list[dict[str, Any]]:
        if self._runs is None:
            p = X.shape[1]
            self._runs, self._was_stuck = RunLengths(p), np.zeros(p, dtype=np.bool_)
            self._judged = (np.empty((0, p)), np.empty((0, p), dtype=np.bool_))
        stuck = self._runs.find(X)
        rows = np.where(stuck, np.nan, X)
        expected, wrong, deviation = self._compare(rows)
        decision = self.detector.score_learn(rows)
        alarms = [*self._stuck_alarms(names, labels, X, stuck), *self._changes_since()]
        for i in np.flatnonzero((decision < 0.0) | wrong.any(axis=1)).tolist():
            alarm = {"kind": "row", "row": self.n_rows + i + 1, "time": labels[i]}
            alarm["score"] = round(float(decision[i]), 4)
            alarm["entries"] = describe_entries(names, X[i], expected[i], deviation[i], wrong[i])
            alarms.append(alarm)
        alarms.sort(key=lambda alarm: int(alarm["row"]))
        with self.lock:
            self.names = names
            self.labels.extend(labels)
            self.values.extend(X)
            self.expected.extend(expected)
            self.wrong.extend(wrong | stuck)
            self.decisions.extend(decision.tolist())
            self.n_rows += len(X)
            self.n_alarms += len(alarms)
            self.alarms.extend(alarms)
            self.changed_rows += [int(one["row"]) for one in alarms if one.get("change") in ("new", "turn")]
        return alarms

    def _compare(self, rows: Array) -> tuple[Array, Mask, Array]:
        """Return what is expected, which entries deviate too much, and by how many standard deviations."""
        if not self.detector.__sklearn_is_fitted__() or not self.detector._judge.is_ready:
            return np.full(rows.shape, np.nan), np.zeros(rows.shape, dtype=np.bool_), np.zeros(rows.shape)
        found = self.detector.deviations(rows)
        observed = ~np.isnan(rows)
        # Rows that the model has not learnt from deviate more than those of the past.
        usual = usual_deviations(*self._judged) if len(self._judged[0]) >= ENOUGH_JUDGED else 1.0
        self._judged = tuple(
            np.concatenate(pair)[-WINDOW:]
            for pair in zip(self._judged, (found.deviation, observed), strict=True)
        )
        deviation = found.deviation / usual
        return found.expected, np.abs(deviation) > self.detector.deviation_limit_, deviation

    def _stuck_alarms(
        self, names: list[str], labels: list[str], X: Array, stuck: Mask
    ) -> Iterator[dict[str, Any]]:
        """Yield an alarm for every sensor that is stuck from now on; gaps do not end it."""
        for i, row in enumerate(X):
            for j in np.flatnonzero(stuck[i] & ~self._was_stuck).tolist():
                yield {"kind": "stuck", "row": self.n_rows + i + 1, "time": labels[i], "sensor": names[j]}
            self._was_stuck = np.where(np.isnan(row), self._was_stuck, stuck[i])

    def _changes_since(self) -> Iterator[dict[str, Any]]:
        """Yield an alarm for every change of the process that was noticed since the last rows."""
        changes = self._changes
        for change in changes[self._n_changes :]:
            yield {"kind": "change", "row": change.sample + 1, "change": change.kind}
        self._n_changes = len(changes)

    @property
    def rate(self) -> float:
        """Rows per second since the start."""
        return self.n_rows / max(time.monotonic() - self.started, MIN_SECONDS)


def describe_entries(
    names: list[str], values: Array, expected: Array, deviation: Array, wrong: Mask
) -> list[dict[str, Any]]:
    """Return the entries of a row that deviate too much, or else the one that deviates most."""
    largest = np.argsort(-np.abs(deviation))[: max(min(int(wrong.sum()), MOST_ENTRIES), 1)]
    return [
        {
            "sensor": names[j],
            "value": number_or_none(values[j]),
            "expected": number_or_none(expected[j]),
            "deviation": round(float(deviation[j]), 2),
        }
        for j in largest
    ]


def number_or_none(value: float) -> float | None:
    """Return a number for JSON, which has no NaN."""
    return float(f"{value:.6g}") if np.isfinite(value) else None
