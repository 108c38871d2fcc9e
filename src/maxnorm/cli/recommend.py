"""``maxnorm recommend``: what people would like, from a file of ratings."""

from __future__ import annotations

import csv
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from maxnorm.cli.errors import report_errors, report_interruption
from maxnorm.cli.files import check_inputs, check_outputs
from maxnorm.cli.help import SectionedCommand
from maxnorm.cli.options import json_option, overwrite_option
from maxnorm.cli.output import print_detail, print_message, print_summary, printable
from maxnorm.cli.paths import ModelPath
from maxnorm.cli.progress import show_steps
from maxnorm.cli.verbosity import verbosity_options

if TYPE_CHECKING:
    from maxnorm import RecommendedItems, Recommender

STEPS = ("reading", "learning", "ranking")


@click.command(cls=SectionedCommand)
@click.argument("ratings", type=click.Path(path_type=Path), required=False)
@click.option("--user", "users", multiple=True, metavar="NAME", help="User to recommend to; may be repeated.")
@click.option("-k", type=click.IntRange(1), default=10, show_default=True, help="Number of items per user.")
@click.option(
    "--rank",
    type=click.Choice(["auto", "value"]),
    default="auto",
    show_default=True,
    help="What is best: items that are most likely wanted and liked, or those with the highest predicted "
    "ratings, many of which hardly anybody knows.",
)
@click.option(
    "--similar-to", "items", multiple=True, metavar="NAME", help="List items like this one instead."
)
@click.option("--user-column", metavar="NAME", help="Column that tells who has rated.")
@click.option("--item-column", metavar="NAME", help="Column that tells what was rated.")
@click.option("--rating-column", metavar="NAME", help="Column of the ratings.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the list to this CSV file.")
@click.option("--model", "model_path", type=ModelPath(), help="Save the model to this file.")
@click.option("--use", "known_path", type=ModelPath(), help="Use a saved model instead of RATINGS.")
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed.")
@overwrite_option
@json_option
@verbosity_options
def recommend(
    ratings: Path | None,
    users: tuple[str, ...],
    k: int,
    rank: Any,
    items: tuple[str, ...],
    user_column: str | None,
    item_column: str | None,
    rating_column: str | None,
    output: Path | None,
    model_path: Path | None,
    known_path: Path | None,
    seed: int,
    overwrite: bool,
    as_json: bool,
) -> None:
    """List what users would like, from the RATINGS of all.

    RATINGS is a file with one rating in each row, CSV or other text, Parquet or Arrow. Its columns of users,
    items and ratings are recognised by their names, or are the first three. Without --user and with
    --output, the list has all users.
    """
    if (ratings is None) == (known_path is None):
        raise click.UsageError("give either a file of RATINGS or a saved model with --use")
    if not users and not items and output is None:
        raise click.UsageError("give --user to recommend to, or --output for a list of all users")
    inputs = {"RATINGS": ratings, "--use": known_path}
    check_inputs(inputs)
    check_outputs({"--output": output, "--model": model_path}, inputs, overwrite=overwrite)
    start = time.monotonic()
    with report_errors(), report_interruption("nothing was written"), show_steps(STEPS) as step:
        if known_path is not None:
            model = load_recommender(known_path)
        else:
            assert ratings is not None
            model = learn(ratings, (user_column, item_column, rating_column), seed, step)
        step("ranking")
        warn_of_strangers(model, users)
        if items:
            best = model.similar_items(list(items), k)
        else:
            best = model.recommend(list(users) or None, k, rank=rank)
        if model_path is not None:
            model.save(model_path)
        if output is not None:
            write_list(output, best, "similar to" if items else "user")
    if output is not None:
        summary = {
            "users": len(model.ratings_.users),
            "items": len(model.ratings_.items),
            "ratings": int(model.ratings_.matrix.nnz),
            "rows written": sum(1 for _ in rows_of(best)),
            "output": str(output),
            "seconds": round(time.monotonic() - start, 2),
        }
        print_summary(summary, as_json)
    elif as_json:
        asked = [
            {"for": str(name), "items": [{"item": str(item), "value": value} for _, item, value in group]}
            for name, group in groups_of(best)
        ]
        print_summary({"recommended": asked}, True)
    else:
        print_list(best, "similarity" if items else "predicted rating")


def learn(
    path: Path, columns: tuple[str | None, str | None, str | None], seed: int, step: Any
) -> Recommender:
    """Return a model of the ratings in a file, and print what was understood of the file."""
    from maxnorm import Recommender
    from maxnorm.ratings import read_ratings

    step("reading")
    table = read_ratings(path, user=columns[0], item=columns[1], rating=columns[2])
    user, item, rating = table.names
    print_message(f"{path}: users are in column {user!r}, items in {item!r}, ratings in {rating!r}")
    print_detail(f"{len(table.values):,} ratings")
    step("learning")
    model = Recommender(random_state=seed).fit(table)
    print_detail(f"learnt from {len(model.ratings_.users):,} users and {len(model.ratings_.items):,} items")
    return model


def load_recommender(path: Path) -> Recommender:
    """Return a saved model of ratings."""
    from maxnorm import Recommender, load

    model = load(path)
    if not isinstance(model, Recommender):
        raise click.ClickException(
            f"{path} holds a {type(model).__name__}, which knows no users: give a model that "
            "`maxnorm recommend --model` has saved"
        )
    return model


def warn_of_strangers(model: Recommender, users: tuple[str, ...]) -> None:
    """Tell the user which users have rated nothing."""
    known = model.ratings_
    for name, row in zip(users, known.find(list(users), among=known.users), strict=True):
        if row < 0:
            print_message(f"note: user {name!r} has rated nothing; what is listed is popular and liked")


def rows_of(best: RecommendedItems) -> Iterator[tuple[Any, Any, float]]:
    """Yield what is recommended to whom, and the predicted ratings."""
    for name, items, values in zip(best.users, best.items, best.ratings, strict=True):
        for item, value in zip(items, values, strict=True):
            if item is not None:
                yield name, item, float(value)


def groups_of(best: RecommendedItems) -> Iterator[tuple[Any, list[tuple[Any, Any, float]]]]:
    """Yield each user with what is recommended to them."""
    for k, name in enumerate(best.users):
        yield name, list(rows_of(type(best)(*(part[k : k + 1] for part in best))))


def write_list(path: Path, best: RecommendedItems, first: str) -> None:
    """Write the list to a CSV file, which is renamed when it is complete."""
    from maxnorm.files import replacing

    with replacing(path) as part, part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow((first, "item", "value"))
        writer.writerows((name, item, f"{value:.4g}") for name, item, value in rows_of(best))


def print_list(best: RecommendedItems, title: str) -> None:
    """Print the list as a table."""
    for name, group in groups_of(best):
        click.echo(printable(f"{name}"))
        width = max((len(str(item)) for _, item, _ in group), default=0)
        for place, (_, item, value) in enumerate(group, start=1):
            click.echo(printable(f"  {place:>3}  {item!s:{width}}  {title} {value:.2f}"))
