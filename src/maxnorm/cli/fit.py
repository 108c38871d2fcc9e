"""``maxnorm fit``: learn from a file of any size, and go on after whatever stopped it."""

from __future__ import annotations

import glob
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from maxnorm.cli.common import (
    ESTIMATORS,
    INTERRUPTED,
    Settings,
    Source,
    all_different,
    data_options,
    estimator_option,
    json_option,
    model_options,
    open_data,
    plain_errors,
    progress_bar,
    say,
    show,
    writable,
)

if TYPE_CHECKING:
    from maxnorm.streams import Stream

NOTE_SECONDS = 1.0  # the objective is looked at no more often: it takes a batch to compute
FIRST_LOOK = 100  # samples after which it is looked at first
MARK = 1.2  # and is remembered whenever this many times more samples were seen


@click.command()
@data_options
@click.option(
    "--model",
    "path",
    type=click.Path(path_type=Path),
    required=True,
    help="Where the model is kept: m.maxnorm, for example.",
)
@estimator_option(*ESTIMATORS)
@model_options
@click.option("--checkpoint-every", type=click.IntRange(1), metavar="ROWS", help="Save the model on the way.")
@click.option("--resume", is_flag=True, help="Go on where the model stopped; start if there is none.")
@click.option("--overwrite", is_flag=True, help="Replace a model that is there.")
@json_option
def fit(
    data: str,
    columns: str | None,
    key: str | None,
    transpose: bool,
    header: bool | None,
    path: Path,
    checkpoint_every: int | None,
    resume: bool,
    overwrite: bool,
    as_json: bool,
    **settings: Any,
) -> None:
    """Learn a model from DATA, a file of any size or - for CSV on standard input.

    Memory does not grow with the number of samples. Ctrl-C saves what was learnt; the same command with
    --resume goes on from there, as it does after a crash with --checkpoint-every, and ends with the very
    model of a run that was never stopped.
    """
    wanted = Settings(**settings)
    source = Source(data, columns, key, transpose, header)
    all_different(DATA=data, **{"--model": path})
    with plain_errors():
        run = Run.begin(writable(path), wanted, source, checkpoint_every, resume, overwrite)
        stream = open_data(source)
        if run.finished and stream.repeatable:
            say(f"{path} is finished already")
        else:
            run.learn(stream)
        show(run.summary(), as_json)


def in_growing_pieces(stream: Stream, most: int | None) -> Stream:
    """Return a stream in pieces of ``most`` rows, fewer in the beginning, when there is most to see."""

    def source(start: int) -> Iterator[Any]:
        row = start
        for batch in stream.source(start):
            while batch.shape[0]:
                size = min(max(FIRST_LOOK, int((MARK - 1.0) * row)), most or batch.shape[0])
                yield batch[:size]
                row += min(size, batch.shape[0])
                batch = batch[size:]

    return replace(stream, source=source)


@dataclass
class Run:
    """A model under way: where it is kept, how far it is, how it went."""

    path: Path
    model: Any
    source: Source
    checkpoint_every: int | None = None
    epoch: int = 0  # passes that are done
    before: int = 0  # samples seen in them
    history: list[tuple[int, float]] = field(default_factory=list)  # samples and objective
    finished: bool = False
    seconds: float = 0.0

    @classmethod
    def begin(
        cls,
        path: Path,
        wanted: Settings,
        source: Source,
        checkpoint_every: int | None,
        resume: bool,
        overwrite: bool,
    ) -> Run:
        """Start anew or take up what is there."""
        from maxnorm import persistence

        fresh = cls(path, wanted.model(), source, checkpoint_every)
        for part in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
            part.unlink(missing_ok=True)  # of a process that was killed while it saved
        if overwrite and not resume:
            return fresh
        if not path.exists():
            if resume:
                say(f"{path} is not there yet: starting from the first row")
            return fresh
        if not resume:
            raise click.ClickException(f"{path} is there: --resume goes on with it, --overwrite replaces it")
        try:
            model, header = persistence.read(path)
        except persistence.ModelFileError as error:
            raise click.ClickException(f"{error}; --overwrite replaces it") from error
        about = header["about"]
        if "finished" not in about:
            raise click.ClickException(f"{path} was not made by `maxnorm fit`, so there is nothing to resume")
        differing = [k for k, v in fresh.model.get_params().items() if model.get_params().get(k) != v]
        differing += [k for k, v in source._asdict().items() if about["source"].get(k) != v]
        if type(model) is not type(fresh.model) or differing:
            what = f"other {', '.join(differing)}" if differing else f"a {type(model).__name__}"
            raise click.ClickException(
                f"{path} was begun with {what}: resume with the same options, or --overwrite it"
            )
        run = cls(path, model, source, checkpoint_every, about["epoch"], about["before"])
        run.history = [tuple(item) for item in about["history"]]
        run.finished, run.seconds = about["finished"], about["seconds"]
        return run

    @property
    def row(self) -> int:
        """Rows of the present pass that are learnt from."""
        return self._seen() - self.before

    def _seen(self) -> int:
        return int(self.model.n_samples_seen_) if self.model.__sklearn_is_fitted__() else 0

    def learn(self, stream: Stream) -> None:
        """Learn from the rest of all passes; whatever happens, what was learnt is saved."""
        passes = self.model.n_epochs
        if passes > 1 and not stream.repeatable:
            raise click.ClickException(f"{stream.title} can be read once only: leave --epochs at 1")
        if not stream.repeatable:  # what comes now is new
            self.epoch, self.before, self.finished = 0, self._seen(), False
        try:
            for _ in range(self.epoch, passes):
                self._learn_pass(stream, passes)
            self.finished = True
            self.save()
        except KeyboardInterrupt:
            say(self._after_a_stop("stopped"))
            raise click.exceptions.Exit(INTERRUPTED) from None
        except (ValueError, MemoryError, OSError) as error:
            reason = getattr(error, "strerror", None) or error
            raise click.ClickException(self._after_a_stop(str(reason))) from error

    def _learn_pass(self, stream: Stream, passes: int) -> None:
        length = stream.n_samples or stream.n_expected
        title = "learning" if passes == 1 else f"pass {self.epoch + 1} of {passes}"
        begin, first = time.monotonic(), self.row
        spent, saved, noted = self.seconds, self._seen(), 0.0
        with progress_bar(title, length) as (bar, task):
            bar.update(task, completed=first)

            def tick(model: Any) -> None:
                nonlocal saved, noted
                now = time.monotonic()
                self.seconds = spent + now - begin
                rate = (self.row - first) / max(now - begin, 1e-9)
                bar.update(task, completed=self.row, rate=f"{rate:,.0f}/s")
                if self._is_time_to_remember():
                    self.history.append((self._seen(), float(model.objective_)))
                if not bar.disable and now > noted + NOTE_SECONDS:
                    noted = now
                    bar.update(task, note=f"objective {model.objective_:.4g}")
                if self.checkpoint_every and self._seen() >= saved + self.checkpoint_every:
                    saved = self._seen()
                    try:
                        self.save()
                    except OSError as error:  # there may be room again next time
                        say(f"cannot save {self.path}: {error.strerror}; learning goes on")

            self.model.partial_fit(
                in_growing_pieces(stream, self.checkpoint_every).from_row(first), callback=tick
            )
        if first and self.row == first and next(iter(stream.from_row(first - 1)), None) is None:
            raise ValueError(f"{stream.title} ends before row {first}, from which to go on: is it the same?")
        self.model.flush()
        self.epoch, self.before = self.epoch + 1, self._seen()

    def _is_time_to_remember(self) -> bool:
        return not self.history or self._seen() >= MARK * self.history[-1][0]

    def _after_a_stop(self, why: str) -> str:
        if not self._seen():
            return f"{why}; nothing was learnt yet"
        try:
            self.save()
        except OSError as error:
            return f"{why}; and {self.path} cannot be written: {error.strerror}"
        return (
            f"{why}; what was learnt from {self._seen():,} rows is in {self.path}: "
            "the same command with --resume goes on from there"
        )

    def save(self) -> None:
        """Write the model and how far it is."""
        from maxnorm import persistence

        about = {
            "data": self.source.data,
            "source": self.source._asdict(),
            "finished": self.finished,
            "epoch": self.epoch,
            "before": self.before,
            "seconds": round(self.seconds, 3),
            "history": self.history,
        }
        persistence.save(self.model, self.path, about)

    def summary(self) -> dict[str, Any]:
        """What a user wants to know of a finished model."""
        model = self.model
        return {
            "estimator": type(model).__name__,
            "samples": self._seen(),
            "features": int(model.n_features_in_),
            "components": model.n_components_,
            "lambda1": model.lambda1_,
            "lambda2": model.lambda2_,
            "objective": model.objective_,
            "seconds": round(self.seconds, 3),
            "model": str(self.path),
        }
