"""Dask collections: the model depends neither on where blocks are nor on what happens to workers."""

import importlib
import os
import pickle
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import dask.array as da
import dask.config
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from distributed import Client, LocalCluster
from distributed.utils import get_mp_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import maxnorm
from maxnorm import MaxNormCompletion, MaxNormDecomposition, OnlineRobustPCA
from maxnorm.core.batch import Batch
from maxnorm.core.state import accumulate
from maxnorm.dask import blocks as blocks_module
from maxnorm.dask.blocks import BlockError, Blocks, GraphRule, RetryRule
from maxnorm.dask.rounds import RoundSettings, learn_blocks
from maxnorm.dask.sealing import Sealed, open_once
from maxnorm.datasets import make_corrupted_low_rank
from maxnorm.estimators.validation import BatchReader
from maxnorm.learner import Progress, step
from maxnorm.metrics import expressed_variance, relative_error
from maxnorm.paper.methods import PAPER_PROBLEM
from maxnorm.streams import Stream, StreamError

N, P, D, ROWS = 2400, 40, 3, 100
HANG_SECONDS = 300  # a test on a cluster that takes so long has failed
DATA = make_corrupted_low_rank(N, P, D, corruption=0.15, random_state=0)
X = DATA.X
ESTIMATORS = [MaxNormDecomposition(D, random_state=0), OnlineRobustPCA(D, random_state=0)]


@pytest.fixture(autouse=True)
def one_thread():
    """Compute in this thread unless a test uses a cluster, so that errors have plain tracebacks."""
    with dask.config.set(scheduler="synchronous"):
        yield


def lazy(array=X, rows=ROWS):
    return da.from_array(array, chunks=(rows, -1))


def with_missing_entries(share=0.7):
    """Return clean data, and the same data with a share of the entries missing."""
    clean = make_corrupted_low_rank(N, P, D, corruption=0.0, random_state=0).X
    hidden = np.random.default_rng(1).random(clean.shape) < share
    return clean, np.where(hidden, np.nan, clean)


def assert_same_model(a, b, tolerance=1e-10):
    np.testing.assert_allclose(
        a.components_, b.components_, rtol=0, atol=tolerance * np.abs(b.components_).max()
    )
    assert a.n_samples_seen_ == b.n_samples_seen_


# -- rounds -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ESTIMATORS)
def test_a_fit_in_rounds_is_as_good_as_a_serial_one(model):
    seen = []
    model = clone(model)
    model.fit(lazy(), callback=lambda result: seen.append(model.n_samples_seen_))
    rounds = np.diff([0, *seen]) // ROWS
    assert rounds[0] == 3  # blocks of 100 rows, from which the units are chosen
    assert rounds.max() >= 4
    assert all(k == 1 or k * ROWS <= before / 2 for k, before in zip(rounds[1:], seen, strict=False))
    assert model.n_samples_seen_ == N
    serial = clone(model).set_params(n_epochs=1).fit(X)
    loss = expressed_variance(DATA.basis, serial.components_.T) - expressed_variance(
        DATA.basis, model.components_.T
    )
    assert loss < 0.001


@pytest.mark.parametrize("model", ESTIMATORS)
@pytest.mark.parametrize("settings", [{}, {"forgetting": 2.0, "half_life": 500.0}])
def test_blocks_as_large_as_batches_are_the_serial_learner(model, settings):
    model = clone(model).set_params(batch_size=ROWS, **settings, **PAPER_PROBLEM | {"n_epochs": 2})
    assert_same_model(clone(model).fit(lazy()), clone(model).fit(X))


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_a_round_is_one_large_batch(missing):
    """The sums of a round agree with those of one step on all of its rows."""
    Z = np.where(np.random.default_rng(0).random((600, P)) < missing, np.nan, X[:600])
    model = MaxNormDecomposition(D, forgetting=3.0, half_life=400.0, random_state=0).fit(X[:500])
    learner, state = model.make_learner(), model.state_
    settings = RoundSettings(BatchReader(False), seed=0, batch_size=600, half_life=400.0)
    ((progress, result),) = learn_blocks(learner, Progress(state), Blocks.of(lazy(Z, 70)), settings)
    whole, expected = step(learner, state, Batch(Z))[::-1]
    found, expected = accumulate(state, result.added), accumulate(state, whole)
    for name in ("A", "B", "r", "loss", "weight", "entries"):
        np.testing.assert_allclose(
            getattr(found.statistics, name), getattr(expected.statistics, name), rtol=1e-9, atol=1e-9
        )
    assert (found.time, found.n_samples) == (expected.time, expected.n_samples) == (1100, 1100)
    assert progress.state.n_samples == 1100


@pytest.mark.parametrize("kind", ["rows", "entries"])
def test_contributions_can_be_grouped_in_any_way(kind):
    parameters = {"forgetting": 3.0, "half_life": 400.0, "random_state": 0}
    if kind == "rows":
        model, Z = MaxNormDecomposition(D, **parameters).fit(X[:500]), X.copy()
    else:
        Z = with_missing_entries()[1]
        model = MaxNormCompletion(D, biases=True, lambda1=0.1, **parameters).fit(Z[:500])
    Z[600:650] = np.nan  # empty samples
    learner = model.make_learner()
    state, settings = learner.begin(model.state_, None)
    a, b, c, d = (learner.measure(Batch(Z[i : i + 50]), state.L, settings, i) for i in (500, 550, 600, 650))
    left, right = ((a + b) + c) + d, a + (b + (c + d))
    assert (left.n_samples, left.n_full) == (right.n_samples, right.n_full) == (200, 150)
    assert (left.biases is not None) == (kind == "entries")
    for name in ("statistics", "scales", "decay", *(["biases"] if left.biases is not None else [])):
        for field, x in vars(getattr(left, name)).items():
            if x is not None:
                np.testing.assert_allclose(x, getattr(getattr(right, name), field), rtol=1e-11, atol=1e-14)
    assert left.free_norm == pytest.approx(right.free_norm)
    np.testing.assert_allclose(left.multiplier_sums, right.multiplier_sums)


def test_a_half_life_limits_rounds_and_follows_a_drift():
    rng = np.random.default_rng(0)
    first, second = (np.linalg.qr(rng.standard_normal((P, D)))[0] for _ in range(2))
    R = rng.standard_normal((2000, D))
    Z = np.concatenate([R[:1000] @ first.T, R[1000:] @ second.T])
    seen = []
    model = MaxNormDecomposition(D, half_life=200.0, random_state=0)
    model.fit(lazy(Z, 10), callback=lambda result: seen.append(model.n_samples_seen_))
    assert np.diff(seen).max() == 20  # a tenth of the half-life
    serial = MaxNormDecomposition(D, half_life=200.0, random_state=0).fit(Z)
    ev = [expressed_variance(second, m.components_.T) for m in (model, serial)]
    assert ev[0] > max(0.99, ev[1] - 0.002)


def test_every_pass_over_the_blocks_counts_its_samples():
    twice = MaxNormDecomposition(D, n_epochs=2, random_state=0).fit(lazy())
    assert twice.n_samples_seen_ == 2 * N


def test_partial_fit_takes_blocks_and_arrays_in_turn():
    model = MaxNormDecomposition(D, random_state=0).partial_fit(lazy(X[:1200])).partial_fit(X[1200:1300])
    model.partial_fit(lazy(X[1300:]))
    assert model.n_samples_seen_ == N
    assert expressed_variance(DATA.basis, model.components_.T) > 0.999


def test_the_basis_is_learnt_from_blocks_with_missing_entries():
    Z = np.where(np.random.default_rng(0).random(X.shape) < 0.3, np.nan, X)
    model = MaxNormDecomposition(D, random_state=0).fit(lazy(Z))
    assert expressed_variance(DATA.basis, model.components_.T) > 0.998


def test_chunks_of_columns_are_joined():
    assert_same_model(
        MaxNormDecomposition(D, random_state=0).fit(da.from_array(X, chunks=(ROWS, 13))),
        MaxNormDecomposition(D, random_state=0).fit(lazy()),
    )


def test_single_precision_is_kept():
    model = MaxNormDecomposition(D, random_state=0).fit(lazy(X.astype(np.float32)))
    assert model.components_.dtype == np.float32
    assert model.transform(lazy(X.astype(np.float32))).compute().dtype == np.float32
    model.partial_fit(lazy())  # in double precision, which does not change that of the model
    assert model.components_.dtype == np.float32


def test_blocks_of_unknown_length_are_learnt_from():
    chosen = lazy()[lazy()[:, 0] > 0.0]
    assert np.isnan(chosen.shape[0])
    model = MaxNormDecomposition(D, random_state=0).fit(chosen)
    assert model.n_samples_seen_ == (X[:, 0] > 0).sum()
    seen = []
    model.set_params(half_life=400.0)
    model.partial_fit(chosen, callback=lambda result: seen.append(model.n_samples_seen_))
    assert np.diff([model.n_samples_seen_ // 2, *seen]).max() < 1.5 * ROWS


def test_empty_blocks_between_others_change_nothing():
    gap = da.concatenate([lazy(X[:300]), lazy(X[:0]), lazy(X[300:])])
    model = MaxNormDecomposition(D, random_state=0).fit(gap)
    assert_same_model(model, MaxNormDecomposition(D, random_state=0).fit(lazy()))
    assert model.transform(gap).compute().shape == (N, D)


def test_a_model_is_fitted_on_and_applied_to_empty_blocks():
    hollow = da.from_array(X, chunks=((0, 1200, 0, 1200), P))
    steps = []
    model = MaxNormDecomposition(D, random_state=0).fit(hollow, callback=lambda r: steps.append(r.step))
    assert len(steps) == 3  # there is no report before the first sample
    for result in (*model.decompose(hollow), model.transform(hollow), model.score_samples(hollow)):
        assert result.compute().shape[0] == N
    assert model.transform(hollow[:0]).compute().shape == (0, D)


def test_samples_of_zeros_do_not_disturb_the_basis():
    Z = np.concatenate([np.zeros((200, P)), X[:600], np.zeros((400, P)), X[600:]])
    model = MaxNormDecomposition(D, random_state=0, **PAPER_PROBLEM).fit(lazy(Z))
    assert model.n_samples_seen_ == N + 600
    assert model.state_.time == N
    assert expressed_variance(DATA.basis, model.components_.T) > 0.999


def test_a_new_fit_forgets_the_feature_names_of_the_last():
    frame = dd.from_pandas(pd.DataFrame(X, columns=[f"sensor {i}" for i in range(P)]), npartitions=4)
    model = MaxNormDecomposition(D, random_state=0).fit(frame).fit(lazy())
    assert not hasattr(model, "feature_names_in_")


def test_a_numpy_integer_is_the_same_seed():
    assert_same_model(
        MaxNormDecomposition(D, random_state=np.int64(0)).fit(lazy()),
        MaxNormDecomposition(D, random_state=0).fit(lazy()),
    )


def test_a_random_state_is_used_up_as_in_a_serial_fit():
    blocks_state, serial_state = np.random.RandomState(3), np.random.RandomState(3)
    for _ in range(2):  # the second fit draws another seed than the first
        assert_same_model(
            MaxNormDecomposition(D, random_state=blocks_state).fit(lazy(rows=N)),
            MaxNormDecomposition(D, random_state=serial_state, n_epochs=1).fit(X),
        )


def test_fits_without_a_seed_differ():
    first, second = (MaxNormDecomposition(D, **PAPER_PROBLEM).fit(lazy()).components_ for _ in range(2))
    assert not np.array_equal(first, second)


def test_column_labels_that_are_numbers_are_not_feature_names():
    frame = pd.DataFrame(X)
    model = MaxNormDecomposition(D, random_state=0).fit(dd.from_pandas(frame, npartitions=4))
    assert not hasattr(model, "feature_names_in_")
    assert model.transform(frame).shape == (N, D)


def test_small_rounds_of_selected_blocks_learn_the_same_as_the_whole_graph(monkeypatch):
    """Rounds of 2 among 150 blocks select their blocks first, because optimising all blocks would be slow."""
    Z, models, seen = lazy(X[:600, :5], 4), [], []
    for least_share in (blocks_module.GRAPH.least_share, 0.0):
        monkeypatch.setattr(blocks_module, "GRAPH", GraphRule(least_share=least_share))
        model = MaxNormDecomposition(2, batch_size=10, random_state=0)
        models.append(model.fit(Z, callback=lambda result: seen.append(result.n_samples)))
    assert_same_model(*models)
    assert len(seen) >= 2 * 75


def test_a_noise_defined_in_a_function_can_be_used():
    class Mine:
        def prox(self, V):
            return V - np.clip(V, -0.1, 0.1)

        def value(self, E):
            return 0.1 * np.abs(E).sum(axis=1)

    model = MaxNormDecomposition(D, noise=Mine(), random_state=0).fit(lazy())
    assert expressed_variance(DATA.basis, model.components_.T) > 0.99


def test_a_pandas_frame_with_columns_named_like_dask_attributes_is_not_a_dask_frame():
    frame = pd.DataFrame(X[:, :3], columns=["dask", "npartitions", "chunks"])
    assert MaxNormDecomposition(1).fit(frame).n_samples_seen_ == N


def test_the_number_of_components_is_found_from_blocks():
    model = MaxNormDecomposition("auto", random_state=0).fit(lazy())
    assert model.n_components_ == D


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("biases", [False, True])
def test_completion_fills_the_missing_entries_of_blocks(sparse, biases):
    clean, Z = with_missing_entries()
    blocks = lazy(Z)
    if sparse:
        blocks = blocks.map_blocks(entries, dtype=float, meta=sp.csr_array((0, 0)))
    seen = []
    model = MaxNormCompletion(D + 2 * biases, biases=biases, n_epochs=3, random_state=0)
    model.fit(blocks, callback=lambda result: seen.append(model.n_samples_seen_))
    assert np.diff(seen).max() >= 4 * ROWS
    assert relative_error(clean, model.transform(blocks).compute()) < 0.01
    np.testing.assert_allclose(
        model.transform(blocks).compute(), model.transform(entries(Z) if sparse else Z), atol=1e-8
    )
    assert model.predict_entries(blocks).shape == Z.shape
    single = blocks.astype(np.float32)
    assert model.transform(single).dtype == model.transform(single).compute().dtype


def entries(Z):
    """Return the entries of Z that are not missing as a sparse matrix."""
    rows, columns = np.nonzero(~np.isnan(Z))
    return sp.csr_array((Z[rows, columns], (rows, columns)), shape=Z.shape)


def test_robust_completion_recovers_the_low_rank_part_of_blocks():
    clean, Z = with_missing_entries(0.4)
    Z = Z + np.where(np.random.default_rng(0).random(Z.shape) < 0.1, 100.0, 0.0)
    model = MaxNormCompletion(D, noise="capped", random_state=0).fit(lazy(Z))
    assert relative_error(clean, model.decompose(lazy(Z)).low_rank.compute()) < 0.05


NAMES = [f"sensor {i}" for i in range(P)]


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # raised inside Dask with the newest pandas
@pytest.mark.parametrize("stored", [False, True])
def test_a_data_frame_gives_the_model_of_its_array(stored, tmp_path):
    frame = pd.DataFrame(X, columns=NAMES)
    frames = dd.from_pandas(frame, npartitions=24)
    if stored:
        for i in range(24):
            frame[ROWS * i : ROWS * (i + 1)].to_parquet(tmp_path / f"{i:02}.parquet", index=False)
        frames = dd.read_parquet(tmp_path)
    model = MaxNormDecomposition(D, random_state=0).fit(frames)
    assert list(model.feature_names_in_) == NAMES
    assert_same_model(model, MaxNormDecomposition(D, random_state=0).fit(lazy()))
    np.testing.assert_allclose(model.transform(frames).compute(), model.transform(frame))


def test_a_data_frame_with_other_columns_is_refused():
    frame = pd.DataFrame(X, columns=NAMES)
    model = MaxNormDecomposition(D, random_state=0).fit(frame)
    frames = dd.from_pandas(frame, npartitions=2)
    with pytest.raises(ValueError, match="the first difference is 'sensor 39' in place of 'sensor 0'"):
        model.transform(frames[NAMES[::-1]])


def test_a_data_frame_of_text_is_refused():
    frames = dd.from_pandas(pd.DataFrame({"a": ["x"], "b": ["y"]}), npartitions=1)
    with pytest.raises(ValueError, match="numeric"):
        MaxNormDecomposition(1).fit(frames)


# -- applying a model ------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ESTIMATORS)
def test_lazy_results_are_those_of_the_array(model):
    model = clone(model).fit(X)
    expected, scores = model.decompose(X), model.score_samples(X)
    assert model.transform(lazy()).shape == (N, D)
    np.testing.assert_allclose(model.transform(lazy()).compute(), expected.coefficients, atol=1e-12)
    for found, part in zip(dask.compute(*model.decompose(lazy())), expected, strict=True):
        assert found.dtype == part.dtype
        np.testing.assert_allclose(found, part, atol=1e-12)
    assert model.score_samples(lazy()).shape == (N,)
    np.testing.assert_allclose(model.score_samples(lazy()).compute(), scores)
    assert model.score(lazy()) == pytest.approx(model.score(X))


@pytest.mark.parametrize("model", ESTIMATORS)
def test_lazy_results_belong_to_the_model_at_the_time_of_the_call(model):
    model = clone(model).fit(X)
    results = (model.transform(lazy()), model.score_samples(lazy()), *model.decompose(lazy()))
    expected = (model.transform(X), model.score_samples(X), *model.decompose(X))
    components = model.components_.copy()
    model.partial_fit(X[:500] + 5.0)
    assert not np.array_equal(components, model.components_)
    for found, part in zip(dask.compute(*results), expected, strict=True):
        np.testing.assert_allclose(found, part, atol=1e-12)


def test_lazy_results_take_waiting_rows_into_account():
    model = MaxNormDecomposition(D, random_state=0).fit(X).partial_fit(X[:1])
    np.testing.assert_allclose(model.transform(lazy()).compute(), model.transform(X), atol=1e-12)


def test_pandas_output_is_computed_at_once():
    model = MaxNormDecomposition(D, random_state=0).fit(X).set_output(transform="pandas")
    found = model.transform(lazy())
    assert list(found.columns) == list(model.get_feature_names_out())
    np.testing.assert_allclose(found, model.transform(X), atol=1e-12)


# -- errors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["transform", "decompose", "score_samples"])
def test_a_model_must_be_fitted_before_it_is_applied(method):
    with pytest.raises(NotFittedError):
        getattr(MaxNormDecomposition(), method)(lazy())


def test_collections_with_another_number_of_features_are_refused():
    model = MaxNormDecomposition(D, random_state=0).fit(X)
    with pytest.raises(ValueError, match="has 39 features"):
        model.transform(lazy()[:, 1:])
    with pytest.raises(ValueError, match="the Dask collection: has 39 features"):
        model.partial_fit(lazy()[:, 1:])


@pytest.mark.parametrize("series", [False, True])
def test_collections_with_one_dimension_are_refused(series):
    flat = dd.from_pandas(pd.Series(X[0]), npartitions=2) if series else da.from_array(X[0])
    shape = r"\(nan,\)" if series else r"\(40,\)"
    message = f"has shape {shape}, but samples x features are expected; reshape it to two dimensions"
    with pytest.raises(StreamError, match=message):
        MaxNormDecomposition(D).fit(flat)


def test_a_collection_without_samples_is_refused():
    with pytest.raises(StreamError, match="no samples"):
        MaxNormDecomposition().fit(lazy()[:0])


def test_an_unknown_number_of_columns_is_refused():
    columns = lazy()[:, lazy()[0] > 0.0]
    with pytest.raises(StreamError, match=r"its number of columns is unknown; call .* compute_chunk_sizes"):
        MaxNormDecomposition().fit(columns)


def test_wrong_parameters_are_refused_before_blocks_are_computed():
    with pytest.raises(ValueError, match="batch_size"):
        MaxNormDecomposition(batch_size=0).fit(lazy())


def with_invalid_block(kind, at=17):
    """Return blocks of which one, number ``at``, cannot be used."""

    def invalidate(block, block_id=None):
        if block_id[0] != at:
            return block
        if kind == "width":
            return block[:, 1:]
        if kind == "text":
            return np.char.add(block.astype(str), " mm")
        if kind == "flat":
            return block[0]
        return np.where(np.arange(P) == 4, np.inf, block)

    return lazy().map_blocks(invalidate, dtype=float, meta=np.empty((0, 0)))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("width", "has 39 features"),
        ("inf", "infinity, first in row 1700"),
        ("text", "must be numeric"),
        ("flat", r"has shape \(40,\), but samples x features are expected"),
    ],
)
def test_an_invalid_block_is_named_and_the_last_good_model_kept(kind, message):
    kept = []
    model = MaxNormDecomposition(D, random_state=0)
    with pytest.raises(BlockError, match=rf"block 17 \(rows 1700 to 1799\): .*{message}"):
        model.fit(with_invalid_block(kind), callback=lambda result: kept.append(model.components_.copy()))
    np.testing.assert_array_equal(model.components_, kept[-1])
    assert 1000 <= model.n_samples_seen_ < 1800
    assert model.transform(X).shape == (N, D)
    with pytest.raises(BlockError, match="block 17"):
        model.transform(with_invalid_block(kind)).compute()
    first = MaxNormDecomposition(D)
    with pytest.raises(BlockError, match="block 0"):
        first.fit(with_invalid_block(kind, at=0))
    assert not hasattr(first, "n_features_in_")


def test_a_block_that_cannot_be_read_is_named_with_the_reason():
    def fail(block, block_id=None):
        if block_id[0] == 9:
            raise OSError("no such disk")
        return block

    with pytest.raises(BlockError, match=r"block \d.*no such disk"):
        MaxNormDecomposition(D).fit(lazy().map_blocks(fail, dtype=float, meta=np.empty((0, 0))))


def test_a_fit_continues_from_a_checkpoint(tmp_path):
    path = tmp_path / "model.maxnorm"

    model = MaxNormDecomposition(D, random_state=0)

    def keep(result):
        model.save(path)
        if model.n_samples_seen_ >= 1000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.fit(lazy(), callback=keep)
    model = maxnorm.load(path)
    whole = MaxNormDecomposition(D, random_state=0).fit(lazy())
    assert_same_model(model.partial_fit(lazy()[model.n_samples_seen_ :]).flush(), whole)


def test_the_basis_does_not_count_as_a_large_graph():
    """Dask warns of graphs beyond some size, and every round has to send the basis."""
    limits = []

    def record_limit(block: Stream, big):
        limits.append(
            dask.utils.parse_bytes(dask.config.get("distributed.admin.large-graph-warning-threshold"))
        )

    Blocks.of(lazy()).apply(record_limit, 0, np.zeros(10**6))
    assert limits[0] > 8e6 + 1e7


def test_a_function_receives_a_block_as_a_stream_of_its_rows():
    def describe(block: Stream, factor):
        (rows,) = list(block)
        return factor * len(rows), block.first, block.title

    assert Blocks.of(lazy()).apply(describe, 3, 2) == (2 * ROWS, 300, "block 3 (rows 300 to 399)")


# -- clusters ---------------------------------------------------------------------------------------

# The tests of one group run in one process, if pytest-xdist groups them, and share its cluster.
on_cluster = pytest.mark.xdist_group("cluster")


@contextmanager
def time_limit():
    """Raise TimeoutError after some minutes, so that a cluster that hangs fails its test."""

    def stop(*_):
        raise TimeoutError("the cluster hangs")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(HANG_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def cluster():
    """Two workers in processes that can be killed, with little memory.

    Workers are forked from a process that has imported the libraries, which is faster than importing them
    again whenever a worker is replaced.
    """
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        get_mp_context().set_forkserver_preload(["distributed", "dask.array", "maxnorm.estimators"])
        with (
            time_limit(),
            LocalCluster(
                n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", memory_limit="600MB"
            ) as cluster,
        ):
            signal.alarm(0)
            yield cluster


@pytest.fixture
def client(cluster):
    with time_limit(), Client(cluster) as client, dask.config.set(scheduler="distributed"):
        client.wait_for_workers(2)
        yield client


@pytest.fixture(scope="module")
def reference():
    """The models of the same blocks without a cluster."""
    with dask.config.set(scheduler="synchronous"):
        return {kind: kind(D, random_state=0).fit(lazy()) for kind in (MaxNormDecomposition, OnlineRobustPCA)}


def fit_decomposition(blocks, callback=None):
    return MaxNormDecomposition(D, random_state=0).fit(blocks, callback=callback)


def failing_once(folder, kills=(), exhausts=()):
    """Return blocks, some of which kill their worker or exhaust its memory when they are first read."""

    def is_first_time(name):
        try:
            (Path(folder) / name).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def read(block, block_id=None):
        i = int(block_id[0])
        if i in kills and is_first_time(f"kill {i}"):
            os.kill(os.getpid(), signal.SIGKILL)
        if i in exhausts and is_first_time(f"exhaust {i}"):
            arrays = [np.ones(2**24) for _ in range(8)]  # a gigabyte; the nanny kills the worker meanwhile
            time.sleep(60)
            del arrays
        return block

    return lazy().map_blocks(read, dtype=float, meta=np.empty((0, 0)))


def n_failures(folder):
    return len(list(folder.iterdir()))


@on_cluster
def test_workers_that_die_do_not_change_the_model(client, reference, tmp_path):
    """Block 2 is learnt from by itself; block 16 is part of a round."""
    before = set(client.scheduler_info()["workers"])
    model = fit_decomposition(failing_once(tmp_path, kills=(2, 16)))
    assert_same_model(model, reference[MaxNormDecomposition])
    assert n_failures(tmp_path) == 2
    client.wait_for_workers(2)  # dead workers are replaced
    assert before - set(client.scheduler_info()["workers"])


@on_cluster
def test_a_worker_that_runs_out_of_memory_does_not_change_the_model(client, reference, tmp_path):
    model = fit_decomposition(failing_once(tmp_path, exhausts=(12,)))
    assert_same_model(model, reference[MaxNormDecomposition])
    assert n_failures(tmp_path) == 1


@on_cluster
def test_a_worker_that_joins_during_a_fit_does_not_change_the_model(client, cluster, reference):
    def add_worker(result):
        if result.n_samples == 600:
            cluster.scale(3)
            client.wait_for_workers(3)

    assert_same_model(fit_decomposition(lazy(), add_worker), reference[MaxNormDecomposition])
    assert len(client.scheduler_info()["workers"]) == 3


@on_cluster
def test_a_round_is_computed_again_if_dask_gives_up(client, cluster, reference, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster.scheduler, "allowed_failures", 0)
    model = fit_decomposition(failing_once(tmp_path, kills=(12,)))
    assert_same_model(model, reference[MaxNormDecomposition])
    assert n_failures(tmp_path) == 1
    monkeypatch.setattr(blocks_module, "RETRIES", RetryRule(attempts=1))
    with pytest.raises(BlockError, match=r"block \d+.* or one of the next \d+ blocks: cannot be computed"):
        fit_decomposition(failing_once(tmp_path, kills=(13,)))


@on_cluster
def test_an_invalid_block_on_a_cluster_is_named_and_the_model_can_be_applied(client):
    model = MaxNormDecomposition(D, random_state=0)
    with pytest.raises(BlockError, match="block 17"):
        model.fit(with_invalid_block("inf"))
    assert model.transform(lazy()).compute().shape == (N, D)


@contextmanager
def thread_cluster(n_workers):
    """A cluster of threads of this process, which starts fast."""
    with (
        time_limit(),
        LocalCluster(
            n_workers=n_workers, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0"
        ) as cluster,
        Client(cluster),
        dask.config.set(scheduler="distributed"),
    ):
        yield


@pytest.mark.parametrize("n_workers", [1, 8])
def test_the_model_does_not_depend_on_the_number_of_workers(n_workers, reference):
    with thread_cluster(n_workers):
        for kind, expected in reference.items():
            assert_same_model(kind(D, random_state=0).fit(lazy()), expected)


def test_workers_without_this_version_of_the_library_are_named(monkeypatch):
    model = MaxNormDecomposition(D, random_state=0).fit(X)
    with thread_cluster(1):
        for expression, installed in (
            ("'0.0.1'", r"maxnorm 0\.0\.1"),
            ("__import__('no_such_library')", "no maxnorm"),
        ):
            monkeypatch.setattr(blocks_module, "VERSION_EXPRESSION", expression)
            for method in (model.fit, model.transform, model.decompose, model.score_samples):
                with pytest.raises(RuntimeError, match=f"has {installed}; install maxnorm .* on all workers"):
                    method(lazy())


@contextmanager
def foreign_worker(folder, source):
    """A cluster and a function that starts its only worker, which imports ``source`` as maxnorm."""
    (folder / "maxnorm").mkdir()
    (folder / "maxnorm" / "__init__.py").write_text(source)
    with (
        time_limit(),
        LocalCluster(
            n_workers=0, protocol="tcp://", host="127.0.0.1", dashboard_address="127.0.0.1:0"
        ) as cluster,
        Client(cluster) as client,
        dask.config.set(scheduler="distributed"),
        ExitStack() as stack,
    ):

        def join():
            arguments = ("--no-nanny", "--no-dashboard", "--nthreads", "1", "--host", "127.0.0.1")
            worker = subprocess.Popen(
                [sys.executable, "-m", "dask", "worker", cluster.scheduler_address, *arguments],
                env={**os.environ, "PYTHONPATH": str(folder)},
                stderr=subprocess.DEVNULL,
            )
            stack.callback(worker.wait)
            stack.callback(worker.kill)
            client.wait_for_workers(1)

        yield join


@pytest.mark.parametrize(
    ("source", "installed"),
    [
        ("__version__ = '0.0.1'", r"maxnorm 0\.0\.1"),
        ("raise ModuleNotFoundError(\"No module named 'maxnorm'\")", "no maxnorm"),
    ],
)
def test_a_worker_that_joins_with_another_version_refuses_lazy_results(source, installed, tmp_path):
    """The results are made before the worker joins, so that only the worker can compare the versions."""
    model = MaxNormDecomposition(D, random_state=0).fit(X)
    frames = dd.from_pandas(pd.DataFrame(X), npartitions=4)
    with foreign_worker(tmp_path, source) as join:
        results = (model.transform(lazy()), model.score_samples(lazy()), model.decompose(frames).noise)
        join()
        for result in results:
            message = f"worker tcp://.* has {installed}; install maxnorm {maxnorm.__version__} on all workers"
            with pytest.raises(RuntimeError, match=message):
                result.compute()


def test_a_worker_that_joins_a_fit_with_another_version_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(
        blocks_module, "VERSION_EXPRESSION", repr(maxnorm.__version__)
    )  # as if checked before
    with foreign_worker(tmp_path, "__version__ = '0.0.1'") as join:
        join()
        with pytest.raises(
            BlockError, match=r"block 0.* has maxnorm 0\.0\.1; install maxnorm .* on all workers"
        ):
            fit_decomposition(lazy())


def test_a_module_that_a_worker_lacks_is_named(tmp_path, monkeypatch):
    """For instance that of a noise model, which the client imports from a folder that workers do not have."""
    code = "from maxnorm.core.noise import L1\nclass Mine(L1):\n    pass\n"
    (tmp_path / "noise_of_the_user.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    payload = pickle.dumps(Sealed(importlib.import_module("noise_of_the_user").Mine(1.0)))
    monkeypatch.setitem(sys.modules, "noise_of_the_user", None)  # it can no longer be imported
    with pytest.raises(RuntimeError, match=r"noise_of_the_user.*; install it on all workers"):
        open_once(pickle.loads(payload))


def test_sealed_values_survive_pickling_and_are_opened_once():
    value = {
        "dense": np.arange(6.0).reshape(2, 3),
        "fortran": np.asfortranarray(np.eye(3)),
        "empty": np.empty((0, 4)),
    }
    assert open_once(Sealed(value)) is value
    again = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(Sealed(value)))))
    for name, array in open_once(again).items():
        np.testing.assert_array_equal(array, value[name], strict=True)
    assert open_once(again) is open_once(again)


def test_lazy_results_can_be_pickled():
    model = MaxNormDecomposition(D, random_state=0).fit(X)
    result = pickle.loads(pickle.dumps(model.transform(lazy())))
    np.testing.assert_allclose(result.compute(), model.transform(X), atol=1e-12)


def test_a_change_of_the_stream_is_noticed_on_a_cluster():
    rng = np.random.default_rng(0)
    bases = [np.linalg.qr(rng.standard_normal((40, 3)))[0] for _ in range(2)]
    parts = [
        rng.standard_normal((4000, 3)) @ basis.T + 0.05 * rng.standard_normal((4000, 40)) for basis in bases
    ]
    blocks = da.from_array(np.vstack(parts), chunks=(500, -1))
    model = MaxNormDecomposition(3, random_state=0).partial_fit(blocks)
    assert any(change.kind == "new" and abs(change.sample - 4000) <= 2000 for change in model.changes_)
    assert expressed_variance(bases[1], model.components_.T) > 0.99
    assert model.n_samples_seen_ == 8000
