"""The features of a model are found by name in other data."""

import numpy as np
import pytest

import maxnorm
from commands import run, run_successfully

X = np.random.default_rng(0).standard_normal((40, 1)) @ np.ones((1, 3))


def write_table(path, names, columns, delimiter=","):
    lines = [delimiter.join(names), *(delimiter.join(map(str, row)) for row in zip(*columns, strict=True))]
    path.write_text("\n".join(lines))


@pytest.fixture
def folder(tmp_path):
    a, b, c = X.T
    write_table(tmp_path / "x.csv", ["time", "label", "a", "b", "c"], [range(40), ["word"] * 40, a, b, c])
    write_table(tmp_path / "other.csv", ["c", "label", "b", "a"], [c, ["word"] * 40, b, a])
    run_successfully(
        "fit", "x.csv", "--columns", "2:", "--rank", "1", "--model", "m.maxnorm", folder=tmp_path
    )
    return tmp_path


@pytest.mark.parametrize("data", ["x.csv", "other.csv"])
def test_a_model_fitted_on_some_columns_finds_them_by_name(data, folder):
    command = ("decompose", data, "--model", "m.maxnorm", "--low-rank", "out.csv")
    run_successfully(*command, folder=folder)
    found = maxnorm.open_stream(folder / "out.csv")
    assert found.names == ("a", "b", "c")
    rows = maxnorm.open_stream(folder / "x.csv", columns=["a", "b", "c"])
    expected = maxnorm.load(folder / "m.maxnorm").decompose(rows).low_rank
    np.testing.assert_allclose(np.concatenate(list(found)), expected)


def test_data_without_names_are_read_as_they_are(folder):
    np.save(folder / "x.npy", X)
    run_successfully("decompose", "x.npy", "--model", "m.maxnorm", "--low-rank", "out.npy", folder=folder)
    assert np.load(folder / "out.npy").shape == X.shape


def test_data_without_the_features_of_the_model_are_refused(folder):
    write_table(folder / "y.csv", ["d", "e"], [X[:, 0], X[:, 1]])
    result = run("decompose", "y.csv", "--model", "m.maxnorm", "--low-rank", "out.npy", folder=folder)
    assert result.returncode == 1
    assert "the feature names are not those that MaxNormDecomposition was fitted on" in result.stderr
