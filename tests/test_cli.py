"""The command line, run as a user would."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import maxnorm as library
from maxnorm import open_stream
from maxnorm.datasets import make_corrupted_low_rank
from maxnorm.metrics import expressed_variance, relative_error

COMMAND = [sys.executable, "-m", "maxnorm"]


def maxnorm(*arguments, cwd, **options):
    return subprocess.run(
        [*COMMAND, *map(str, arguments)], capture_output=True, text=True, cwd=cwd, check=False, **options
    )


def refused(result, *words, code=1):
    assert result.returncode == code, result.stderr
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in result.stderr
    return True


@pytest.fixture(scope="module")
def data():
    return make_corrupted_low_rank(4000, 30, 3, corruption=0.1, random_state=0)


@pytest.fixture
def folder(data, tmp_path):
    np.save(tmp_path / "x.npy", data.X)
    names = ",".join(f"s{i}" for i in range(30))
    np.savetxt(tmp_path / "x.csv", data.X[:500], delimiter=",", fmt="%.17g", header=names, comments="")
    return tmp_path


def test_demo_prints_a_table_and_writes_a_picture(tmp_path):
    result = maxnorm("demo", "--side", "24", "-o", "picture.png", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    for word in ("OMRMD", "OR-PCA", "online PCA", "512", "576", "picture: picture.png"):
        assert word in result.stdout
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_demo_without_a_place_for_its_picture(tmp_path):
    assert refused(maxnorm("demo", "-o", "nowhere/picture.png", cwd=tmp_path), "nowhere is not a folder")


@pytest.mark.parametrize("argument", ["--help", "--version", "-h"])
def test_help_and_version(argument, tmp_path):
    result = maxnorm(argument, cwd=tmp_path)
    assert result.returncode == 0
    assert "maxnorm" in result.stdout


def test_help_does_not_load_the_library(tmp_path):
    code = "import sys, maxnorm.cli; assert not {'numpy', 'sklearn', 'rich', 'scipy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_fit_gives_the_model_of_the_library(folder, data):
    result = maxnorm("fit", "x.npy", "--rank", 3, "--model", "m.maxnorm", "--epochs", 2, "--json", cwd=folder)
    assert result.returncode == 0, result.stderr
    summary = json.loads(result.stdout)
    assert (summary["samples"], summary["features"], summary["components"]) == (8000, 30, 3)
    model = library.load(folder / "m.maxnorm")
    direct = library.MaxNormDecomposition(3, n_epochs=2, random_state=0).fit(data.X)
    np.testing.assert_array_equal(model.components_, direct.components_)
    assert expressed_variance(data.basis, model.components_.T) > 0.999


def test_fit_from_standard_input(folder):
    with (folder / "x.csv").open() as text:
        result = maxnorm("fit", "-", "--rank", 3, "--model", "m.maxnorm", cwd=folder, stdin=text)
    assert result.returncode == 0, result.stderr
    assert library.load(folder / "m.maxnorm").feature_names_in_[2] == "s2"
    assert library.load(folder / "m.maxnorm").n_samples_seen_ == 500
    assert refused(
        maxnorm("fit", "-", "--model", "n.maxnorm", "--epochs", 2, cwd=folder, input="1,2\n3,4\n"),
        "can be read once only",
    )


def test_decompose_with_a_model_writes_every_format(folder, data):
    maxnorm("fit", "x.npy", "--rank", 3, "--model", "m.maxnorm", cwd=folder)
    result = maxnorm(
        *("decompose", "x.npy", "--model", "m.maxnorm", "--low-rank", "a.npy", "--noise", "b.parquet"),
        *("--coefficients", "c.h5", "--scores", "s.csv", "--json"),
        cwd=folder,
    )
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["samples"] == 4000
    model = library.load(folder / "m.maxnorm")
    parts = model.decompose(data.X)
    assert relative_error(data.low_rank, np.load(folder / "a.npy")) < 0.01
    for name, expected in (
        ("a.npy", parts.low_rank),
        ("b.parquet", parts.noise),
        ("c.h5", parts.coefficients),
        ("s.csv", model.score_samples(data.X)[:, None]),
    ):
        got = np.concatenate(list(open_stream(folder / name)))
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_decompose_without_a_model_learns_first(folder, data):
    result = maxnorm("decompose", "x.npy", "--rank", 3, "--low-rank", "a.csv.gz", cwd=folder)
    assert result.returncode == 0, result.stderr
    got = np.concatenate(list(open_stream(folder / "a.csv.gz")))
    assert relative_error(data.low_rank, got) < 0.01
    assert refused(maxnorm("decompose", "x.npy", cwd=folder), "--low-rank", code=2)
    assert refused(
        maxnorm("decompose", "-", "--low-rank", "b.npy", cwd=folder, input="1,2\n"), "give --model"
    )
    assert refused(
        maxnorm("decompose", "x.npy", "--rank", 3, "--low-rank", "b.xyz", cwd=folder), "b.xyz", ".npy"
    )


def test_complete_fills_gaps_and_keeps_the_rest(folder, data):
    holes = data.low_rank[:1500].copy()
    holes[np.random.default_rng(0).random(holes.shape) < 0.3] = np.nan
    names = ",".join(f"s{i}" for i in range(30))
    lines = [",".join("" if np.isnan(v) else repr(v) for v in row) for row in holes.tolist()]
    (folder / "holes.csv").write_text("\n".join([names, *lines]))
    result = maxnorm("complete", "holes.csv", "--rank", 3, "-o", "filled.csv", cwd=folder)
    assert result.returncode == 0, result.stderr
    stream = open_stream(folder / "filled.csv")
    filled = np.concatenate(list(stream))
    assert stream.names[:2] == ("s0", "s1")
    np.testing.assert_array_equal(filled[~np.isnan(holes)], holes[~np.isnan(holes)])
    assert relative_error(data.low_rank[:1500], filled) < 0.05
    maxnorm("fit", "holes.csv", "--estimator", "completion", "--rank", 3, "--model", "m.maxnorm", cwd=folder)
    maxnorm("complete", "holes.csv", "--model", "m.maxnorm", "-o", "again.npy", cwd=folder)
    np.testing.assert_allclose(np.load(folder / "again.npy"), filled, atol=1e-9)
    maxnorm("fit", "holes.csv", "--rank", 3, "--model", "d.maxnorm", cwd=folder)
    assert refused(
        maxnorm("complete", "holes.csv", "--model", "d.maxnorm", "-o", "f.csv", cwd=folder),
        "is a MaxNormDecomposition",
    )


def test_inspect(folder):
    maxnorm("fit", "x.npy", "--rank", 3, "--model", "m.maxnorm", cwd=folder)
    shown = maxnorm("inspect", "m.maxnorm", "--plot", "p.png", cwd=folder)
    assert shown.returncode == 0, shown.stderr
    for word in ("MaxNormDecomposition", "4,000", "spectrum", "convergence", "finished", "picture: p.png"):
        assert word in shown.stdout
    assert (folder / "p.png").read_bytes().startswith(b"\x89PNG")
    summary = json.loads(maxnorm("inspect", "m.maxnorm", "--json", cwd=folder).stdout)
    assert len(summary["spectrum"]) == 3
    assert summary["parameters"]["n_components"] == 3
    history = summary["about"]["history"]
    assert len(history) > 10
    assert history[-1][1] < history[0][1]
    assert refused(maxnorm("inspect", "x.npy", cwd=folder), "not a model file")
    assert refused(maxnorm("inspect", "none", cwd=folder), "none: No such file")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completion(shell, tmp_path):
    result = maxnorm("completion", shell, cwd=tmp_path)
    assert result.returncode == 0
    assert "_MAXNORM_COMPLETE" in result.stdout
    words = {
        **os.environ,
        "_MAXNORM_COMPLETE": "bash_complete",
        "COMP_WORDS": "maxnorm de",
        "COMP_CWORD": "1",
    }
    offered = subprocess.run(["maxnorm"], capture_output=True, text=True, env=words | _path())
    assert "decompose" in offered.stdout


def _path():
    return {"PATH": f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}"}


def test_wrong_usage(folder):
    assert refused(maxnorm("fit", "none.csv", "--model", "m", cwd=folder), "none.csv: there is no such file")
    assert refused(maxnorm("fit", "x.npy", "--model", "no/m", cwd=folder), "no is not a folder")
    assert refused(maxnorm("fit", "x.npy", cwd=folder), "--model", code=2)
    assert refused(maxnorm("fit", "x.npy", "--model", "m", "--lambda1", "much", cwd=folder), "'much'", code=2)
    assert refused(maxnorm("fit", "x.npy", "--model", "m", "--columns", "50", cwd=folder), "no column 50")
    (folder / "empty.csv").touch()
    assert refused(maxnorm("fit", "empty.csv", "--model", "m", cwd=folder), "empty.csv: is empty")
    (folder / "words.csv").write_text("a,b\n1,2\n3,four\n")
    assert refused(maxnorm("fit", "words.csv", "--model", "m", cwd=folder), "line 3, column 1: 'four'")
    assert library.load(folder / "m").n_samples_seen_ == 1


def test_columns_of_nan_are_learnt_as_missing(folder):
    (folder / "nan.csv").write_text("a,b,c\n" + "1,,2\n2,,4\n3,,6\n" * 100)
    result = maxnorm("fit", "nan.csv", "--rank", 1, "--model", "m", cwd=folder)
    assert result.returncode == 0, result.stderr
    assert np.isfinite(library.load(folder / "m").components_).all()


# -- stopping and going on ----------------------------------------------------------------------------


def fit(*more):
    return ["fit", "x.npy", "--rank", "3", "--model", "m.maxnorm", *more]


def as_uninterrupted(folder, X, epochs=1):
    model = library.load(folder / "m.maxnorm")
    direct = library.MaxNormDecomposition(3, n_epochs=epochs, random_state=0).fit(X)
    np.testing.assert_array_equal(model.components_, direct.components_)
    np.testing.assert_array_equal(model.state_.statistics.A, direct.state_.statistics.A)
    assert model.n_samples_seen_ == direct.n_samples_seen_
    return True


@pytest.fixture
def long(tmp_path):
    data = make_corrupted_low_rank(60_000, 40, 3, corruption=0.1, random_state=0)
    np.save(tmp_path / "x.npy", data.X)
    return tmp_path, data.X


def wait_for(process, path, seconds=30):
    end = time.monotonic() + seconds
    while process.poll() is None and not path.exists() and time.monotonic() < end:
        time.sleep(0.005)


def test_killed_at_any_moment_the_model_is_whole_and_resumes_exactly(long):
    folder, X = long
    rng = random.Random(0)
    kills = 0
    command = [*COMMAND, *fit("--checkpoint-every", "500", "--resume")]
    for _ in range(30):
        process = subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        wait_for(process, folder / "m.maxnorm")
        try:
            process.wait(timeout=rng.uniform(0.9, 1.6) if kills else rng.uniform(0.0, 0.1))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills += 1
            library.load(folder / "m.maxnorm")
        else:
            break
        if kills == 4:
            break
    assert kills
    result = maxnorm(*fit("--resume"), cwd=folder)
    assert result.returncode == 0, result.stderr
    assert as_uninterrupted(folder, X)
    assert sorted(file.name for file in folder.iterdir()) == ["m.maxnorm", "x.npy"]


def test_ctrl_c_saves_and_says_how_to_go_on(long):
    folder, X = long
    process = subprocess.Popen(
        [*COMMAND, *fit("--checkpoint-every", "100", "--epochs", "3")],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(process, folder / "m.maxnorm")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130, said
    assert "--resume goes on from there" in said
    assert "Traceback" not in said
    assert refused(maxnorm(*fit("--epochs", "3"), cwd=folder), "is there", "--resume", "--overwrite")
    assert refused(maxnorm(*fit("--resume"), cwd=folder), "other n_epochs")
    result = maxnorm(*fit("--epochs", "3", "--resume"), cwd=folder)
    assert result.returncode == 0, result.stderr
    assert as_uninterrupted(folder, X, epochs=3)
    again = maxnorm(*fit("--epochs", "3", "--resume"), cwd=folder)
    assert "finished already" in again.stderr


def test_a_bad_row_keeps_what_was_learnt(folder):
    lines = (folder / "x.csv").read_text().splitlines()
    lines[400] = "1,2"
    (folder / "bad.csv").write_text("\n".join(lines))
    result = maxnorm("fit", "bad.csv", "--rank", 3, "--model", "m.maxnorm", cwd=folder)
    assert refused(result, "bad.csv, line 401: 2 columns where 30 are expected")
    assert library.load(folder / "m.maxnorm").n_samples_seen_ == 399


def test_a_bad_row_late_in_a_long_file(folder, data):
    lines = [",".join(map(repr, row)) for row in data.X.tolist()] * 10
    good, lines[39_000] = lines[39_000], "1,2"
    (folder / "bad.csv").write_text("\n".join(lines))
    command = ("fit", "bad.csv", "--rank", 3, "--model", "m.maxnorm")
    result = maxnorm(*command, cwd=folder)
    assert refused(result, "bad.csv, line 39001", "rows is in m.maxnorm", "--resume")
    learnt = library.load(folder / "m.maxnorm").n_samples_seen_
    assert learnt == 39_000
    lines[39_000] = good
    (folder / "bad.csv").write_text("\n".join(lines))
    result = maxnorm(*command, "--resume", cwd=folder)
    assert result.returncode == 0, result.stderr
    direct = library.MaxNormDecomposition(3, random_state=0).fit(np.tile(data.X, (10, 1)))
    np.testing.assert_array_equal(library.load(folder / "m.maxnorm").components_, direct.components_)


def test_a_full_disk(folder):
    limited = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000)); "
        "sys.argv = ['maxnorm', *sys.argv[1:]]; from maxnorm.cli import main; main()"
    )
    result = subprocess.run(
        [sys.executable, "-c", limited, *fit("--checkpoint-every", "1000")],
        capture_output=True,
        text=True,
        cwd=folder,
    )
    assert refused(result, "cannot save m.maxnorm", "learning goes on")
    assert not (folder / "m.maxnorm").exists()
    assert not list(folder.glob(".*"))


def test_a_damaged_model_is_not_resumed(folder):
    (folder / "m.maxnorm").write_text("hello")
    assert refused(maxnorm(*fit("--resume"), cwd=folder), "not a model file", "--overwrite")
    assert maxnorm(*fit("--overwrite"), cwd=folder).returncode == 0


def test_an_interrupted_result_is_not_left_behind(long):
    folder, _ = long
    maxnorm(*fit(), cwd=folder)
    process = subprocess.Popen(
        [*COMMAND, "decompose", "x.npy", "--model", "m.maxnorm", "--low-rank", "a.csv"],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
    )
    end = time.monotonic() + 30
    while not list(folder.glob(".*a.csv")) and time.monotonic() < end:
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130, said
    assert sorted(file.name for file in folder.iterdir()) == ["m.maxnorm", "x.npy"]


def test_resuming_with_something_else_is_refused(folder):
    rows = (folder / "x.csv").read_text().splitlines()
    (folder / "bad.csv").write_text("\n".join([*rows[:300], "oops"]))
    command = ["fit", "bad.csv", "--rank", 3, "--model", "m.maxnorm"]
    assert refused(maxnorm(*command, cwd=folder), "line 301", "299 rows")
    other = ["fit", "x.csv", "--rank", 3, "--model", "m.maxnorm", "--resume"]
    assert refused(maxnorm(*other, cwd=folder), "begun with other data")
    assert refused(maxnorm(*command, "--resume", "--columns", "0:20", cwd=folder), "begun with other columns")
    (folder / "bad.csv").write_text("\n".join(rows[:100]))
    assert refused(maxnorm(*command, "--resume", cwd=folder), "ends before row 299")
    assert library.load(folder / "m.maxnorm").n_samples_seen_ == 299


def test_standard_input_goes_on_with_what_is_new(folder):
    command = ["fit", "-", "--rank", 2, "--model", "m.maxnorm"]
    rows = np.random.default_rng(0).standard_normal((60, 5))
    text = ["\n".join(",".join(map(repr, row)) for row in part.tolist()) for part in (rows[:40], rows[40:])]
    assert maxnorm(*command, cwd=folder, input=text[0]).returncode == 0
    assert maxnorm(*command, "--resume", cwd=folder, input=text[1]).returncode == 0
    assert library.load(folder / "m.maxnorm").n_samples_seen_ == 60


def test_ctrl_c_while_standard_input_is_quiet(tmp_path):
    process = subprocess.Popen(
        [*COMMAND, "fit", "-", "--rank", "2", "--model", "m.maxnorm", "--checkpoint-every", "1"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    end = time.monotonic() + 60
    while not (tmp_path / "m.maxnorm").exists() and time.monotonic() < end:
        process.stdin.write("1,2,3\n")
        process.stdin.flush()
        time.sleep(0.05)
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=20) == 130
    said = process.stderr.read()
    assert "--resume goes on from there" in said, said
    process.stdin.close()
    process.stderr.close()


def test_files_that_are_the_same(folder):
    maxnorm(*fit(), cwd=folder)
    both = maxnorm(
        *("decompose", "x.npy", "--model", "m.maxnorm", "--low-rank", "o.npy", "--noise", "o.npy"), cwd=folder
    )
    assert refused(both, "--low-rank and --noise are the same file", code=2)
    assert refused(
        maxnorm("fit", "x.npy", "--model", "x.npy", "--overwrite", cwd=folder), "same file", code=2
    )
    assert refused(maxnorm(*fit(), cwd=folder), "m.maxnorm is there")
    assert refused(
        maxnorm("decompose", "x.npy", "--model", "m.maxnorm", "--rank", 7, "--scores", "s.csv", cwd=folder),
        "--rank has no effect with --model",
        code=2,
    )


def test_summaries_are_json_and_links_stay_links(folder):
    (folder / "kept").mkdir()
    (folder / "link.maxnorm").symlink_to(folder / "kept" / "m.maxnorm")
    result = maxnorm(
        *("fit", "x.npy", "--rank", 3, "--model", "link.maxnorm", "--noise-model", "none", "--json"),
        cwd=folder,
    )
    assert json.loads(result.stdout, parse_constant=lambda name: pytest.fail(name))["lambda2"] is None
    assert (folder / "link.maxnorm").is_symlink()
    assert library.load(folder / "kept" / "m.maxnorm").n_samples_seen_ == 4000


def test_errors_name_the_row_of_the_file(folder, data):
    maxnorm(*fit(), cwd=folder)
    X = np.tile(data.X, (20, 1))
    X[60_000, 3] = np.inf
    np.save(folder / "inf.npy", X)
    result = maxnorm("decompose", "inf.npy", "--model", "m.maxnorm", "--scores", "s.csv", cwd=folder)
    assert refused(result, "infinity, first in row 60000, column 3")
    assert not (folder / "s.csv").exists()


def test_rank_and_biases(folder):
    result = maxnorm("fit", "x.npy", "--rank", "auto", "--model", "a.maxnorm", "--json", cwd=folder)
    assert json.loads(result.stdout)["components"] == 3
    model = ["--estimator", "completion", "--rank", 3, "--biases", "--model", "b.maxnorm"]
    assert maxnorm("fit", "x.npy", *model, cwd=folder).returncode == 0
    assert library.load(folder / "b.maxnorm").state_.biases is not None
    assert refused(maxnorm("fit", "x.npy", "--biases", "--model", "c.maxnorm", cwd=folder), "only", code=2)
    assert refused(maxnorm("fit", "x.npy", "--rank", "0", "--model", "c.maxnorm", cwd=folder), "'0'", code=2)
