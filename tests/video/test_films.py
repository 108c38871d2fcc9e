"""Films read and written, and the command ``maxnorm video``."""

import json
import signal
import subprocess
import sys
import time
from fractions import Fraction

import numpy as np
import pytest
from click.testing import CliRunner

from maxnorm import VideoBackground, load, open_film
from maxnorm.cli import main
from maxnorm.video import FilmWriter
from maxnorm.video.reading import FilmError

SHAPE = (48, 64)


def frames_of(n):
    """Return a film in which a bright box moves from the twentieth frame on."""
    rng = np.random.default_rng(0)
    film = np.clip(rng.normal(100.0, 2.0, (n, *SHAPE, 3)), 0, 255).astype(np.uint8)
    for t in range(20, n):
        film[t, 10:30, 10 + t % 20 : 22 + t % 20] = 220
    return film


def write(path, frames, rate=25):
    with FilmWriter(path, rate) as writer:
        for frame in frames:
            writer.write(frame)
    return path


def run(*arguments):
    return CliRunner().invoke(main, ["video", *map(str, arguments)])


@pytest.mark.parametrize("suffix", [".mp4", ".mov", ".mkv", ".avi", ".gif"])
def test_a_film_that_was_written_is_read_again_with_its_rate(tmp_path, suffix):
    frames = frames_of(30)
    film = open_film(write(tmp_path / f"film{suffix}", frames, 20))
    again = np.stack(list(film))
    assert film.rate == 20
    assert film.n_frames == 30
    assert again.shape == frames.shape
    assert np.abs(again.astype(int) - frames).mean() < 20


@pytest.mark.parametrize("suffix", [".mp4", ".mov", ".mkv", ".avi", ".gif"])
def test_films_of_less_than_a_frame_per_second_keep_their_rate(tmp_path, suffix):
    source = write(tmp_path / f"slow{suffix}", frames_of(6), 0.5)
    assert open_film(source).rate == Fraction(1, 2)
    result = run(source, "-o", tmp_path / f"mask{suffix}", "--every", 2)
    assert result.exit_code == 0, result.output
    assert open_film(tmp_path / f"mask{suffix}").rate == Fraction(1, 4)


def test_films_of_a_frame_per_hour_keep_their_rate(tmp_path):
    assert open_film(write(tmp_path / "film.mp4", frames_of(3), 1 / 3600)).rate == Fraction(1, 3600)


def test_images_in_a_folder_are_read_in_natural_order_and_without_loss(tmp_path):
    frames = frames_of(12)
    folder = write(tmp_path / "images", frames)
    for i in range(12):
        (folder / f"{i + 1:06d}.png").rename(folder / f"frame{i + 1}.png")
    (folder / "notes.txt").write_text("no image")
    assert np.array_equal(np.stack(list(open_film(folder))), frames)
    assert np.array_equal(np.stack(list(open_film(str(folder / "*.png")))), frames)


def test_arrays_are_read_as_they_are(tmp_path):
    frames = frames_of(5)[..., 0]
    np.save(tmp_path / "film.npy", frames)
    film = open_film(tmp_path / "film.npy")
    assert np.array_equal(np.stack(list(film)), frames)
    assert VideoBackground().fit(film).background_.shape == SHAPE


def test_odd_sizes_are_written_with_one_more_row_and_column(tmp_path):
    film = open_film(write(tmp_path / "odd.mp4", np.zeros((5, 47, 63), np.uint8)))
    assert next(iter(film)).shape == (48, 64, 3)


def test_frames_of_another_size_are_resized_with_a_warning(tmp_path):
    folder = write(tmp_path / "images", frames_of(2))
    with FilmWriter(tmp_path / "other", 25) as other:
        other.write(np.zeros((30, 40), np.uint8))
    (tmp_path / "other" / "000001.png").rename(folder / "000003.png")
    with pytest.warns(UserWarning, match="1 frames of other sizes were resized to 64 x 48"):
        assert [frame.shape for frame in open_film(folder)] == [(*SHAPE, 3)] * 3


def test_what_cannot_be_read_is_refused_by_name(tmp_path):
    (tmp_path / "empty.mp4").touch()
    (tmp_path / "text.mp4").write_text("this is no film")
    (tmp_path / "folder").mkdir()
    np.save(tmp_path / "table.npy", np.zeros((5, 5)))
    for name, message in [
        ("empty.mp4", "is empty"),
        ("text.mp4", "cannot be read as a film"),
        ("folder", "no images"),
        ("table.npy", "a film has"),
    ]:
        with pytest.raises(FilmError, match=message):
            list(open_film(tmp_path / name))
        result = run(tmp_path / name, "-o", tmp_path / "out.mp4")
        assert result.exit_code == 1
        assert message in result.output
    assert not (tmp_path / "out.mp4").exists()
    with pytest.raises(FileNotFoundError, match="no such file"):
        open_film(tmp_path / "missing.mp4")
    with pytest.raises(FilmError, match="films are written as"):
        FilmWriter(tmp_path / "film.txt", 25)


def test_a_truncated_or_damaged_film_gives_the_frames_that_can_be_read(tmp_path):
    path = write(tmp_path / "film.avi", frames_of(60))
    content = bytearray(path.read_bytes())
    (tmp_path / "short.avi").write_bytes(content[: len(content) // 2])
    assert run(tmp_path / "short.avi").exit_code == 0
    assert 0 < sum(1 for _ in open_film(tmp_path / "short-mask.avi")) < 60
    rng = np.random.default_rng(0)
    for place in rng.integers(len(content) // 4, len(content), 60):
        content[place] = rng.integers(256)
    (tmp_path / "noisy.avi").write_bytes(content)
    result = run(tmp_path / "noisy.avi")
    assert result.exit_code in (0, 1), result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)


def test_the_command_writes_all_results(tmp_path):
    source = write(tmp_path / "film.mp4", frames_of(50), 10)
    names = {"-o": "mask", "--background": "background.mp4", "--foreground": "foreground.avi"}
    options = [item for name, file in names.items() for item in (name, tmp_path / file)]
    result = run(source, *options, "--side-by-side", tmp_path / "look.mp4", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["frames"] == 50
    masks = np.stack(list(open_film(tmp_path / "mask")))
    assert set(np.unique(masks)) == {0, 255}
    assert (masks[45, 12:28, 17:25] == 255).all()
    assert open_film(tmp_path / "look.mp4").rate == 10
    assert next(iter(open_film(tmp_path / "look.mp4"))).shape == (48, 192, 3)
    background = list(open_film(tmp_path / "background.mp4"))[-1]
    assert np.abs(background.astype(int) - 100).max() < 20


def test_every_scale_region_and_number_of_frames(tmp_path):
    source = write(tmp_path / "film.mp4", frames_of(50), 10)
    options = ["--every", 2, "--roi", "8,4,48,40", "--scale", 0.5, "--frames", 20]
    result = run(source, "-o", tmp_path / "mask.avi", *options)
    assert result.exit_code == 0, result.output
    masks = list(open_film(tmp_path / "mask.avi"))
    assert len(masks) == 20
    assert masks[0].shape == (20, 24, 3)
    assert open_film(tmp_path / "mask.avi").rate == 5
    for region, message in [("1,2,3", "is not LEFT,TOP"), ("0,0,0,5", "no pixels")]:
        assert message in run(source, "-o", tmp_path / "other.avi", "--roi", region).output
    result = run(source, "-o", tmp_path / "other.avi", "--roi", "0,0,500,10")
    assert result.exit_code == 1
    assert "64 x 48" in result.output


def test_nothing_is_overwritten_unasked_and_a_model_is_continued(tmp_path):
    source = write(tmp_path / "film.mp4", frames_of(50))
    model = tmp_path / "film.maxnorm"
    assert run(source, "--model", model).exit_code == 0
    assert (tmp_path / "film-mask.mp4").exists()
    assert "use --overwrite" in run(source).output
    result = run(source, "--model", model, "--resume", "-o", tmp_path / "second.mp4")
    assert result.exit_code == 0, result.output
    assert load(model).n_frames_ == 100
    assert run(source, "-o", source, "--overwrite").exit_code == 2
    assert run("0").exit_code == 2


def test_the_model_to_continue_with_is_checked_before_any_work(tmp_path):
    source = write(tmp_path / "film.mp4", frames_of(5))
    options = ["--resume", "--overwrite"]
    for model, code, message in [
        (tmp_path / "missing" / "film.maxnorm", 1, "is not a folder"),
        (source, 2, "are the same file"),
        (tmp_path / "mask.mp4", 2, "are the same file"),
    ]:
        result = run(source, "-o", tmp_path / "mask.mp4", "--model", model, *options)
        assert result.exit_code == code
        assert message in result.output
    for name in ("--model", "--background"):
        result = run(source, "-o", tmp_path / "masks", name, tmp_path / "masks", *options[1:])
        assert result.exit_code == 2
        assert "are the same" in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["film.mp4"]


def test_the_smallest_area_is_a_share_of_the_image(tmp_path):
    source = write(tmp_path / "film.mp4", frames_of(5))
    result = run(source, "--min-area", 1)
    assert result.exit_code == 2
    assert "0.0<=x<1.0" in result.output


def test_ctrl_c_leaves_playable_files(tmp_path):
    np.save(tmp_path / "film.npy", np.repeat(frames_of(60), 60, axis=0))
    command = [sys.executable, "-m", "maxnorm", "video", "film.npy", "-o", "mask.mp4"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120.0
    while (
        process.poll() is None
        and time.monotonic() < deadline
        and not any(path.stat().st_size for path in tmp_path.glob(".mask*.mp4"))
    ):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)  # which does nothing if the process has ended
    _, message = process.communicate(timeout=120)
    assert process.returncode == 130, message
    assert "the results hold the first" in message
    assert sum(1 for _ in open_film(tmp_path / "mask.mp4")) > 0
    assert not list(tmp_path.glob(".mask*"))


def test_an_error_keeps_the_files_of_an_earlier_run(tmp_path):
    frames = frames_of(40).astype(float)
    frames[30, 0, 0] = np.inf
    np.save(tmp_path / "film.npy", frames)
    earlier = write(tmp_path / "mask.mp4", frames_of(5)).read_bytes()
    result = run(tmp_path / "film.npy", "-o", tmp_path / "mask.mp4", "--overwrite")
    assert result.exit_code == 1
    assert "infinite" in result.output
    assert (tmp_path / "mask.mp4").read_bytes() == earlier
    assert not list(tmp_path.glob(".mask*"))


def test_a_folder_of_images_is_replaced_only_if_asked(tmp_path):
    source = write(tmp_path / "film.mp4", frames_of(30))
    assert run(source, "-o", tmp_path / "masks").exit_code == 0
    assert "use --overwrite" in run(source, "-o", tmp_path / "masks").output
    assert run(source, "-o", tmp_path / "masks", "--overwrite", "--frames", 10).exit_code == 0
    assert len(list((tmp_path / "masks").iterdir())) == 10
    assert run(source, "-o", tmp_path / "same.mp4", "--model", tmp_path / "same.mp4").exit_code == 2


def test_images_in_a_folder_are_removed_only_if_asked_and_only_when_there_is_a_frame(tmp_path):
    folder = write(tmp_path / "images", frames_of(3))
    (folder / "notes.txt").write_text("kept")
    with pytest.raises(FilmError, match=r"images: the folder is not empty; set overwrite to True"):
        FilmWriter(folder, 25)
    with FilmWriter(folder, 25, overwrite=True) as writer:
        assert len(list(folder.iterdir())) == 4
        writer.write(frames_of(1)[0])
    assert sorted(path.name for path in folder.iterdir()) == ["000001.png", "notes.txt"]
    with FilmWriter(tmp_path / "unused", 25):
        pass
    assert not (tmp_path / "unused").exists()
    with pytest.raises(FilmError, match="a file has this name"):
        FilmWriter(write(tmp_path / "film.mp4", frames_of(1)).rename(tmp_path / "film"), 25)


def test_a_film_that_cannot_be_read_leaves_the_images_of_an_earlier_run(tmp_path):
    folder = write(tmp_path / "masks", frames_of(3))
    (tmp_path / "text.mp4").write_text("this is no film")
    content = write(tmp_path / "film.mp4", frames_of(20)).read_bytes()
    (tmp_path / "damaged.mp4").write_bytes(content[:40] + bytes(len(content) - 40))
    source = tmp_path / "film.mp4"
    for arguments in [
        (tmp_path / "text.mp4",),
        (tmp_path / "damaged.mp4",),
        (source, "--roi", "0,0,500,10"),
        (source, "--scale", 0.001),
    ]:
        result = run(*arguments, "-o", folder, "--overwrite")
        assert result.exit_code in (1, 2), result.output
        assert len(list(folder.iterdir())) == 3


def test_images_that_are_read_are_not_replaced(tmp_path):
    folder = write(tmp_path / "images", frames_of(3))
    for source in (folder, folder / "*.png", folder / "000001.png"):
        result = run(source, "-o", folder, "--overwrite")
        assert result.exit_code == 2
        assert "use another folder" in result.output
    assert np.array_equal(np.stack(list(open_film(folder))), frames_of(3))


def test_frames_that_cannot_be_written_are_refused(tmp_path):
    with (
        pytest.raises(FilmError, match="convert it to bytes"),
        FilmWriter(tmp_path / "film.mp4", 25) as writer,
    ):
        writer.write(np.zeros((4, 4)))
    writer = FilmWriter(tmp_path / "film.mp4", 25)
    writer.write(np.zeros((4, 4), np.uint8))
    with pytest.raises(FilmError, match="earlier ones"):
        writer.write(np.zeros((4, 6), np.uint8))
    writer.discard()
    with pytest.raises(FilmError, match="above 0"):
        FilmWriter(tmp_path / "film.mp4", 0)
    assert not list(tmp_path.iterdir())
