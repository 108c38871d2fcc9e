"""``maxnorm fit``: fit a model to a file of any size, and resume after an interruption."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from maxnorm.cli.errors import report_errors
from maxnorm.cli.files import check_inputs, check_outputs
from maxnorm.cli.help import SectionedCommand
from maxnorm.cli.options import (
    ESTIMATOR_CLASSES,
    DataOptions,
    ModelOptions,
    data_options,
    describe_model,
    estimator_option,
    json_option,
    model_options,
)
from maxnorm.cli.output import print_detail, print_message, print_summary
from maxnorm.cli.paths import ModelPath
from maxnorm.cli.training import TrainingRun
from maxnorm.cli.verbosity import verbosity_options


@click.command(cls=SectionedCommand)
@data_options
@click.option(
    "--model",
    "model_path",
    type=ModelPath(),
    required=True,
    help="Save the model to this file, for example model.maxnorm.",
)
@estimator_option(*ESTIMATOR_CLASSES)
@model_options
@click.option(
    "--checkpoint-every",
    type=click.IntRange(1),
    metavar="ROWS",
    help="Save the model each time this many rows have been read. By default, it is saved only at the end, "
    "on Ctrl-C, on SIGTERM and on errors.",
)
@click.option(
    "--resume",
    is_flag=True,
    help="Continue from the model saved in the file of --model. If the file does not exist, start from the "
    "first row.",
)
@click.option("--overwrite", is_flag=True, help="Replace an existing model file.")
@json_option
@verbosity_options
def fit(
    data: str,
    columns: str | None,
    key: str | None,
    transpose: bool,
    header: bool | None,
    external: bool,
    model_path: Path,
    checkpoint_every: int | None,
    resume: bool,
    overwrite: bool,
    as_json: bool,
    **parameters: Any,
) -> None:
    """Fit a model to DATA and save it.

    DATA is a file of any size, or - for CSV on standard input. Memory does not grow with the number of
    samples. Ctrl-C and SIGTERM save the model learnt so far; repeat the command with --resume to continue.
    With --checkpoint-every, a run can be resumed after a crash as well. A resumed run ends with exactly the
    same model as an uninterrupted one. Rows on standard input are learnt from half a second after they
    arrive.
    """
    options = DataOptions(data, columns, key, transpose, header, external)
    check_inputs({"DATA": data})
    check_outputs({"--model": model_path}, {"DATA": data}, overwrite=True)  # TrainingRun asks before it does
    with report_errors():
        if parameters["drift"] is None:
            parameters["drift"] = data == "-"
        estimator = ModelOptions(**parameters).make_estimator()
        run = TrainingRun.start(model_path, estimator, options, checkpoint_every, resume, overwrite)
        stream = options.open_stream()
        if run.finished and stream.repeatable:
            print_message(f"{model_path} is already finished: there is nothing to resume")
        else:
            run.train(stream)
            print_detail(f"fitted {describe_model(run.model)}")
        print_summary(run.summarise(), as_json)
