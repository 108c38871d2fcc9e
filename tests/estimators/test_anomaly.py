"""The detector of anomalies: scikit-learn's API, the rate of false alarms, streams and explanations."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import maxnorm
from maxnorm import AnomalyDetector, MaxNormDecomposition, OnlineRobustPCA


@parametrize_with_checks([AnomalyDetector(random_state=0)])
def test_scikit_learn(estimator, check):
    check(estimator)


def make_rows(n, rng, p=12, rank=3, noise=0.2):
    basis = np.random.default_rng(7).standard_normal((rank, p))
    unit = 10.0 ** np.random.default_rng(8).uniform(-4, 4, p)
    X = rng.standard_normal((n, rank)) @ basis + noise * rng.standard_normal((n, p)) + 3.0
    return X * unit


def with_spikes(X, share, rng, size=6.0):
    wrong = rng.random(len(X)) < share
    Z = X.copy()
    for i in np.flatnonzero(wrong):
        j = rng.integers(X.shape[1])
        Z[i, j] += rng.choice([-1.0, 1.0]) * size * X[:, j].std()
    return Z, wrong


@pytest.mark.parametrize(("n_rows", "kind"), [(300, "complete"), (300, "gaps"), (2200, "float32")])
def test_false_alarms_on_new_rows_are_as_rare_as_stated(n_rows, kind):
    rates = []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        X, new = make_rows(n_rows, rng), make_rows(3000, rng)
        if kind == "gaps":
            X[rng.random(X.shape) < 0.2] = np.nan
            new[rng.random(new.shape) < 0.2] = np.nan
        if kind == "float32":
            X, new = X.astype(np.float32), new.astype(np.float32)
        rates.append(np.mean(AnomalyDetector(alarm_rate=0.02, random_state=0).fit(X).predict(new) < 0))
    assert 0.01 < np.mean(rates) < 0.04


def test_gaps_are_neither_suspicious_nor_reassuring():
    rng = np.random.default_rng(0)
    X, new = make_rows(2000, rng), make_rows(2000, rng)
    has_gaps = rng.random(len(new)) < 0.5
    new[has_gaps[:, None] & (rng.random(new.shape) < 0.6)] = np.nan
    scores = AnomalyDetector(random_state=0).fit(X).score_samples(new)
    assert abs(roc_auc_score(has_gaps, -scores) - 0.5) < 0.05


def test_an_empty_row_has_the_mean_score():
    rng = np.random.default_rng(0)
    detector = AnomalyDetector(random_state=0).fit(make_rows(500, rng))
    scores = detector.score_samples(make_rows(3000, rng))
    empty = detector.score_samples(np.full((1, 12), np.nan))[0]
    assert empty == pytest.approx(scores.mean(), abs=0.3)


def test_units_do_not_matter():
    X, _ = with_spikes(make_rows(400, np.random.default_rng(0)), 0.05, np.random.default_rng(1))
    unit = 10.0 ** np.linspace(-3, 3, 12)
    first = AnomalyDetector(random_state=0).fit(X)
    second = AnomalyDetector(random_state=0).fit(X * unit + 100.0 * unit * X.std(axis=0))
    np.testing.assert_array_equal(first.predict(X), second.predict(X * unit + 100.0 * unit * X.std(axis=0)))


def make_stream(kind, seed=0, n=4000, p=20):
    """Return a stream that changes in the middle, and which of its rows are anomalies."""
    rng = np.random.default_rng(seed)
    first, second = rng.standard_normal((2, 4, p))
    R, half = rng.standard_normal((n, 4)), n // 2
    X = R @ first
    if kind == "abrupt":
        X[half:] = R[half:] @ second
    if kind == "drift":
        angle = np.linspace(0.0, np.pi / 2, n)[:, None]
        X = np.cos(angle) * (R @ first) + np.sin(angle) * (R @ second)
    if kind == "shift":
        X[half:, : p // 3] += 5.0 * X[:, : p // 3].std(axis=0)
    X += 0.2 * rng.standard_normal(X.shape)
    share = np.where(np.arange(n) < 3 * n // 4, 0.0, 0.05) if kind == "late" else 0.02
    wrong = rng.random(n) < share
    for i in np.flatnonzero(wrong):
        j = rng.choice(p, 3, replace=False)
        X[i, j] += rng.choice([-1.0, 1.0], 3) * rng.uniform(1.5, 4.0, 3) * X[:half, j].std(axis=0)
    return X, wrong


@pytest.mark.parametrize("kind", ["still", "abrupt", "drift", "shift", "late"])
def test_anomalies_are_found_after_the_stream_has_changed(kind):
    X, wrong = make_stream(kind)
    detector = AnomalyDetector(random_state=0)
    decision = detector.score_learn(X)
    assert roc_auc_score(wrong[-1000:], -decision[-1000:]) > 0.99
    usual = ~wrong
    assert np.mean(decision[-1000:][usual[-1000:]] < 0.0) < 0.025  # false alarms
    assert np.mean(decision[2200:2400][usual[2200:2400]] < 0.0) < 0.1  # recovered within 200 rows
    kinds = [change.kind for change in detector.changes_]
    assert kinds == {"still": [], "late": [], "drift": ["drift"]}.get(kind, ["new"])
    if kind in ("abrupt", "shift"):
        assert abs(detector.changes_[0].sample - 2000) <= 20


def test_a_new_process_with_a_slow_rhythm_is_learnt_as_well_as_the_first_one():
    rng = np.random.default_rng(0)
    t = np.arange(1400) / 30.0
    factors = np.column_stack([np.sin(t), np.cos(t), np.sin(2.7 * t)])
    before, after = rng.standard_normal((2, 3, 8))
    X = np.where((np.arange(1400) < 700)[:, None], factors @ before, factors @ after)
    X += 0.05 * rng.standard_normal(X.shape)
    detector = AnomalyDetector(random_state=0)
    for row in X:
        detector.score_learn(row[None])
    assert [(change.sample, change.kind) for change in detector.changes_] == [(700, "new")]
    deviations = np.sqrt(detector.estimator_.noise_variance_)
    assert np.abs(np.log(deviations / 0.05)).max() < 0.5


def test_how_rows_are_divided_into_calls_makes_no_difference():
    X, _ = make_stream("abrupt", n=1200)
    whole, parts = AnomalyDetector(random_state=0), AnomalyDetector(random_state=0)
    decision = whole.score_learn(X)
    pieces = [parts.score_learn(piece) for piece in np.array_split(X, [1, 2, 50, 333, 334, 1000])]
    np.testing.assert_allclose(np.concatenate(pieces), decision, rtol=1e-6, atol=1e-6)


def test_anomalous_rows_do_not_spoil_the_model():
    rng = np.random.default_rng(0)
    X = make_rows(3000, rng)
    wrong = rng.random(len(X)) < 0.1
    wrong[:300] = False
    Z = np.where(wrong[:, None], X + 8.0 * X.std(axis=0) * rng.choice([-1, 1], 12), X)
    clean, dirty = AnomalyDetector(random_state=0), AnomalyDetector(random_state=0)
    clean.score_learn(X)
    decision = dirty.score_learn(Z)
    assert np.mean(decision[300:][wrong[300:]] < 0.0) > 0.95
    new = make_rows(1000, rng)
    assert np.mean(dirty.predict(new) < 0) < 0.03
    assert np.corrcoef(clean.score_samples(new), dirty.score_samples(new))[0, 1] > 0.9


@pytest.mark.parametrize("lags", [0, 2])
def test_a_saved_detector_continues_as_if_it_had_not_been_saved(tmp_path, lags):
    X, _ = make_stream("abrupt", n=700, p=8)
    detector = AnomalyDetector(OnlineRobustPCA(3), lags=lags, random_state=0)
    detector.score_learn(X[:333])
    detector.save(tmp_path / "detector.maxnorm")
    loaded, pickled = maxnorm.load(tmp_path / "detector.maxnorm"), pickle.loads(pickle.dumps(detector))
    expected = detector.score_learn(X[333:])
    for again in (loaded, pickled):
        np.testing.assert_array_equal(again.score_learn(X[333:]), expected)
    assert isinstance(loaded.estimator, OnlineRobustPCA)


def test_lags_see_what_single_rows_do_not_show():
    rng = np.random.default_rng(0)
    t = np.arange(4000)
    phase = 2 * np.pi * t / 25
    X = np.column_stack([np.sin(phase), np.cos(2 * phase), np.sin(phase + 1.0)])
    X += 0.05 * rng.standard_normal(X.shape)
    wrong = np.zeros(len(t), dtype=bool)
    for i in range(2050, 4000, 100):  # a row of another phase, which is usual by itself
        X[i], wrong[i] = X[i - 8], True
    plain = AnomalyDetector(random_state=0).score_learn(X)
    lagged = AnomalyDetector(lags=3, random_state=0).score_learn(X)
    after = np.zeros(len(t), dtype=bool)
    after[np.flatnonzero(wrong)[:, None] + np.arange(1, 4)] = True  # these see the wrong row as well
    used = (t >= 2000) & ~after
    assert roc_auc_score(wrong[used], -lagged[used]) > 0.99 > roc_auc_score(wrong[used], -plain[used])


def test_entries_and_rows_are_explained():
    rng = np.random.default_rng(0)
    X = make_rows(1000, rng)
    names = [f"sensor {j}" for j in range(12)]
    frame = pd.DataFrame(X.copy(), columns=names, index=pd.date_range("2024-01-01", periods=1000, freq="min"))
    frame.iloc[10, 3] += 20.0 * X[:, 3].std()
    found = AnomalyDetector(random_state=0).fit(frame).explain(frame)
    assert list(found.entries.columns) == ["row", "index", "feature", "value", "expected", "deviation"]
    entry = found.entries[found.entries["row"] == 10]
    assert entry["feature"].tolist() == ["sensor 3"]
    assert entry["index"].tolist() == [frame.index[10]]
    assert entry["value"].item() == frame.iloc[10, 3]
    assert abs(entry["expected"].item() - X[10, 3]) < X[:, 3].std()
    assert entry["deviation"].item() > 10.0
    row = found.rows[found.rows["row"] == 10]
    assert row["features"].item().startswith("sensor 3")
    assert row["score"].item() < 0.0
    assert len(found.entries) < 20


def test_awkward_tables():
    rng = np.random.default_rng(0)
    for X in (
        np.ones((1, 3)),
        np.ones((50, 3)),
        rng.standard_normal((20, 5)),
        np.column_stack([rng.standard_normal((100, 3)), np.full(100, 7.0)]),
        rng.standard_normal((100, 1)),
        np.where(rng.random((200, 4)) < 0.3, np.nan, rng.standard_normal((200, 4))),
    ):
        for detector in (AnomalyDetector(random_state=0).fit(X), AnomalyDetector(random_state=0)):
            detector.partial_fit(X)
            assert np.isfinite(detector.score_samples(X)).all()
            assert np.isfinite(detector.offset_)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"alarm_rate": 0.0}, "alarm_rate of AnomalyDetector must be a number above 0"),
        ({"alarm_rate": 1}, "alarm_rate"),
        ({"lags": -1}, "lags"),
        ({"estimator": object()}, "estimator of AnomalyDetector must be a MaxNormDecomposition"),
    ],
)
def test_wrong_parameters_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        AnomalyDetector(**parameters).fit(np.ones((5, 2)))


def test_the_estimator_keeps_its_parameters():
    model = MaxNormDecomposition(2)
    detector = AnomalyDetector(model, random_state=3).fit(make_rows(100, np.random.default_rng(0)))
    assert model.random_state is None
    assert not hasattr(model, "_progress")
    assert detector.estimator_.n_components_ == 2
