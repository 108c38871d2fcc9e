"""``maxnorm video``: separate the background and the foreground of a film."""

from __future__ import annotations

import glob
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from maxnorm.cli.errors import report_errors
from maxnorm.cli.files import check_outputs
from maxnorm.cli.help import SectionedCommand
from maxnorm.cli.interruption import check_signals, postpone_signals
from maxnorm.cli.options import json_option, overwrite_option
from maxnorm.cli.output import print_detail, print_error, print_message, print_summary
from maxnorm.cli.paths import ModelPath
from maxnorm.cli.progress import show_row_progress
from maxnorm.cli.verbosity import verbosity_options

if TYPE_CHECKING:
    from maxnorm import VideoBackground
    from maxnorm.video import FilmWriter

FILM = click.Path(path_type=Path)


class RegionType(click.ParamType):  # type: ignore[type-arg]  # has a type argument only since click 8.3
    """A region of an image: LEFT,TOP,WIDTH,HEIGHT in pixels."""

    name = "LEFT,TOP,WIDTH,HEIGHT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        parts = str(value).split(",")
        if len(parts) != 4 or not all(part.strip().isdecimal() for part in parts):
            self.fail(f"{value!r} is not LEFT,TOP,WIDTH,HEIGHT in pixels, for example 100,50,320,240")
        left, top, width, height = map(int, parts)
        if not width or not height:
            self.fail(f"{value!r} has no pixels: width and height must be at least 1")
        return left, top, width, height


@click.command(cls=SectionedCommand)
@click.argument("source", metavar="IN", type=click.Path())
@click.option("-o", "--output", type=FILM, help="Masks: 255 where there is foreground.")
@click.option("--background", type=FILM, help="The background of each frame.")
@click.option("--foreground", type=FILM, help="The frames, black where there is background.")
@click.option("--side-by-side", type=FILM, help="Frame, background and foreground beside each other.")
@click.option("--every", type=click.IntRange(1), default=1, show_default=True, help="Use every N-th frame.")
@click.option(
    "--scale",
    type=click.FloatRange(0.0, 1.0, min_open=True),
    default=1.0,
    show_default=True,
    help="Reduce the frames to this share of their height and width.",
)
@click.option("--roi", type=RegionType(), help="Use only this region of the frames, in pixels.")
@click.option(
    "--sensitivity",
    type=click.FloatRange(0.0, min_open=True),
    default=1.0,
    show_default=True,
    help="Larger values find fainter objects, and more false ones.",
)
@click.option(
    "--min-area",
    type=click.FloatRange(0.0, 1.0, max_open=True),
    default=0.001,
    show_default=True,
    help="Share of the image below which connected foreground is dropped.",
)
@click.option("--frames", "n_frames", type=click.IntRange(1), help="Stop after so many frames.")
@click.option("--model", "model_path", type=ModelPath(), help="Save what was learnt to this file.")
@click.option("--resume", is_flag=True, help="Continue with the file of --model, if it exists.")
@overwrite_option
@json_option
@verbosity_options
def video(
    source: str,
    output: Path | None,
    background: Path | None,
    foreground: Path | None,
    side_by_side: Path | None,
    every: int,
    scale: float,
    roi: tuple[int, int, int, int] | None,
    sensitivity: float,
    min_area: float,
    n_frames: int | None,
    model_path: Path | None,
    resume: bool,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Separate what moves in a film from its background.

    IN is a film (mp4, avi, mov, mkv, gif), a folder of images or a pattern in quotes, a .npy file, the number
    of a camera, or the address of a stream. The camera must be fixed. Frames are judged one by one, in the
    order of time. Results are films, or folders of PNG images where a name has no suffix. Without any output,
    the masks are written next to IN, to a film with -mask added to its name. After Ctrl-C, the results hold
    the frames so far.

    Films and images need the extra "video": pip install 'maxnorm[video]'.
    """
    results = {"-o": output, "--background": background, "--foreground": foreground}
    results["--side-by-side"] = side_by_side
    if not any(results.values()):
        results["-o"] = default_output(source)
    if resume and model_path is None:
        raise click.UsageError("--resume needs --model, the file to continue with")
    check_results(results, model_path, source, overwrite=overwrite, resume=resume)
    start = time.monotonic()
    with report_errors(), warnings.catch_warnings(record=True) as caught, ExitStack() as stack:
        warnings.simplefilter("always")
        from maxnorm import open_film
        from maxnorm.video import FilmWriter
        from maxnorm.video.reading import crop

        film = open_film(source)
        length = "of unknown length" if film.n_frames is None else f"of {film.n_frames:,} frames"
        print_detail(f"opened {film.title} {length}, {float(film.rate):g} frames per second")
        subtractor = make_subtractor(sensitivity, min_area, model_path if resume else None)
        writers = {
            name: stack.enter_context(FilmWriter(path, film.rate / every, overwrite=overwrite))
            for name, path in results.items()
            if path
        }
        frames = scaled(crop(iter(film), every, roi), scale)
        total = None if film.n_frames is None else -(-film.n_frames // every)
        total = n_frames if total is None or n_frames is None else min(total, n_frames)
        summary = {"frames": 0, "foreground": 0.0}
        interruption: KeyboardInterrupt | None = None
        try:
            separate(frames, subtractor, writers, total, n_frames, summary)
        except KeyboardInterrupt as error:
            interruption = error
        if model_path is not None and summary["frames"]:
            subtractor.save(model_path)
    for warning in caught:
        print_message(f"note: {warning.message}")
    seconds = time.monotonic() - start
    if interruption is not None:
        print_error(
            f"{interruption or 'interrupted'}; the results hold the first {summary['frames']:,} frames"
        )
        raise click.exceptions.Exit(getattr(interruption, "exit_code", 130))
    print_summary(
        {
            "frames": summary["frames"],
            "size": " x ".join(map(str, subtractor.frame_shape_[1::-1])),
            "foreground pixels": f"{summary['foreground'] / max(summary['frames'], 1):.2%}",
            "frames per second": round(summary["frames"] / max(seconds, 1e-9), 1),
            **{"masks" if name == "-o" else name[2:]: str(path) for name, path in results.items() if path},
        },
        as_json,
    )


def check_results(
    results: dict[str, Path | None], model_path: Path | None, source: str, *, overwrite: bool, resume: bool
) -> None:
    """Raise an error if a result or the model cannot be written, is to be read as well, or exists.

    With ``resume``, the model may exist.
    """
    inputs = {"IN": source} if Path(source).exists() else {}
    read = [Path(source)] if inputs else [Path(file) for file in glob.glob(source)]
    files = {name: path for name, path in results.items() if path is not None and path.suffix}
    check_outputs(files, inputs, overwrite=overwrite)
    check_outputs({"--model": model_path}, {**inputs, **files}, overwrite=overwrite or resume)
    others = {} if model_path is None else {"--model": model_path}
    for name, path in results.items():
        if path is None or path.suffix:
            continue
        for other, taken in others.items():
            if path.resolve() == taken.resolve():
                raise click.UsageError(f"{other} and {name} are the same, {path}")
        others[name] = path
        if any(path.resolve() in (file.resolve(), file.resolve().parent) for file in read):
            raise click.UsageError(f"IN is in the folder of {name}, {path}: use another folder")
        if path.is_dir() and any(path.iterdir()) and not overwrite:
            raise click.ClickException(f"{path} already exists: use --overwrite to replace its images")


def default_output(source: str) -> Path:
    """Return the file for the masks if no output is given."""
    if source.isdecimal() or "://" in source or any(c in source for c in "*?["):
        raise click.UsageError("say where to write the masks with -o, or name another output")
    path = Path(source).resolve()
    suffix = path.suffix if path.suffix.lower() in (".mp4", ".mov", ".mkv", ".avi", ".gif") else ".mp4"
    return path.with_name(f"{path.stem}-mask{suffix}")


def make_subtractor(sensitivity: float, min_area: float, model_path: Path | None) -> VideoBackground:
    """Return a new subtractor, or the one in a model file if it exists."""
    from maxnorm import VideoBackground, load

    if model_path is None or not model_path.exists():
        return VideoBackground(sensitivity=sensitivity, min_area=min_area)
    subtractor = load(model_path)
    if not isinstance(subtractor, VideoBackground):
        raise click.ClickException(f"{model_path} was not saved by `maxnorm video`: use another file")
    return subtractor.set_params(sensitivity=sensitivity, min_area=min_area)


def scaled(frames: Iterator[Any], scale: float) -> Iterator[Any]:
    """Yield frames reduced to a share of their height and width, by linear interpolation."""
    from scipy import ndimage

    for frame in frames:
        if scale == 1.0:
            yield frame
        elif min(frame.shape[:2]) * scale < 1.0:
            size = f"{frame.shape[1]} x {frame.shape[0]}"
            raise click.UsageError(f"--scale {scale:g} leaves nothing of frames of {size} pixels")
        else:
            factors = (scale, scale) + (1.0,) * (frame.ndim - 2)
            blurred = ndimage.gaussian_filter(frame, [0.3 / f if f < 1.0 else 0.0 for f in factors])
            yield ndimage.zoom(blurred, factors, order=1)


def separate(
    frames: Iterator[Any],
    subtractor: VideoBackground,
    writers: dict[str, FilmWriter],
    total: int | None,
    n_frames: int | None,
    summary: dict[str, Any],
) -> None:
    """Separate all frames and write the results; a signal takes effect between two frames."""
    import numpy as np

    with show_row_progress("separating", total, unit="frames") as progress:
        for frame in frames:
            with postpone_signals():
                mask = subtractor.apply(frame)
                write_results(writers, subtractor.as_bytes(frame), mask, subtractor)
                summary["frames"] += 1
                summary["foreground"] += float(np.count_nonzero(mask)) / mask.size
                progress.update(summary["frames"])
            check_signals()
            if summary["frames"] == n_frames:
                break


def write_results(writers: dict[str, FilmWriter], frame: Any, mask: Any, subtractor: VideoBackground) -> None:
    """Write the results of a frame."""
    import numpy as np

    if "-o" in writers:
        writers["-o"].write(mask)
    shown = mask if frame.ndim == 2 else mask[..., None]
    foreground = np.where(shown, frame, np.uint8(0))
    if "--foreground" in writers:
        writers["--foreground"].write(foreground)
    if "--background" in writers or "--side-by-side" in writers:
        background = subtractor.as_bytes(subtractor.getBackgroundImage())
        if "--background" in writers:
            writers["--background"].write(background)
        if "--side-by-side" in writers:
            writers["--side-by-side"].write(np.concatenate([frame, background, foreground], axis=1))
