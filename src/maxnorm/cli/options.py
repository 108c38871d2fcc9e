"""Options that several commands share: how to read the data, and which model to fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.core import ParameterSource

from maxnorm.cli.output import print_detail, print_message

if TYPE_CHECKING:
    from maxnorm.streams import Stream

Command = Callable[..., Any]

ESTIMATOR_CLASSES = {
    "decomposition": "MaxNormDecomposition",
    "robust-pca": "OnlineRobustPCA",
    "completion": "MaxNormCompletion",
}
"""Values of ``--estimator``, and the names of the classes in :mod:`maxnorm` that they select."""

NOISE_NAMES = ("capped", "l1", "l21", "squared", "none")
"""Values of ``--noise-model``: the names that the parameter ``noise`` of the estimators accepts.

The names are repeated here because an import of the noise models would load NumPy, which makes
``maxnorm --help`` and shell completion slow.
"""


def parse_number_or_auto(text: str) -> float | str:
    """Return the number that ``text`` represents, or "auto"."""
    if text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is neither a number nor 'auto'.") from None


def parse_count_or_auto(text: str) -> int | str:
    """Return the positive integer that ``text`` represents, or "auto"."""
    if text == "auto":
        return text
    if not text.isdecimal() or int(text) < 1:
        raise click.BadParameter(f"{text!r} is neither an integer of at least 1 nor 'auto'.")
    return int(text)


def data_options(command: Command) -> Command:
    """Add the argument DATA and the options that describe how to read it."""
    return click.argument("data", type=click.Path(allow_dash=True))(reading_options(command))


def reading_options(command: Command) -> Command:
    """Add the options that describe how to read DATA."""
    for decorate in (
        click.option(
            "--transpose",
            is_flag=True,
            help="Read the columns of DATA as samples. By default, the rows are the samples.",
        ),
        click.option(
            "--header/--no-header",
            default=None,
            help="Whether the first line of a text file names the columns. "
            "By default, this is detected from the first two lines.",
        ),
        click.option(
            "--external",
            is_flag=True,
            help="Allow an HDF5 file to refer to other files (external links, external storage and virtual "
            "datasets). By default, this is refused.",
        ),
        click.option(
            "--key",
            metavar="NAME",
            help="Name of the array to read, in a file that holds several (.npz, .h5, .hspy, .zarr, .mat). "
            "By default, the only two-dimensional array of the file is read, or else the only one with more "
            "dimensions.",
        ),
        click.option(
            "--columns",
            metavar="COLUMNS",
            help="Features to use: names or positions, counted from 0 and separated by commas, or a range "
            "of positions such as 1:20 or 1: (all but the first). By default, all columns are used, or those "
            "with the names of the model's features.",
        ),
    ):
        command = decorate(command)
    return command


def model_options(command: Command) -> Command:
    """Add the parameters of the model to fit."""
    for decorate in (
        click.option("--seed", type=int, default=0, show_default=True, help="Random seed."),
        click.option(
            "--half-life",
            type=float,
            metavar="SAMPLES",
            help="Number of samples over which the weight of a sample is halved, whether or not the data "
            "change. By default, weights have no half-life.",
        ),
        click.option(
            "--drift/--no-drift",
            default=None,
            help="Follow changes of DATA: earlier samples lose weight if the data drift, and learning starts "
            "anew if they are of a new process. By default, changes are followed on standard input, while "
            "a file is described as a whole.",
        ),
        click.option(
            "--epochs",
            type=parse_count_or_auto,
            metavar="INTEGER|auto",
            default="auto",
            show_default=True,
            help='Number of passes over DATA. "auto" makes one, or as many as pay if DATA is small.',
        ),
        click.option(
            "--lambda2",
            type=parse_number_or_auto,
            metavar="NUMBER|auto",
            default="auto",
            show_default=True,
            help="Weight of the noise term, in units of the data: with a larger weight, fewer entries are "
            'classified as gross errors. "auto" follows robust estimates of the scale of the data.',
        ),
        click.option(
            "--lambda1",
            type=parse_number_or_auto,
            metavar="NUMBER|auto",
            default="auto",
            show_default=True,
            help="Weight of the regularising norm: a larger weight shrinks the low-rank part more. "
            '"auto" chooses a weight that suits the estimator and the data.',
        ),
        click.option(
            "--noise-model",
            "noise",
            type=click.Choice(NOISE_NAMES),
            help="Kind of errors in the data: single entries that are grossly wrong (capped, which rejects "
            "them, or l1, which limits their influence), whole samples that are outliers (l21), dense "
            "Gaussian noise (squared), or no gross errors (none). The default is none for completion, and "
            "capped otherwise.",
        ),
        click.option(
            "--biases",
            is_flag=True,
            help="Use the model of ratings, in which rows and columns have biases, whatever share of the "
            "entries is observed. Only for completion.",
        ),
        click.option(
            "--rank",
            type=parse_count_or_auto,
            metavar="INTEGER|auto",
            help='Number of components. "auto", the default, chooses it from the data.',
        ),
    ):
        command = decorate(command)
    return command


def estimator_option(*names: str) -> Callable[[Command], Command]:
    """Add the choice between the estimators called ``names``, which are keys of ESTIMATOR_CLASSES."""
    help_texts = {
        "decomposition": "decomposition into a low-rank part and gross errors, regularised by the max-norm",
        "robust-pca": "robust PCA, regularised by the nuclear norm",
        "completion": "completion of missing entries",
    }
    return click.option(
        "--estimator",
        type=click.Choice(names),
        default="decomposition",
        show_default=True,
        help="Estimator to fit: " + "; ".join(help_texts[name] for name in names) + ".",
    )


json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print the summary as JSON instead of text."
)


overwrite_option = click.option("--overwrite", is_flag=True, help="Replace files that already exist.")


class ModelOptions(NamedTuple):
    """The options of :func:`estimator_option` and :func:`model_options`, as given by the user."""

    estimator: str
    rank: int | str | None
    biases: bool
    noise: str | None
    lambda1: float | str
    lambda2: float | str
    epochs: int | str
    half_life: float | None
    drift: bool | None
    seed: int

    def make_estimator(self) -> Any:
        """Return an estimator with these parameters that is not fitted yet."""
        import maxnorm

        optional: dict[str, Any] = {"noise": self.noise} if self.noise else {}
        is_completion = self.estimator == "completion"
        if self.rank is not None:
            optional["n_components"] = self.rank
        if not is_completion:
            optional["drift"] = "auto" if self.drift else None
        if is_completion:
            optional["biases"] = True if self.biases else "auto"
        elif self.biases:
            raise click.UsageError(
                "--biases is available only for completion: use it with `maxnorm complete` or with "
                "`maxnorm fit --estimator completion`"
            )
        return getattr(maxnorm, ESTIMATOR_CLASSES[self.estimator])(
            lambda1=self.lambda1,
            lambda2=self.lambda2,
            n_epochs=1 if is_completion and self.epochs == "auto" else self.epochs,
            half_life=self.half_life,
            random_state=self.seed,
            **optional,
        )


class DataOptions(NamedTuple):
    """The argument and options of :func:`data_options`, as given by the user."""

    data: str
    columns: str | None
    key: str | None
    transpose: bool
    header: bool | None
    external: bool = False

    def open_stream(self, model: Any = None) -> Stream:
        """Open the data, and print what was detected about them.

        If ``--columns`` is not given, the features of a fitted ``model`` are read by name, wherever they are
        in the file. Data in which they do not have these names are read as they are.
        """
        from maxnorm.streams import StreamError

        columns = _parse_columns(self.columns)
        names = getattr(model, "feature_names_in_", None)
        can_open_twice = Path(self.data).is_file() or Path(self.data).is_dir()
        if columns is None and names is not None and can_open_twice and not self.transpose:
            with suppress(StreamError):
                return self._open(list(names))
        return self._open(columns)

    def _open(self, columns: slice | list[str] | None) -> Stream:
        from maxnorm import open_stream

        stream = open_stream(
            self.data,
            columns=columns,
            key=self.key,
            transpose=self.transpose,
            header=self.header,
            external=self.external,
        )
        for remark in stream.remarks:
            print_message(remark)
        print_detail(f"opened {describe_stream(stream)}")
        return stream


def describe_stream(stream: Stream) -> str:
    """Return the title of a stream and, as far as they are known, the numbers of its samples and features."""
    sizes = []
    if stream.n_samples is not None:
        sizes.append(f"{stream.n_samples:,} samples")
    elif stream.n_expected is not None:
        sizes.append(f"about {stream.n_expected:,} samples")
    if stream.n_features is not None:
        sizes.append(f"{stream.n_features:,} features")
    return f"{stream.title} ({', '.join(sizes) or 'of unknown size'})"


def describe_model(model: Any) -> str:
    """Return the class of a fitted model, its rank and the weights that were given or chosen."""
    chosen = [f"{model.n_components_} components"] if hasattr(model, "n_components_") else []
    for name in ("lambda1", "lambda2"):
        if hasattr(model, f"{name}_"):
            chosen.append(f"{name} {getattr(model, f'{name}_'):.4g}")
    return f"{type(model).__name__} with {', '.join(chosen) or 'default settings'}"


def _parse_columns(text: str | None) -> slice | list[str] | None:
    """Return the columns that ``--columns`` selects: all (None), a range, or names and positions."""
    if text is None:
        return None
    start, colon, stop = text.partition(":")
    if colon and all(bound.lstrip("-").isdigit() or not bound for bound in (start, stop)):
        return slice(int(start) if start else None, int(stop) if stop else None)
    return [name.strip() for name in text.split(",")]


def reject_with_model(names: Iterable[str]) -> None:
    """Raise an error if any of these parameters of the current command was given together with --model."""
    context = click.get_current_context()
    options = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    for name in names:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(
                f"{options[name]} has no effect with --model, because the saved model has its own value: "
                "leave out one of them"
            )
