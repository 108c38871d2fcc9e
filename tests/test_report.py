"""Reports and representations of fitted estimators."""

import re

import numpy as np
import pytest

from maxnorm import AnomalyDetector, MaxNormDecomposition


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3)) @ rng.standard_normal((3, 12)) + 0.05 * rng.standard_normal((200, 12))
    X[7, 4] = 90.0
    X[11, 2] = np.nan
    return X


@pytest.mark.parametrize("Estimator", [MaxNormDecomposition, AnomalyDetector])
def test_a_report_is_one_page_that_loads_nothing(Estimator, rows, tmp_path):
    model = Estimator(random_state=0).fit(rows)
    model.report(tmp_path / "report.html", rows)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<svg" in page
    assert re.findall(r"""(?:src|href)\s*=\s*["']?(?!#)""", page) == []
    assert "200" in page


def test_a_report_is_not_overwritten_unasked(rows, tmp_path):
    model = MaxNormDecomposition(random_state=0).fit(rows)
    (tmp_path / "report.html").write_text("mine")
    with pytest.raises(FileExistsError, match="overwrite=True"):
        model.report(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text() == "mine"
    model.report(tmp_path / "report.html", overwrite=True)
    assert "MaxNormDecomposition" in (tmp_path / "report.html").read_text()


def test_names_of_features_are_escaped(rows, tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(rows, columns=[f"<script>{j}" for j in range(12)])
    MaxNormDecomposition(random_state=0).fit(frame).report(tmp_path / "report.html", frame)
    page = (tmp_path / "report.html").read_text()
    assert "<script>" not in page
    assert "&lt;script&gt;4" in page


def test_the_representation_of_a_fitted_model_says_what_was_found(rows):
    model = MaxNormDecomposition(random_state=0)
    assert "share of the variance" not in model._repr_mimebundle_()["text/html"]
    page = model.fit(rows)._repr_mimebundle_()["text/html"]
    assert "share of the variance" in page
