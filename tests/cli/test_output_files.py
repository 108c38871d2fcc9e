"""Commands never overwrite their input, and overwrite results only if they are told to."""

import os
import shutil
import subprocess

import numpy as np
import pytest

from commands import COMMAND, assert_fails, full_disk, run, run_successfully

X = np.random.default_rng(0).standard_normal((60, 2)) @ np.random.default_rng(1).standard_normal((2, 6))


@pytest.fixture
def folder(tmp_path):
    np.save(tmp_path / "x.npy", X)
    return tmp_path


COMMANDS = [
    ("decompose", "x.npy", "--rank", "2", "--low-rank", "out.npy"),
    ("decompose", "x.npy", "--rank", "2", "--repaired", "out.npy"),
    ("decompose", "x.npy", "--rank", "2", "--scores", "out.npy"),
    ("complete", "x.npy", "--rank", "2", "--output", "out.npy"),
]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_input_is_never_the_output(command, folder):
    before = (folder / "x.npy").read_bytes()
    (folder / "link.npy").symlink_to(folder / "x.npy")
    os.link(folder / "x.npy", folder / "hard.npy")
    for output in ("x.npy", "./x.npy", "link.npy", "hard.npy"):
        result = run(*command[:-1], output, "--overwrite", folder=folder)
        assert_fails(result, f"DATA and {command[-2]} are the same file", code=2)
    assert (folder / "x.npy").read_bytes() == before


@pytest.mark.parametrize("command", COMMANDS)
def test_existing_results_need_overwrite(command, folder):
    (folder / "out.npy").write_text("precious")
    assert_fails(run(*command, folder=folder), "out.npy already exists: use --overwrite to replace it")
    assert (folder / "out.npy").read_text() == "precious"
    run_successfully(*command, "--overwrite", folder=folder)
    assert np.load(folder / "out.npy").shape[0] == 60


def test_no_result_is_written_into_the_folder_that_is_read(folder):
    (folder / "parts").mkdir()
    result = run("decompose", "parts", "--low-rank", "parts/out.parquet", folder=folder)
    assert_fails(result, "--low-rank is in the folder of DATA, parts", code=2)


def test_a_device_or_pipe_is_not_replaced(folder):
    os.mkfifo(folder / "pipe.npy")
    assert_fails(run(*COMMANDS[0][:-1], "pipe.npy", "--overwrite", folder=folder), "is a device or a pipe")
    assert_fails(run("fit", "x.npy", "--model", os.devnull, "--overwrite", folder=folder), "is a device")
    assert_fails(run("fit", "x.npy", "--model", "pipe.npy", "--resume", folder=folder), "is a device")
    assert (folder / "pipe.npy").is_fifo()


def test_a_figure_needs_overwrite_too(folder):
    run_successfully("fit", "x.npy", "--rank", "2", "--model", "m.maxnorm", folder=folder)
    run_successfully("inspect", "m.maxnorm", "--plot", "m.png", folder=folder)
    assert_fails(run("inspect", "m.maxnorm", "--plot", "m.png", folder=folder), "m.png already exists")
    assert_fails(
        run("inspect", "m.maxnorm", "--plot", "m.maxnorm", folder=folder), "are the same file", code=2
    )
    run_successfully("inspect", "m.maxnorm", "--plot", "m.png", "--overwrite", folder=folder)


@pytest.mark.parametrize("suffix", [".npy", ".csv", ".csv.gz", ".parquet", ".h5"])
def test_a_full_disk_is_reported_in_one_line_and_leaves_nothing(suffix, folder):
    command = ("decompose", "x.npy", "--rank", "2", "--low-rank", f"out{suffix}")
    with full_disk():
        result = run(*command, folder=folder)
    assert_fails(result, "File too large")
    assert sorted(path.name for path in folder.iterdir()) == ["x.npy"]


def test_a_missing_file_is_reported_without_importing_numpy(folder):
    for command in (
        ("fit", "missing.csv", "--model", "m.maxnorm"),
        ("decompose", "missing.csv", "--low-rank", "out.npy"),
        ("decompose", "x.npy", "--model", "missing.maxnorm", "--low-rank", "out.npy"),
        ("complete", "missing.csv", "--output", "out.npy"),
        ("inspect", "missing.maxnorm"),
    ):
        process = [COMMAND[0], "-X", "importtime", *COMMAND[1:], *command]
        result = subprocess.run(process, capture_output=True, text=True, cwd=folder, check=False)
        assert_fails(result, "there is no such file")
        assert "numpy" not in result.stderr


def test_escape_sequences_in_files_are_not_printed(folder):
    (folder / "x.csv").write_text("a,b,\x1b]0;title\x07c\n" + "\n".join("1,2,3" for _ in range(20)))
    run_successfully("fit", "x.csv", "--rank", "1", "--model", "m.maxnorm", folder=folder)
    shutil.copy(folder / "x.csv", folder / "\x1b[2Jx.csv")
    run_successfully("fit", "\x1b[2Jx.csv", "--rank", "1", "--model", "n.maxnorm", folder=folder)
    for model in ("m.maxnorm", "n.maxnorm"):
        assert "\x1b" not in run_successfully("inspect", model, folder=folder).stdout
    assert "\x1b" not in run("decompose", "\x1b[2Jmissing.csv", "--low-rank", "a.npy", folder=folder).stderr


def test_a_file_that_refers_to_another_is_read_only_if_asked_for(folder):
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "other.h5", "w") as file:
        file["data"] = X
    with h5py.File(folder / "x.h5", "w") as file:
        file["data"] = h5py.ExternalLink("other.h5", "data")
    command = ("fit", "x.h5", "--key", "data", "--rank", "2", "--model", "m.maxnorm")
    assert_fails(run(*command, folder=folder), "x.h5", "external")
    run_successfully(*command, "--external", folder=folder)
    run_successfully(*command, "--external", "--resume", folder=folder)
