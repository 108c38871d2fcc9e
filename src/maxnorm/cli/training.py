"""A training run of ``maxnorm fit`` that saves its model and can be resumed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from maxnorm.cli.errors import report_interruption
from maxnorm.cli.interruption import check_signals, postpone_signals
from maxnorm.cli.options import DataOptions
from maxnorm.cli.output import print_detail, print_error, print_message, printable
from maxnorm.cli.progress import RowProgress, show_row_progress
from maxnorm.cli.record import TrainingRecord

if TYPE_CHECKING:
    from maxnorm.streams import Stream


class ObjectiveSchedule(NamedTuple):
    """When the objective is evaluated during training.

    An evaluation costs about as much as learning from a batch, so the intervals grow with the number of
    samples: the history of a run over n samples has O(log n) values.
    """

    first_samples: int = 100
    """Number of samples before the first evaluation."""
    growth: float = 1.2
    """Smallest ratio between the numbers of samples at consecutive evaluations for the history."""
    display_seconds: float = 1.0
    """Minimum time between evaluations for the progress bar."""

    def is_due(self, n_samples: int, history: list[tuple[int, float]]) -> bool:
        """Return whether the objective after ``n_samples`` is to be added to the history."""
        return not history or n_samples >= self.growth * history[-1][0]

    def max_batch(self, row: int) -> int:
        """Return the largest batch after ``row`` rows that keeps to the schedule."""
        return max(self.first_samples, int((self.growth - 1.0) * row))


SCHEDULE = ObjectiveSchedule()


def split_batches(stream: Stream, checkpoint_every: int | None) -> Stream:
    """Return ``stream`` in batches small enough to evaluate the objective and to save checkpoints on time."""

    def read_batches(start: int) -> Iterator[Any]:
        row = start
        for batch in stream.source(start):
            while batch.shape[0]:
                size = min(SCHEDULE.max_batch(row), checkpoint_every or batch.shape[0])
                yield batch[:size]
                row += min(size, batch.shape[0])
                batch = batch[size:]

    return replace(stream, source=read_batches)


def count_rows(stream: Stream, progress: RowProgress) -> Stream:
    """Return ``stream``, which shows how far it has been read."""

    def read_batches(start: int) -> Iterator[Any]:
        row = start
        for batch in stream.source(start):
            yield batch
            row += batch.shape[0]
            progress.update(row)

    return replace(stream, source=read_batches)


@contextmanager
def interrupt_only_waiting() -> Iterator[None]:
    """Let signals interrupt a block only while it waits for live input; rows that have arrived come first."""
    from maxnorm.streams import live_lines

    live_lines.while_waiting = check_signals
    with postpone_signals():
        yield
    check_signals()


@dataclass
class TrainingRun:
    """A model in training, the file that it is saved to, and the progress of the training."""

    path: Path
    model: Any
    data: DataOptions
    checkpoint_every: int | None = None
    n_epochs_done: int = 0
    n_samples_before_epoch: int = 0  # samples learnt from before the current epoch
    history: list[tuple[int, float]] = field(default_factory=list)  # (number of samples, objective)
    finished: bool = False
    seconds: float = 0.0

    @classmethod
    def start(
        cls,
        path: Path,
        model: Any,
        data: DataOptions,
        checkpoint_every: int | None,
        resume: bool,
        overwrite: bool,
    ) -> TrainingRun:
        """Return a new run, or the run saved in ``path`` if ``resume`` is true and the file exists."""
        new = cls(path, model, data, checkpoint_every)
        if overwrite and not resume:
            return new
        if not path.exists():
            if resume:
                print_message(f"{path} does not exist yet: training starts from the first row")
            return new
        if not resume:
            raise click.ClickException(
                f"{path} already exists: use --resume to continue or --overwrite to replace it"
            )
        return new._load_progress()

    def _load_progress(self) -> TrainingRun:
        """Return the run saved in the model file, after a check that it has the same data and parameters."""
        from maxnorm import persistence

        try:
            model, header = persistence.read(self.path)
            record = TrainingRecord.read(header["about"])
        except ValueError as error:
            raise click.ClickException(
                printable(f"{error}; use --overwrite instead of --resume to replace it")
            ) from error
        if record is None:
            raise click.ClickException(
                f"{self.path} was not written by `maxnorm fit` and cannot be resumed: use --overwrite "
                "instead of --resume to replace it"
            )
        self._check_same_run(model, record.source)
        print_detail(f"resuming {self.path}, which has learnt for {record.seconds:.1f} s")
        return replace(
            self,
            model=model,
            n_epochs_done=record.epoch,
            n_samples_before_epoch=record.before,
            history=record.history,
            finished=record.finished,
            seconds=record.seconds,
        )

    def _check_same_run(self, saved_model: Any, saved_data: dict[str, Any]) -> None:
        """Raise an error if the saved run has another estimator, other parameters or other data."""
        saved = {**DataOptions._field_defaults, **saved_model.get_params(), **saved_data}
        given = {**self.model.get_params(), **self.data._asdict()}
        differing = [name for name, value in given.items() if saved.get(name) != value]
        if type(saved_model) is not type(self.model):
            before, now = type(saved_model).__name__, type(self.model).__name__
        elif differing:
            before = ", ".join(f"{name}={saved.get(name)!r}" for name in differing)
            now = ", ".join(f"{name}={given[name]!r}" for name in differing)
        else:
            return
        raise click.ClickException(
            printable(
                f"cannot resume {self.path}: it was fitted with {before}, but this command has {now}; use "
                "the same data and options, or --overwrite instead of --resume to start again"
            )
        )

    @property
    def n_samples(self) -> int:
        """Number of samples learnt from, each counted once per epoch."""
        return int(self.model.n_samples_seen_) if self.model.__sklearn_is_fitted__() else 0

    @property
    def row(self) -> int:
        """Number of rows learnt from in the current epoch."""
        return self.n_samples - self.n_samples_before_epoch

    def train(self, stream: Stream) -> None:
        """Learn from the remaining rows of all epochs; the model is also saved on signals and on errors."""
        n_epochs = 1 if self.model.n_epochs == "auto" else self.model.n_epochs
        if n_epochs > 1 and not stream.repeatable:
            raise click.ClickException(
                f"{stream.title} can be read only once, but --epochs is {n_epochs}: use --epochs 1, or save "
                "it as a file"
            )
        if not stream.repeatable:  # such a stream has only rows that were not read before
            self.n_epochs_done, self.n_samples_before_epoch, self.finished = 0, self.n_samples, False
        try:
            if self.n_samples or not stream.repeatable or not self._start_training(stream):
                for _ in range(self.n_epochs_done, n_epochs):
                    self._train_epoch(stream)
            self.finished = True
            self.save()
        except KeyboardInterrupt:
            with postpone_signals():
                consequence = self._save_early()
            with report_interruption(consequence):
                raise
        except (ValueError, MemoryError, OSError) as error:
            reason = getattr(error, "strerror", None) or error
            raise click.ClickException(printable(f"{reason}; {self._save_early()}")) from error

    def _start_training(self, stream: Stream) -> bool:
        """Fit the model to all samples if they are few, or find out where to start; return which it was."""
        start = time.monotonic()
        with show_row_progress("fitting", stream.n_samples or stream.n_expected, 0) as progress:
            counted = count_rows(stream, progress)
            is_finished = bool(self.model.start_fit(counted, callback=lambda _: check_signals()))
        self.seconds = time.monotonic() - start
        if is_finished:
            self.n_epochs_done, self.n_samples_before_epoch = 1, self.n_samples
            self.history.append((self.n_samples, float(self.model.objective_)))
        return is_finished

    def _train_epoch(self, stream: Stream) -> None:
        n_epochs = 1 if self.model.n_epochs == "auto" else self.model.n_epochs
        title = "fitting" if n_epochs == 1 else f"epoch {self.n_epochs_done + 1} of {n_epochs}"
        first_row = self.row
        batches = split_batches(stream, self.checkpoint_every).from_row(first_row)
        with show_row_progress(title, stream.n_samples or stream.n_expected, first_row) as progress:
            monitor = Monitor(self, progress)
            # Rows that cannot be read again must not be lost, so that a signal only interrupts the waiting.
            with nullcontext() if stream.repeatable else interrupt_only_waiting():
                for batch in batches.ahead():
                    self.model.partial_fit(batches.piece(batch, self.row), callback=monitor.after_step)
                    monitor.after_batch()
                    if stream.repeatable:
                        check_signals()
        if not self.n_samples:
            raise ValueError(f"{stream.title} has no samples")
        if first_row and self.row == first_row and next(iter(stream.from_row(first_row - 1)), None) is None:
            raise ValueError(
                f"{stream.title} has fewer rows than the {first_row} already learnt from: resume with the "
                "data of the first run"
            )
        self.model.flush()
        self.n_epochs_done, self.n_samples_before_epoch = self.n_epochs_done + 1, self.n_samples

    def _save_early(self) -> str:
        """Save the model before the end, and return a message that says how to continue."""
        if not self.n_samples:
            return "no model was saved, because no sample was learnt from"
        try:
            self.save()
        except OSError as error:
            return f"the model could not be saved to {self.path}: {error.strerror or error}"
        return (
            f"the model learnt from {self.n_samples:,} samples was saved to {self.path}: repeat the command "
            "with --resume to continue"
        )

    def save(self) -> None:
        """Write the model and the progress of the training to the model file."""
        from maxnorm import persistence

        record = TrainingRecord(
            data=self.data.data,
            source=self.data._asdict(),
            finished=self.finished,
            epoch=self.n_epochs_done,
            before=self.n_samples_before_epoch,
            seconds=round(self.seconds, 3),
            history=self.history,
        )
        persistence.save(self.model, self.path, record._asdict())
        print_detail(f"saved {self.path} after {self.n_samples:,} samples")

    def summarise(self) -> dict[str, Any]:
        """Return the main facts about the model, by name."""
        return {
            "estimator": type(self.model).__name__,
            "samples": self.n_samples,
            "features": int(self.model.n_features_in_),
            "components": self.model.n_components_,
            "lambda1": self.model.lambda1_,
            "lambda2": self.model.lambda2_,
            "objective": self.model.objective_,
            "seconds": round(self.seconds, 3),
            "model": str(self.path),
        }


class Monitor:
    """Shows the progress of a training run, records its objective and saves checkpoints."""

    def __init__(self, run: TrainingRun, progress: RowProgress) -> None:
        self.run = run
        self.progress = progress
        self.start = time.monotonic()
        self.seconds_before = run.seconds
        self.n_samples_saved = run.n_samples
        self.last_display = 0.0

    def after_step(self, _: object) -> None:
        """Record or show the objective; this is a callback of ``partial_fit``."""
        run, now = self.run, time.monotonic()
        self.progress.update(run.row)
        if SCHEDULE.is_due(run.n_samples, run.history):
            run.history.append((run.n_samples, float(run.model.objective_)))
        if self.progress.visible and now > self.last_display + SCHEDULE.display_seconds:
            self.last_display = now
            self.progress.show_note(f"objective {run.model.objective_:.4g}")

    def after_batch(self) -> None:
        """Save a checkpoint if one is due."""
        run = self.run
        run.seconds = self.seconds_before + time.monotonic() - self.start
        self.progress.update(run.row)
        if run.checkpoint_every and run.n_samples >= self.n_samples_saved + run.checkpoint_every:
            self.n_samples_saved = run.n_samples
            try:
                run.save()
            except OSError as error:  # the disk may have room again at the next checkpoint
                print_error(
                    f"cannot save {run.path}: {error.strerror or error}; training continues without this "
                    "checkpoint"
                )
