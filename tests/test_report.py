"""Reports and representations of fitted estimators."""

import re
import warnings
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from maxnorm import (
    AnomalyDetector,
    MaxNormCompletion,
    MaxNormDecomposition,
    OnlineRobustPCA,
    PrincipalComponentPursuit,
    Recommender,
    SeriesImputer,
    VideoBackground,
    open_stream,
)
from maxnorm.core.drift import Change
from maxnorm.report import make_model_report, summarise, table_of_changes
from maxnorm.report_data import NoiseMap, ScoreMap, decompose_blocks

LARGEST_PAGE = 1_000_000  # characters


class Page(HTMLParser):
    """The headings, the paragraphs and the cells of tables of a page."""

    def __init__(self, text):
        super().__init__()
        self.texts = {"h1": [], "h2": [], "p": [], "tr": [], "figcaption": []}
        self._open = None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag in self.texts:
            self._open = tag
            self.texts[tag].append([])
        elif tag in ("td", "th"):
            self._open = "tr"
            self.texts["tr"][-1].append("")

    def handle_data(self, text):
        if self._open == "tr":
            self.texts["tr"][-1][-1] += text
        elif self._open:
            self.texts[self._open][-1].append(text)

    def handle_endtag(self, tag):
        if tag in ("h1", "h2", "p", "tr", "td", "th", "figcaption"):
            self._open = None

    def __getitem__(self, name):
        """Return what a row of a table has after its first cell; the first such row counts."""
        return next(row[1:] for row in self.texts["tr"] if row[0] == name)

    def paragraphs(self):
        return ["".join(text) for text in self.texts["p"]]

    def headings(self):
        return ["".join(text) for text in self.texts["h2"]]


def report(model, X=None, **options):
    return Page(make_model_report(model, X, **options))


def low_rank(n=200, p=12, rank=3, noise=0.05, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, rank)) @ rng.standard_normal((rank, p)) + noise * rng.standard_normal(
        (n, p)
    )


@pytest.fixture(scope="module")
def rows():
    X = low_rank()
    X[7, 4] = 90.0
    X[11, 2] = np.nan
    return X


@pytest.fixture(scope="module")
def model(rows):
    return MaxNormDecomposition(random_state=0).fit(rows)


# -- the page -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("Estimator", [MaxNormDecomposition, AnomalyDetector])
def test_a_report_is_one_page_that_loads_nothing(Estimator, rows, tmp_path):
    Estimator(random_state=0).fit(rows).report(tmp_path / "report.html", rows)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?(?!data:|#)""", text) == []
    page = Page(text)
    assert page["samples in the data"] == ["200"]
    assert page["samples learnt from"] == ["200"]
    assert page["entries missing in the data"] == [f"{1 / 2400:.2%}"]


def test_a_report_shows_where_the_gross_errors_are(model, rows):
    page = report(model, rows)
    assert page["gross errors in the data"] == [f"1 ({1 / 2399:.2%} of the observed entries)"]
    assert ["4", "1", "0.50%"] in page.texts["tr"]
    assert any(row[0] == "7" and row[2] == "4" for row in page.texts["tr"] if len(row) == 3)
    assert ["Sample 7: 1 gross error"] in page.texts["figcaption"]
    assert page["estimated share of gross errors"][0].endswith("%")


def test_a_report_is_not_overwritten_unasked(model, tmp_path):
    (tmp_path / "report.html").write_text("mine")
    with pytest.raises(FileExistsError, match=r"pass overwrite=True, for example in a notebook"):
        model.report(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text() == "mine"
    model.report(tmp_path / "report.html", overwrite=True)
    assert Page((tmp_path / "report.html").read_text()).texts["h1"] == [["MaxNormDecomposition"]]


def test_a_model_that_is_not_fitted_has_no_report(tmp_path):
    with pytest.raises(NotFittedError):
        MaxNormDecomposition().report(tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


def test_names_of_features_are_escaped(rows, tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(rows, columns=[f"<script>{j}" for j in range(12)])
    MaxNormDecomposition(random_state=0).fit(frame).report(tmp_path / "report.html", frame)
    page = (tmp_path / "report.html").read_text()
    assert "<script>" not in page
    assert "&lt;script&gt;4" in page


def test_charts_have_a_title_for_readers_who_cannot_see_them(model, rows):
    text = make_model_report(model, rows)
    charts = re.findall(r"<svg[^>]*>", text)
    assert len(charts) >= 4
    assert all(re.search(r'role="img" aria-label="[^"]+"', chart) for chart in charts)


def test_a_page_of_many_features_is_not_large():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 2)) @ rng.standard_normal((2, 20_000))
    model = PrincipalComponentPursuit(max_iter=20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X)
    X[:, ::2] += 50.0
    assert len(make_model_report(model, X)) < LARGEST_PAGE


@pytest.mark.parametrize("X", [np.empty((0, 12)), sp.csr_array((0, 12))])
def test_samples_without_rows_are_refused(model, X, tmp_path):
    with pytest.raises(ValueError, match="no samples"):
        model.report(tmp_path / "report.html", X)
    assert list(tmp_path.iterdir()) == []


# -- the samples --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: MaxNormDecomposition(random_state=0),
        lambda: AnomalyDetector(random_state=0),
        lambda: PrincipalComponentPursuit(tol=1e-3),
    ],
)
def test_features_in_another_order_are_refused(make, rows):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(rows, columns=list("abcdefghijkl"))
    model = make().fit(frame)
    with pytest.raises(ValueError, match="'l' in place of 'a'"):
        make_model_report(model, frame[frame.columns[::-1]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert report(model, frame)["samples in the data"] == ["200"]


def test_entries_that_a_sparse_matrix_does_not_store_are_missing_for_a_completion():
    X = low_rank(noise=0.0)
    mask = np.random.default_rng(1).random(X.shape) < 0.6
    observed = sp.csr_array(np.where(mask, X, 0.0))
    model = MaxNormCompletion(random_state=0).fit(observed)
    page = report(model, observed)
    assert page["entries missing in the data"] == [f"{1 - mask.mean():.2%}"]
    assert page["gross errors in the data"] == ["0 (0.00% of the observed entries)"]
    (block,) = decompose_blocks(model, observed)
    assert np.array_equal(np.isnan(block.values), ~mask)
    assert np.array_equal(block.values[mask], X[mask])


def test_warnings_about_the_samples_are_not_swallowed(model, rows):
    def warning(start):
        warnings.warn("the disk is nearly full", UserWarning, stacklevel=1)
        yield from open_stream(rows).source(start)

    with pytest.warns(UserWarning, match="the disk is nearly full"):
        make_model_report(model, replace(open_stream(rows), source=warning))


def test_samples_that_did_not_converge_are_reported_on_the_page(rows):
    model = MaxNormDecomposition(3, noise="l1", scale=None, center=False, n_epochs=1, random_state=0).fit(
        rows
    )
    model.set_params(max_iter=1, tol=1e-14)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        page = report(model, rows)
    assert any("did not converge for 200 samples" in text for text in page.paragraphs())


def test_a_detector_with_lags_finds_the_same_in_batches_as_in_the_whole():
    rng = np.random.default_rng(0)
    X = np.cumsum(rng.standard_normal((400, 1)), axis=0) * np.ones(4) + 0.1 * rng.standard_normal((400, 4))
    X[[60, 203], 2] += 9.0
    detector = AnomalyDetector(lags=2, random_state=0).fit(X)
    whole = list(decompose_blocks(detector, X))
    parts = list(decompose_blocks(detector, open_stream(X, batch_size=10)))
    assert len(parts) == 40
    for name in ("values", "low_rank", "noise", "scores"):
        joined = np.concatenate([getattr(block, name) for block in parts])
        assert np.allclose(joined, getattr(whole[0], name)), name
    assert [block.first for block in parts] == list(range(0, 400, 10))


@pytest.mark.parametrize("first", [1, 50])
def test_the_size_of_errors_does_not_depend_on_the_first_batch(first):
    X = 1e6 * low_rank(noise=0.0) + 1e7
    X[120, 4] += 1e8
    model = MaxNormDecomposition(4, center=False, scale=None, n_epochs=2, random_state=0).fit(X)

    def batches():
        yield X[:first]
        yield X[first:]

    def total(page):
        return next(row[1] for row in page.texts["tr"] if row[0] == "120")

    assert total(report(model, open_stream(batches))) == total(report(model, X))
    assert float(total(report(model, X))) < 1000.0


def test_only_deviations_that_are_zero_are_replaced(model):
    X = low_rank()
    X[:, 3] = 5.0
    found = NoiseMap(12, 10)
    for block in decompose_blocks(model, X):
        found.add(block._replace(noise=np.zeros_like(X)))
    expected = X.std(axis=0)
    expected[3] = 5.0
    assert np.allclose(found.deviations, expected)


@pytest.mark.parametrize(
    "make",
    [
        lambda: MaxNormDecomposition(3, noise="l1", random_state=0),
        lambda: MaxNormDecomposition(3, noise="l21", random_state=0),
        lambda: OnlineRobustPCA(3, noise="l1", n_epochs=3, random_state=0),
        lambda: PrincipalComponentPursuit(tol=1e-3),
    ],
)
def test_small_residuals_that_a_noise_model_absorbs_are_no_gross_errors(make):
    X = low_rank(400, 20)
    X[7, 4] += 90.0
    model = make().fit(X)
    page = report(model, X)
    count = int(page["gross errors in the data"][0].partition(" ")[0].replace(",", ""))
    assert 1 <= count <= 0.03 * X.size
    assert not any("are gross errors" in text for text in page.paragraphs())


def test_shares_do_not_count_missing_entries(model):
    X = low_rank()
    X[:, 3] = np.nan
    X[:10, 3] = 500.0
    page = report(model, X)
    assert ["3", "10", "100.00%"] in page.texts["tr"]
    assert "Most entries of feature 3 are gross errors: it may be faulty." in page.paragraphs()


def test_a_feature_without_values_is_named(model):
    X = low_rank()
    X[:, 3] = np.nan
    page = report(model, X)
    assert "Feature 3 has no value in the data." in page.paragraphs()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_streams_in_several_batches_give_the_same_report(dtype, rows):
    X = np.rint(1000.0 * np.nan_to_num(rows)).astype(dtype)
    model = MaxNormDecomposition(random_state=0).fit(X)
    whole, parts = report(model, X), report(model, open_stream(X, batch_size=7))
    assert whole.texts == parts.texts
    assert whole["gross errors in the data"][0].startswith("1 ")


def test_a_dask_array_gives_the_same_report(model, rows):
    dask = pytest.importorskip("dask.array")
    assert report(model, dask.from_array(rows, chunks=(50, 12))).texts == report(model, rows).texts


def test_a_model_without_gross_errors_says_so(rows):
    page = report(MaxNormDecomposition(noise="none", random_state=0).fit(rows), rows)
    assert "No gross error was found in the data." in page.paragraphs()
    assert "Before and after" not in page.headings()


def test_rows_are_called_by_the_labels_of_a_frame(rows):
    pandas = pytest.importorskip("pandas")
    times = pandas.date_range("2024-03-01", periods=len(rows), freq="h")
    frame = pandas.DataFrame(rows, index=times, columns=list("abcdefghijkl"))
    page = report(AnomalyDetector(random_state=0).fit(frame), frame)
    assert ["Sample 2024-03-01 07:00:00: 1 gross error"] in page.texts["figcaption"]
    assert page["2024-03-01 07:00:00"][1].split(", ")[0] == "e"


def test_the_report_of_a_detector_has_its_scores_and_the_anomalous_rows(rows):
    detector = AnomalyDetector(random_state=0).fit(rows)
    text = make_model_report(detector, rows)
    page = Page(text)
    anomalies = np.flatnonzero(detector.predict(rows) < 0)
    assert 7 in anomalies
    assert page["anomalous rows in the data"] == [f"{len(anomalies)}"]
    place = page.texts["tr"].index(["row", "score", "features that deviate most"])
    listed = page.texts["tr"][place + 1 : place + 1 + len(anomalies)]
    assert sorted(int(row[0]) for row in listed) == anomalies.tolist()
    assert listed[0][0] == "7"
    assert listed[0][2].split(", ")[0] == "4"
    chart = re.search(r'aria-label="Score of each row, and the threshold">(.*?)</svg>', text)[1]
    assert chart.count("<circle") == len(anomalies)


# -- the model ----------------------------------------------------------------------------------------


def test_the_components_are_drawn_as_lines_or_as_images():
    X = low_rank(p=30)
    model = MaxNormDecomposition(3, random_state=0).fit(X)
    lines = make_model_report(model)
    assert len(re.findall('aria-label="Component [123]"', lines)) == 3
    for images in (
        make_model_report(model, X.reshape(-1, 5, 6)),
        make_model_report(model, feature_shape=(5, 6)),
    ):
        assert len(re.findall('alt="Component [123]" src="data:image/png;base64,', images)) == 3
        assert 'aria-label="Component 1' not in images
    with pytest.raises(ValueError, match="feature_shape"):
        make_model_report(model, feature_shape=(5, 5))


def test_images_are_shown_before_and_after():
    images = low_rank(p=30).reshape(-1, 5, 6)
    images[7, 2, 2] += 90.0
    text = make_model_report(MaxNormDecomposition(3, random_state=0).fit(images), images)
    for part in ("measured", "low-rank part", "gross errors"):
        assert f'alt="Sample 7, {part}"' in text


def test_an_image_can_be_read_by_others(tmp_path):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    from maxnorm.svg import png

    pixels = np.arange(5 * 7 * 3, dtype=np.uint8).reshape(5, 7, 3)
    (tmp_path / "x.png").write_bytes(png(pixels))
    assert np.array_equal(np.rint(255 * pyplot.imread(tmp_path / "x.png")[..., :3]), pixels)


def test_models_without_shares_of_variance_show_singular_values(rows):
    model = MaxNormDecomposition(3, center=False, scale=None, n_epochs=1, random_state=0).fit(rows)
    assert not hasattr(model, "explained_variance_ratio_")
    page = report(model)
    assert ["Singular values, as shares of the largest"] in page.texts["figcaption"]
    assert page["components"] == ["3"]


def test_a_report_says_that_samples_are_few():
    page = report(MaxNormDecomposition(3, random_state=0).fit(low_rank(12)))
    assert any("3 components but has learnt from 12 samples only" in text for text in page.paragraphs())


def test_changes_of_the_stream_are_listed():
    class Changed:
        changes_ = (Change(1200, "new", None), Change(5000, "turn", np.pi / 4))

    table = Page(table_of_changes(Changed())).texts["tr"]
    assert table[1:] == [["1,200", "new", "not known yet"], ["5,000", "turn", "45°"]]


def test_changes_are_a_part_of_the_report_only_for_models_that_notice_them(model, rows):
    page = report(model)
    assert "No change was noticed." in page.paragraphs()
    assert "Changes of the stream" not in report(PrincipalComponentPursuit(tol=1e-3).fit(rows)).headings()


def test_the_lowest_score_of_each_bin_is_kept():
    found = ScoreMap(4)
    scores = np.random.default_rng(0).standard_normal(1000)
    for part in np.array_split(scores, 7):
        found.add(part)
    assert 4 <= len(found.lowest) <= 8
    starts = np.arange(0, 1000, found.rows_per_bin)
    assert np.array_equal(found.lowest, np.minimum.reduceat(scores, starts))


# -- other estimators, and notebooks ------------------------------------------------------------------


def ratings():
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((40, 25)) < 0.4)
    return users, items, rng.integers(1, 6, len(users))


def series():
    X = np.column_stack([np.sin(np.arange(300) / 9 + shift) for shift in range(3)])
    X[50:80, 1] = np.nan
    return X


def film():
    return np.random.default_rng(0).integers(100, 110, (12, 24, 32, 3), dtype=np.uint8)


FITTED = {
    "MaxNormDecomposition": (lambda: MaxNormDecomposition(random_state=0).fit(low_rank()), "share of the"),
    "OnlineRobustPCA": (lambda: OnlineRobustPCA(random_state=0).fit(low_rank()), "share of the variance"),
    "paper": (lambda: MaxNormDecomposition(3, center=False, scale=None).fit(low_rank()), "samples learnt"),
    "l1": (lambda: MaxNormDecomposition(3, noise="l1").fit(low_rank()), "samples learnt from"),
    "completion": (lambda: MaxNormCompletion(random_state=0).fit(low_rank()), "components"),
    "ratings": (lambda: MaxNormCompletion(biases=True, random_state=0).fit(low_rank()), "components"),
    "pursuit": (lambda: PrincipalComponentPursuit(tol=1e-3).fit(low_rank(noise=0.0)), "components"),
    "detector": (lambda: AnomalyDetector(random_state=0).fit(low_rank()), "score below which"),
    "lags": (lambda: AnomalyDetector(lags=2, random_state=0).fit(low_rank()), "score below which"),
    "recommender": (lambda: Recommender(random_state=0).fit(ratings()), "users"),
    "series": (lambda: SeriesImputer(random_state=0).fit(series()), "weight of interpolation"),
    "periods": (lambda: SeriesImputer(period=57, random_state=0).fit(series()), "weight of periods"),
    "film": (lambda: VideoBackground().fit(film()), "frames seen"),
    "grey film": (lambda: VideoBackground().fit(film()[..., 0]), "frames seen"),
}


@pytest.mark.parametrize("name", FITTED)
def test_every_estimator_has_a_report_and_says_in_notebooks_what_was_found(name, tmp_path):
    make, words = FITTED[name]
    model = make()
    assert any(words in line for line in summarise(model))
    model.report(tmp_path / "report.html")
    page = Page((tmp_path / "report.html").read_text())
    assert "Parameters" in page.headings()
    assert any(words in row[0] for row in page.texts["tr"])
    for shown in (model._repr_mimebundle_()["text/html"], model._repr_html_inner()):
        assert shown.count('class="maxnorm-found"') == 1
        assert words in shown


@pytest.mark.parametrize(
    "Estimator",
    [
        MaxNormDecomposition,
        MaxNormCompletion,
        PrincipalComponentPursuit,
        AnomalyDetector,
        Recommender,
        SeriesImputer,
        VideoBackground,
    ],
)
def test_an_estimator_that_is_not_fitted_shows_nothing_found(Estimator):
    assert "maxnorm-found" not in Estimator()._repr_mimebundle_()["text/html"]
    assert "maxnorm-found" not in Estimator()._repr_html_inner()


def test_what_was_found_is_shown_within_a_pipeline():
    from sklearn.base import BaseEstimator

    if not hasattr(BaseEstimator, "_get_params_html"):
        pytest.skip("pipelines of scikit-learn before 1.7 show no more than parameters that were set")
    pipeline = make_pipeline(FunctionTransformer(), MaxNormDecomposition(random_state=0)).fit(low_rank())
    assert pipeline._repr_html_().count('class="maxnorm-found"') == 1


def test_the_report_on_series_shows_the_filled_gaps():
    page = report(SeriesImputer(random_state=0).fit(series()), series())
    assert ["1: 30 of 300 entries filled"] in page.texts["figcaption"]
    assert (
        "The data have no gaps."
        in report(SeriesImputer(random_state=0).fit(series()), np.nan_to_num(series())).paragraphs()
    )


@pytest.mark.parametrize("name", ["recommender", "film"])
def test_a_report_that_shows_no_samples_refuses_them(name):
    model = FITTED[name][0]()
    with pytest.raises(TypeError, match="leave out the data"):
        make_model_report(model, low_rank())
    with pytest.raises(TypeError, match="leave out feature_shape"):
        make_model_report(model, feature_shape=(3, 4))


def test_the_report_on_ratings_names_the_items_with_the_most():
    users, items, stars = ratings()
    page = report(Recommender(random_state=0).fit((users, items, stars)))
    place = page.texts["tr"].index(["item", "ratings", "mean rating"])
    counts = np.bincount(items)
    item, count, mean = page.texts["tr"][place + 1]
    assert int(count) == counts.max() == counts[int(item)]
    assert float(mean) == pytest.approx(stars[items == int(item)].mean(), abs=0.01)


def test_the_report_on_a_film_shows_the_background():
    text = make_model_report(VideoBackground().fit(film()))
    assert 'alt="The background" src="data:image/png' in text
    assert Page(text)["size of a frame"] == ["32 x 24 pixels, in colour"]
