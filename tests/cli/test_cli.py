"""The command line, run in processes of its own as a user would run it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import maxnorm
from commands import assert_fails, run, run_successfully
from maxnorm import open_stream
from maxnorm.cli.options import NOISE_NAMES
from maxnorm.cli.training import ObjectiveSchedule
from maxnorm.core.noise import NOISES
from maxnorm.datasets import make_corrupted_low_rank
from maxnorm.metrics import expressed_variance, relative_error


def read_rows(path):
    return np.concatenate(list(open_stream(path)))


def read_png_width(path):
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG")
    return int.from_bytes(content[16:20], "big")


@pytest.fixture(scope="module")
def data():
    return make_corrupted_low_rank(4000, 30, 3, corruption=0.1, random_state=0)


@pytest.fixture
def folder(data, tmp_path):
    np.save(tmp_path / "x.npy", data.X)
    names = ",".join(f"s{i}" for i in range(30))
    np.savetxt(tmp_path / "x.csv", data.X[:500], delimiter=",", fmt="%.17g", header=names, comments="")
    return tmp_path


def fit_command(*options):
    return ["fit", "x.npy", "--rank", "3", "--epochs", "1", "--model", "m.maxnorm", *options]


# -- help and start-up --------------------------------------------------------------------------------


@pytest.mark.parametrize("argument", ["--help", "--version", "-h"])
def test_help_and_version_are_printed(argument, tmp_path):
    assert "maxnorm" in run_successfully(argument, folder=tmp_path).stdout


@pytest.mark.parametrize(
    "command", ["fit", "decompose", "complete", "inspect", "demo", "reproduce", "completion"]
)
def test_every_command_has_its_own_help(command, tmp_path):
    assert f"Usage: maxnorm {command}" in run_successfully(command, "--help", folder=tmp_path).stdout


def test_importing_the_command_line_does_not_import_heavy_packages():
    heavy = {"matplotlib", "numpy", "rich", "scipy", "sklearn"}
    code = f"import sys, maxnorm.cli; assert not {heavy} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_of_each_shell_is_printed(shell, tmp_path):
    assert "_MAXNORM_COMPLETE" in run_successfully("completion", shell, folder=tmp_path).stdout


def test_shell_completion_offers_commands():
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "_MAXNORM_COMPLETE": "bash_complete",
        "COMP_WORDS": "maxnorm de",
        "COMP_CWORD": "1",
    }
    offered = subprocess.run(["maxnorm"], capture_output=True, text=True, env=environment, check=False)
    assert "decompose" in offered.stdout


# -- demo ---------------------------------------------------------------------------------------------


def test_demo_repairs_a_table_and_writes_a_picture_and_a_report(tmp_path):
    result = run_successfully("demo", "-o", "shown", folder=tmp_path)
    for word in ("slips were found", "IterativeImputer", "report:", "picture:"):
        assert word in result.stdout
    assert read_png_width(tmp_path / "shown" / "picture.png")
    assert "<html" in (tmp_path / "shown" / "report.html").read_text()
    repaired = np.genfromtxt(tmp_path / "shown" / "repaired.csv", delimiter=",", skip_header=1)
    assert repaired.shape == (569, 30)
    assert np.isfinite(repaired).all()

    refused = run("demo", "-o", "shown", folder=tmp_path)
    assert_fails(refused, "received.csv already exists")


# -- fit ----------------------------------------------------------------------------------------------


def test_fit_gives_the_same_model_as_the_library(folder, data):
    result = run_successfully(*fit_command("--epochs", "2", "--json"), folder=folder)
    summary = json.loads(result.stdout)
    assert (summary["samples"], summary["features"], summary["components"]) == (8000, 30, 3)
    model = maxnorm.load(folder / "m.maxnorm")
    expected = maxnorm.MaxNormDecomposition(3, n_epochs=2, random_state=0).fit(data.X)
    np.testing.assert_array_equal(model.components_, expected.components_)
    assert expressed_variance(data.basis, model.components_.T) > 0.999


def test_fit_reads_csv_from_standard_input(folder):
    with (folder / "x.csv").open() as text:
        run_successfully("fit", "-", "--rank", 3, "--model", "m.maxnorm", folder=folder, stdin=text)
    model = maxnorm.load(folder / "m.maxnorm")
    assert model.feature_names_in_[2] == "s2"
    assert model.n_samples_seen_ == 500


def test_fit_refuses_several_epochs_over_standard_input(folder):
    result = run("fit", "-", "--model", "m.maxnorm", "--epochs", 2, folder=folder, input="1,2\n3,4\n")
    assert_fails(result, "can be read only once", "--epochs 1")


def test_fit_selects_the_rank(folder):
    result = run_successfully(
        "fit", "x.npy", "--rank", "auto", "--model", "m.maxnorm", "--json", folder=folder
    )
    assert json.loads(result.stdout)["components"] == 3


def test_fit_learns_biases_for_completion(folder):
    run_successfully(*fit_command("--estimator", "completion", "--biases"), folder=folder)
    assert maxnorm.load(folder / "m.maxnorm").state_.entry_model is not None


def test_fit_treats_a_column_without_values_as_missing(folder):
    (folder / "gaps.csv").write_text("a,b,c\n" + "1,,2\n2,,4\n3,,6\n" * 100)
    run_successfully("fit", "gaps.csv", "--rank", 1, "--model", "m", folder=folder)
    assert np.isfinite(maxnorm.load(folder / "m").components_).all()


def test_fit_keeps_a_symbolic_link_to_the_model_file(folder):
    (folder / "kept").mkdir()
    (folder / "link.maxnorm").symlink_to(folder / "kept" / "m.maxnorm")
    run_successfully("fit", "x.npy", "--rank", 3, "--model", "link.maxnorm", folder=folder)
    assert (folder / "link.maxnorm").is_symlink()
    assert maxnorm.load(folder / "kept" / "m.maxnorm").n_samples_seen_ == 4000


def test_a_json_summary_has_null_for_nan(folder):
    result = run_successfully(*fit_command("--noise-model", "none", "--json"), folder=folder)
    summary = json.loads(result.stdout, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert summary["lambda2"] is None


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [
        (["x.npy"], ["--model"], 2),
        (["x.npy", "--model", "m", "--lambda1", "much"], ["--lambda1", "'much'", "'auto'"], 2),
        (["x.npy", "--model", "m", "--rank", "0"], ["--rank", "'0'", "'auto'"], 2),
        (["x.npy", "--model", "m", "--biases"], ["--biases", "completion"], 2),
        (["x.npy", "--model", "x.npy", "--overwrite"], ["DATA and --model are the same file, x.npy"], 2),
        (["x.npy", "--model", "missing/m"], ["missing is not a folder"], 1),
        (["x.npy", "--model", "m", "--columns", "50"], ["x.npy", "50"], 1),
        (["missing.csv", "--model", "m"], ["missing.csv"], 1),
    ],
)
def test_fit_reports_wrong_arguments(arguments, words, code, folder):
    assert_fails(run("fit", *arguments, folder=folder), *words, code=code)
    assert not (folder / "m").exists()


def test_fit_reports_an_empty_file(folder):
    (folder / "empty.csv").touch()
    assert_fails(run("fit", "empty.csv", "--model", "m", folder=folder), "empty.csv")


def test_fit_reports_the_line_of_a_value_that_is_not_a_number(folder):
    (folder / "words.csv").write_text("a,b\n1,2\n3,four\n")
    assert_fails(run("fit", "words.csv", "--model", "m", folder=folder), "line 3", "'four'", "no model")
    assert not (folder / "m").exists()
    command = ("fit", "words.csv", "--epochs", "1", "--model", "m")
    assert_fails(run(*command, folder=folder), "line 3", "'four'")
    assert maxnorm.load(folder / "m").n_samples_seen_ == 1


# -- decompose and complete ---------------------------------------------------------------------------


def test_decompose_with_a_model_writes_every_format(folder, data):
    run_successfully(*fit_command(), folder=folder)
    result = run_successfully(
        *("decompose", "x.npy", "--model", "m.maxnorm", "--low-rank", "a.npy", "--noise", "b.parquet"),
        *("--coefficients", "c.h5", "--scores", "s.csv", "--json"),
        folder=folder,
    )
    assert json.loads(result.stdout)["samples"] == 4000
    model = maxnorm.load(folder / "m.maxnorm")
    parts = model.decompose(data.X)
    assert relative_error(data.low_rank, np.load(folder / "a.npy")) < 0.01
    for name, expected in (
        ("a.npy", parts.low_rank),
        ("b.parquet", parts.noise),
        ("c.h5", parts.coefficients),
        ("s.csv", model.score_samples(data.X)[:, None]),
    ):
        np.testing.assert_allclose(read_rows(folder / name), expected, rtol=1e-5, atol=1e-6)


def test_decompose_without_a_model_fits_one_first(folder, data):
    run_successfully("decompose", "x.npy", "--rank", 3, "--low-rank", "a.csv.gz", folder=folder)
    assert relative_error(data.low_rank, read_rows(folder / "a.csv.gz")) < 0.01


def test_decompose_repairs_gross_errors_and_gaps_and_keeps_the_other_values(folder, data):
    X = data.X.copy()
    X[np.random.default_rng(1).random(X.shape) < 0.05] = np.nan
    np.save(folder / "gaps.npy", X)
    run_successfully(*fit_command(), folder=folder)
    command = ("decompose", "gaps.npy", "--model", "m.maxnorm", "--repaired", "r.csv", "--noise", "e.npy")
    run_successfully(*command, folder=folder)
    repaired, replaced = read_rows(folder / "r.csv"), (np.load(folder / "e.npy") != 0.0) | np.isnan(X)
    np.testing.assert_array_equal(repaired[~replaced], X[~replaced])
    expected = maxnorm.load(folder / "m.maxnorm").decompose(X).low_rank
    np.testing.assert_allclose(repaired[replaced], expected[replaced], rtol=1e-5, atol=1e-6)
    assert relative_error(data.low_rank, repaired) < 0.01


def test_decompose_repairs_a_csv_file_and_keeps_the_names_of_its_columns(folder):
    run_successfully("decompose", "x.csv", "--rank", 3, "--repaired", "r.csv", folder=folder)
    assert open_stream(folder / "r.csv").names == open_stream(folder / "x.csv").names


def test_decompose_repairs_a_sparse_file(folder, data):
    X = np.where(np.arange(30) < 25, data.X[:500], 0.0)
    sparse.save_npz(folder / "sparse.npz", sparse.csr_array(X))
    run_successfully("decompose", "sparse.npz", "--rank", 3, "--repaired", "r.npy", folder=folder)
    repaired = np.load(folder / "r.npy")
    assert repaired.shape == X.shape
    assert 0.8 < np.mean(repaired == X) < 1.0


def test_decompose_requires_an_output_file(folder):
    assert_fails(run("decompose", "x.npy", folder=folder), "--repaired", "--low-rank", "--scores", code=2)


def test_decompose_requires_a_model_for_standard_input(folder):
    result = run("decompose", "-", "--low-rank", "a.npy", folder=folder, input="1,2\n")
    assert_fails(result, "can be read only once", "--model")


def test_decompose_refuses_an_unknown_format_before_it_fits(folder):
    result = run("decompose", "x.npy", "--rank", 3, "--low-rank", "a.xyz", folder=folder)
    assert_fails(result, "a.xyz", ".npy")


def test_decompose_refuses_two_outputs_in_one_file(folder):
    result = run("decompose", "x.npy", "--low-rank", "a.npy", "--noise", "a.npy", folder=folder)
    assert_fails(result, "--low-rank and --noise are the same file, a.npy", code=2)


@pytest.mark.parametrize("option", [("--rank", "7"), ("--noise-model", "l1"), ("--seed", "1")])
def test_decompose_refuses_parameters_together_with_a_model(option, folder):
    result = run("decompose", "x.npy", "--model", "m", *option, "--scores", "s.csv", folder=folder)
    assert_fails(result, f"{option[0]} has no effect with --model", code=2)


def test_decompose_refuses_scores_of_a_model_without_scores(folder, data):
    maxnorm.PrincipalComponentPursuit().fit(data.X[:60]).save(folder / "m.maxnorm")
    result = run("decompose", "x.csv", "--model", "m.maxnorm", "--scores", "s.csv", folder=folder)
    assert_fails(result, "m.maxnorm holds a PrincipalComponentPursuit", "leave out --scores")


def test_decompose_reports_the_row_of_an_infinite_entry_and_writes_nothing(folder, data):
    run_successfully(*fit_command(), folder=folder)
    X = np.tile(data.X, (20, 1))
    X[60_000, 3] = np.inf
    np.save(folder / "infinite.npy", X)
    result = run("decompose", "infinite.npy", "--model", "m.maxnorm", "--scores", "s.csv", folder=folder)
    assert_fails(result, "row 60000", "column 3")
    assert not (folder / "s.csv").exists()


@pytest.fixture
def gaps(folder, data):
    """Rows with missing entries, saved as gaps.csv."""
    X = data.low_rank[:1500].copy()
    X[np.random.default_rng(0).random(X.shape) < 0.3] = np.nan
    names = ",".join(f"s{i}" for i in range(30))
    lines = [",".join("" if np.isnan(value) else repr(value) for value in row) for row in X.tolist()]
    (folder / "gaps.csv").write_text("\n".join([names, *lines]))
    return X


def test_complete_fills_missing_entries_and_keeps_the_others(gaps, folder, data):
    run_successfully("complete", "gaps.csv", "--rank", 3, "-o", "filled.csv", folder=folder)
    filled = read_rows(folder / "filled.csv")
    assert open_stream(folder / "filled.csv").names[:2] == ("s0", "s1")
    np.testing.assert_array_equal(filled[~np.isnan(gaps)], gaps[~np.isnan(gaps)])
    assert relative_error(data.low_rank[:1500], filled) < 0.05


def test_complete_gives_the_same_with_a_model_fitted_before(gaps, folder):
    run_successfully("complete", "gaps.csv", "--rank", 3, "-o", "filled.npy", folder=folder)
    fit = ["fit", "gaps.csv", "--estimator", "completion", "--rank", 3, "--model", "m.maxnorm"]
    run_successfully(*fit, folder=folder)
    run_successfully("complete", "gaps.csv", "--model", "m.maxnorm", "-o", "again.npy", folder=folder)
    np.testing.assert_allclose(np.load(folder / "again.npy"), np.load(folder / "filled.npy"), atol=1e-9)


def test_complete_refuses_a_model_of_decomposition(gaps, folder):
    run_successfully("fit", "gaps.csv", "--rank", 3, "--model", "m.maxnorm", folder=folder)
    result = run("complete", "gaps.csv", "--model", "m.maxnorm", "-o", "filled.csv", folder=folder)
    assert_fails(result, "m.maxnorm holds a MaxNormDecomposition", "--estimator completion")


# -- inspect ------------------------------------------------------------------------------------------


def test_inspect_describes_a_model_as_text_and_as_json(folder):
    run_successfully(*fit_command(), folder=folder)
    shown = run_successfully("inspect", "m.maxnorm", folder=folder).stdout
    for word in ("MaxNormDecomposition", "4,000", "singular values", "convergence", "finished"):
        assert word in shown
    summary = json.loads(run_successfully("inspect", "m.maxnorm", "--json", folder=folder).stdout)
    assert len(summary["spectrum"]) == 3
    assert summary["parameters"]["n_components"] == 3
    history = summary["about"]["history"]
    assert len(history) > 10
    assert history[-1][1] < history[0][1]


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_inspect_draws_the_convergence_beside_spectrum_and_components(options, folder):
    run_successfully(*fit_command(), folder=folder)
    maxnorm.load(folder / "m.maxnorm").save(folder / "no-history.maxnorm")
    for model, figure in (("m.maxnorm", "three.png"), ("no-history.maxnorm", "two.png")):
        run_successfully("inspect", model, "--plot", figure, *options, folder=folder)
    assert read_png_width(folder / "three.png") > read_png_width(folder / "two.png")


def test_inspect_reports_files_that_are_not_models(folder):
    assert_fails(run("inspect", "x.npy", folder=folder), "x.npy")
    assert_fails(run("inspect", "missing", folder=folder), "missing: there is no such file")


# -- failures and resumption --------------------------------------------------------------------------


def assert_as_uninterrupted(folder, X, n_epochs=1):
    """Assert that the saved model equals one that was fitted without interruption."""
    model = maxnorm.load(folder / "m.maxnorm")
    expected = maxnorm.MaxNormDecomposition(3, n_epochs=n_epochs, random_state=0).fit(X)
    np.testing.assert_array_equal(model.components_, expected.components_)
    np.testing.assert_array_equal(model.state_.statistics.A, expected.state_.statistics.A)
    assert model.n_samples_seen_ == expected.n_samples_seen_


def test_an_unreadable_row_keeps_what_was_learnt_before(folder):
    lines = (folder / "x.csv").read_text().splitlines()
    lines[400] = "1,2"
    (folder / "bad.csv").write_text("\n".join(lines))
    command = ("fit", "bad.csv", "--rank", 3, "--epochs", 1, "--model", "m.maxnorm")
    result = run(*command, folder=folder)
    assert_fails(result, "bad.csv, line 401", "399 samples", "--resume")
    assert maxnorm.load(folder / "m.maxnorm").n_samples_seen_ == 399


def test_fit_resumes_after_an_unreadable_row_was_repaired(folder, data):
    lines = [",".join(map(repr, row)) for row in data.X.tolist()] * 10
    good, lines[39_000] = lines[39_000], "1,2"
    (folder / "bad.csv").write_text("\n".join(lines))
    command = ("fit", "bad.csv", "--rank", 3, "--epochs", 1, "--model", "m.maxnorm")
    assert_fails(run(*command, folder=folder), "bad.csv, line 39001", "saved to m.maxnorm", "--resume")
    assert maxnorm.load(folder / "m.maxnorm").n_samples_seen_ == 39_000
    lines[39_000] = good
    (folder / "bad.csv").write_text("\n".join(lines))
    run_successfully(*command, "--resume", folder=folder)
    expected = maxnorm.MaxNormDecomposition(3, n_epochs=1, random_state=0).fit(np.tile(data.X, (10, 1)))
    np.testing.assert_array_equal(maxnorm.load(folder / "m.maxnorm").components_, expected.components_)


def test_a_full_disk_is_reported_and_leaves_no_partial_file(folder):
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000)); "
        "sys.argv = ['maxnorm', *sys.argv[1:]]; from maxnorm.cli import main; main()"
    )
    command = [sys.executable, "-c", code, *fit_command("--checkpoint-every", "1000")]
    result = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    assert_fails(result, "cannot save m.maxnorm", "training continues", "could not be saved to m.maxnorm")
    assert not (folder / "m.maxnorm").exists()
    assert not list(folder.glob(".*"))


def test_a_damaged_model_is_replaced_but_not_resumed(folder):
    (folder / "m.maxnorm").write_text("hello")
    result = run(*fit_command("--resume"), folder=folder)
    assert_fails(result, "m.maxnorm", "use --overwrite instead of --resume")
    run_successfully(*fit_command("--overwrite"), folder=folder)


def test_a_model_saved_by_the_library_is_not_resumed(folder, data):
    maxnorm.MaxNormDecomposition(3, random_state=0).fit(data.X).save(folder / "m.maxnorm")
    result = run(*fit_command("--resume"), folder=folder)
    assert_fails(result, "m.maxnorm was not written by `maxnorm fit`", "--overwrite")


def test_resume_without_a_model_starts_from_the_first_row(folder, data):
    result = run_successfully(*fit_command("--resume"), folder=folder)
    assert "m.maxnorm does not exist yet" in result.stderr
    assert_as_uninterrupted(folder, data.X)


def test_resume_refuses_another_estimator_other_data_and_other_columns(folder):
    rows = (folder / "x.csv").read_text().splitlines()
    (folder / "bad.csv").write_text("\n".join([*rows[:300], "oops"]))
    options = ["--rank", 3, "--epochs", 1, "--model", "m.maxnorm"]
    assert_fails(run("fit", "bad.csv", *options, folder=folder), "line 301", "299 samples")
    for arguments, words in (
        (["x.csv"], ["data='bad.csv'", "data='x.csv'"]),
        (["bad.csv", "--columns", "0:20"], ["columns=None", "columns='0:20'"]),
        (["bad.csv", "--estimator", "robust-pca"], ["MaxNormDecomposition", "OnlineRobustPCA"]),
    ):
        assert_fails(run("fit", *arguments, *options, "--resume", folder=folder), *words, "--overwrite")
    (folder / "bad.csv").write_text("\n".join(rows[:100]))
    result = run("fit", "bad.csv", *options, "--resume", folder=folder)
    assert_fails(result, "bad.csv has fewer rows than the 299 already learnt from")
    assert maxnorm.load(folder / "m.maxnorm").n_samples_seen_ == 299


def test_resume_from_standard_input_learns_from_the_new_rows(folder):
    command = ["fit", "-", "--rank", 2, "--model", "m.maxnorm"]
    rows = np.random.default_rng(0).standard_normal((60, 5)).tolist()
    lines = [",".join(map(repr, row)) for row in rows]
    run_successfully(*command, folder=folder, input="\n".join(lines[:40]))
    run_successfully(*command, "--resume", folder=folder, input="\n".join(lines[40:]))
    assert maxnorm.load(folder / "m.maxnorm").n_samples_seen_ == 60


def test_the_objective_is_recorded_at_numbers_of_samples_that_grow_geometrically():
    schedule = ObjectiveSchedule()
    n_samples, history = 0, []
    while n_samples < 100_000:
        n_samples += schedule.max_batch(n_samples)
        if schedule.is_due(n_samples, history):
            history.append((n_samples, 0.0))
    assert history[0][0] == schedule.first_samples
    assert 10 < len(history) < 60


def test_the_noise_models_of_the_command_line_are_those_of_the_library():
    assert tuple(NOISES) == NOISE_NAMES


def test_changes_are_followed_on_standard_input_and_not_in_a_file(tmp_path):
    rng = np.random.default_rng(0)
    parts = [rng.standard_normal((600, 2)) @ rng.standard_normal((2, 12)) for _ in range(2)]
    X = np.vstack(parts) + 0.05 * rng.standard_normal((1200, 12))
    np.save(tmp_path / "x.npy", X)
    for name, option in (("whole", "--no-drift"), ("default", "--seed=0"), ("followed", "--drift")):
        options = ("--model", f"{name}.maxnorm", "--rank", "2", "--epochs", "1", option)
        run_successfully("fit", "x.npy", *options, folder=tmp_path)
    models = {name: maxnorm.load(tmp_path / f"{name}.maxnorm") for name in ("whole", "default", "followed")}
    assert models["whole"].changes_ == models["default"].changes_ == []
    assert [change.kind for change in models["followed"].changes_] == ["new"]
    np.savetxt(tmp_path / "x.csv", X, delimiter=",")
    command = [sys.executable, "-m", "maxnorm", "fit", "-", "--model", "live.maxnorm", "--rank", "2"]
    with (tmp_path / "x.csv").open() as rows:
        subprocess.run(command, stdin=rows, cwd=tmp_path, check=True, capture_output=True)
    assert maxnorm.load(tmp_path / "live.maxnorm").changes_
