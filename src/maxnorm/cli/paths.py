"""Types of arguments that name files, which shells complete."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

MODEL_SUFFIX = ".maxnorm"
"""The suffix that model files usually have; other names are allowed."""


class ModelPath(click.Path):
    """The path of a model file; shells complete names with the suffix of models if there are any."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        models = [CompletionItem(name) for name in find_models(incomplete)]
        return models or super().shell_complete(ctx, param, incomplete)


def find_models(incomplete: str) -> list[str]:
    """Return the names of model files that begin with ``incomplete``, with the folder as it was typed."""
    start = incomplete.rpartition("/")[2]
    prefix = incomplete[: len(incomplete) - len(start)]
    place = Path(prefix or ".").expanduser()
    try:
        names = sorted(path.name for path in place.iterdir() if path.suffix == MODEL_SUFFIX)
    except OSError:
        return []
    return [prefix + name for name in names if name.startswith(start)]


def complete_names(names: tuple[str, ...]) -> Any:
    """Return a function that offers those of several names which are not on the command line yet."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        given = ctx.params.get(param.name or "") or ()
        return [name for name in names if name.startswith(incomplete) and name not in given]

    return complete
