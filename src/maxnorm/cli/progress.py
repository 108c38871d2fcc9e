"""Progress bars."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from maxnorm.cli.output import print_detail
from maxnorm.cli.verbosity import is_quiet

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

# A bar that is not displayed has a quiet console, because Rich 13.0 prints an empty line at its end.

MIN_SECONDS = 1e-9
"""Lower bound on the elapsed time, which avoids a division by zero in the rate."""


@dataclass
class RowProgress:
    """A progress bar that counts rows and shows their rate; see :func:`show_row_progress`."""

    bar: Progress
    task: TaskID
    first_row: int
    start: float = field(default_factory=time.monotonic)

    @property
    def visible(self) -> bool:
        """Whether the bar is displayed."""
        return not self.bar.disable

    def update(self, row: int) -> None:
        """Show that the rows before ``row`` are processed, and the rate since the start."""
        rate = (row - self.first_row) / max(time.monotonic() - self.start, MIN_SECONDS)
        self.bar.update(self.task, completed=row, rate=f"{rate:,.0f}/s")

    def show_note(self, note: str) -> None:
        """Show a note at the end of the bar."""
        self.bar.update(self.task, note=note)


@contextmanager
def show_row_progress(
    title: str, n_rows: int | None, first_row: int = 0, unit: str = "rows"
) -> Iterator[RowProgress]:
    """Show the number of rows processed, their rate and the remaining time on standard error.

    Nothing is displayed with ``--quiet``, or if standard error is not a terminal. ``n_rows`` is None if the
    number of rows is not known; ``first_row`` is the number of rows that were processed before, and ``unit``
    what they are called.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} " + unit),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    hidden = is_quiet() or not sys.stderr.isatty()
    print_detail(title)
    with Progress(*columns, console=Console(stderr=True, quiet=hidden), disable=hidden) as bar:
        task = bar.add_task(title, total=n_rows, completed=first_row, rate="", note="")
        yield RowProgress(bar, task, first_row)


def make_count_progress(console: Console) -> Progress:
    """Return a progress bar on ``console`` that shows a description, a count and the remaining time."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    if is_quiet():
        return Progress(*columns, console=Console(quiet=True), disable=True)
    return Progress(*columns, console=console)


@contextmanager
def show_steps(steps: Sequence[str]) -> Iterator[Callable[[str], None]]:
    """Show which of several steps is under way on standard error, and how many are done.

    The value of the context is a function that is called with the name of a step when it begins. Nothing is
    displayed with ``--quiet``, or if standard error is not a terminal.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    hidden = is_quiet() or not sys.stderr.isatty()
    with Progress(
        *columns, console=Console(stderr=True, quiet=hidden), disable=hidden, transient=True
    ) as bar:
        task = bar.add_task(steps[0], total=len(steps))

        def begin(name: str) -> None:
            print_detail(name)
            bar.update(task, description=name, completed=list(steps).index(name))

        yield begin
