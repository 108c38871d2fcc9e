"""Models survive: files are whole or refused, and what is loaded goes on as if nothing had happened."""

import io
import json
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import maxnorm
from maxnorm import MaxNormCompletion, MaxNormDecomposition, OnlineRobustPCA, PrincipalComponentPursuit
from maxnorm.core.batch import Batch
from maxnorm.core.noise import L1, CappedL1
from maxnorm.core.norms import NuclearNorm
from maxnorm.datasets import make_corrupted_low_rank
from maxnorm.persistence import FORMAT, HEADER, ModelFileError, read, save

X = make_corrupted_low_rank(600, 20, 3, corruption=0.1, missing=0.1, random_state=0).X
MODELS = [
    MaxNormDecomposition(3, random_state=0),
    MaxNormDecomposition(3, noise=L1(0.3), half_life=100.0, random_state=0),
    MaxNormDecomposition(3, norm=NuclearNorm(0.2), random_state=0),
    MaxNormDecomposition(3, noise=CappedL1(0.3, 0.6), init=np.eye(3, 20)),
    OnlineRobustPCA(np.int64(3), noise="l21", random_state=np.random.RandomState(0)),
    MaxNormCompletion(3, lambda1=np.float64(0.1), random_state=0),
]


def state(model):
    progress = model._progress
    return [
        progress.state.L,
        *vars(progress.state.statistics).values(),
        *vars(progress.state.scales).values(),
        progress.state.n_samples,
        progress.state.n_steps,
        progress.state.time,
        *(Batch.join(progress.waiting).values if progress.waiting else []),
    ]


def assert_same(a, b):
    for x, y in zip(state(a), state(b), strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: f"{type(model).__name__}-{model.noise}")
def test_going_on_after_loading_changes_nothing(model, dtype, tmp_path):
    from sklearn.base import clone

    model = clone(model).partial_fit(X[:333].astype(dtype))
    model.save(tmp_path / "m.maxnorm")
    again = maxnorm.load(tmp_path / "m.maxnorm")
    assert type(again) is type(model)
    assert (again.n_components, again.lambda1) == (model.n_components, model.lambda1)
    assert (str(again.noise), again.half_life) == (str(model.noise), model.half_life)
    assert_same(again, model)
    model.partial_fit(X[333:].astype(dtype))
    again.partial_fit(X[333:].astype(dtype))
    assert_same(again, model)
    np.testing.assert_array_equal(again.components_, model.components_)
    assert again.components_.dtype == dtype
    assert_same(pickle.loads(pickle.dumps(model)), model)


def test_another_process_goes_on_bit_for_bit(tmp_path):
    np.save(tmp_path / "x.npy", X)
    whole = MaxNormDecomposition(3, random_state=0).partial_fit(X)
    MaxNormDecomposition(3, random_state=0).partial_fit(X[:217]).save(tmp_path / "m.maxnorm")
    code = (
        "import maxnorm, numpy as np\n"
        "model = maxnorm.load('m.maxnorm').partial_fit(np.load('x.npy')[217:])\n"
        "model.save('n.maxnorm')"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)
    assert_same(maxnorm.load(tmp_path / "n.maxnorm"), whole)


def test_names_settings_and_the_batch_method(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=[f"s{i}" for i in range(20)])
    model = OnlineRobustPCA(3, random_state=0).set_output(transform="pandas").fit(frame)
    model.save(tmp_path / "m.maxnorm")
    again = maxnorm.load(tmp_path / "m.maxnorm")
    pandas.testing.assert_frame_equal(again.transform(frame), model.transform(frame))
    batch = PrincipalComponentPursuit().fit(X[:100])
    batch.save(tmp_path / "b.maxnorm")
    np.testing.assert_array_equal(maxnorm.load(tmp_path / "b.maxnorm").low_rank_, batch.low_rank_)
    OnlineRobustPCA(3).save(tmp_path / "u.maxnorm")
    assert not maxnorm.load(tmp_path / "u.maxnorm").__sklearn_is_fitted__()


def test_the_header_is_readable(tmp_path):
    model = MaxNormDecomposition(3, random_state=0).fit(X)
    save(model, tmp_path / "m.maxnorm", about={"data": "x.csv"})
    with zipfile.ZipFile(tmp_path / "m.maxnorm") as archive:
        header = json.loads(archive.read(HEADER))
    assert header["format"] == FORMAT
    assert header["estimator"] == "MaxNormDecomposition"
    assert header["parameters"]["n_components"] == 3
    assert header["versions"]["maxnorm"] == maxnorm.__version__
    assert header["about"] == {"data": "x.csv"}


@pytest.fixture
def saved(tmp_path):
    model = OnlineRobustPCA(2, random_state=0).partial_fit(X[:50])
    model.save(tmp_path / "m.maxnorm")
    return model, tmp_path / "m.maxnorm"


def test_a_flipped_bit_is_noticed_or_harmless(saved):
    model, path = saved
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    noticed = 0
    for position in rng.integers(len(content), size=400):
        damaged = bytearray(content)
        damaged[position] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        try:
            again = maxnorm.load(path)
        except ModelFileError:
            noticed += 1
        else:  # a date, for example
            assert_same(again, model)
            assert repr(again) == repr(model)
    assert noticed > 250


def test_a_cut_file_is_noticed(saved):
    _, path = saved
    content = path.read_bytes()
    for length in range(0, len(content), 97):
        path.write_bytes(content[:length])
        with pytest.raises(ModelFileError, match=r"m\.maxnorm: not a model file, or damaged"):
            maxnorm.load(path)


def rewritten(path, change):
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(contents[HEADER])
    change(header, contents)
    contents[HEADER] = json.dumps(header).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)


def test_a_future_format(saved):
    _, path = saved
    rewritten(path, lambda header, _: header.update(format=FORMAT + 1, versions={"maxnorm": "9.0"}))
    with pytest.raises(ModelFileError, match=r"format 3, written by maxnorm 9\.0.*upgrade maxnorm"):
        maxnorm.load(path)


def test_another_array_under_the_same_name(saved):
    _, path = saved

    def swap(header, contents):
        buffer = io.BytesIO()
        np.save(buffer, np.zeros((20, 2)))
        contents["_progress.state.L.npy"] = buffer.getvalue()

    rewritten(path, swap)
    with pytest.raises(ModelFileError, match=r"the checksum of .* is wrong"):
        maxnorm.load(path)


class Trap:
    def __reduce__(self):
        return (sys.exit, ("executed",))


def test_nothing_is_executed(saved, tmp_path):
    _, path = saved
    trap = np.array([Trap()], dtype=object)

    def plant(header, contents):
        import hashlib

        buffer = io.BytesIO()
        np.save(buffer, trap, allow_pickle=True)
        contents["_progress.state.L.npy"] = buffer.getvalue()
        header["sha256"]["_progress.state.L.npy"] = hashlib.sha256(buffer.getvalue()).hexdigest()

    rewritten(path, plant)
    with pytest.raises(ModelFileError, match="allow_pickle=False"):
        maxnorm.load(path)
    (tmp_path / "p.maxnorm").write_bytes(pickle.dumps(Trap()))
    with pytest.raises(ModelFileError, match="not a model file"):
        maxnorm.load(tmp_path / "p.maxnorm")
    for name in ("os.system", "open_stream"):
        rewritten_name = tmp_path / "n.maxnorm"
        OnlineRobustPCA(2).save(rewritten_name)
        rewritten(rewritten_name, lambda header, _, name=name: header.update(estimator=name))
        with pytest.raises(ModelFileError, match="unknown estimator"):
            maxnorm.load(rewritten_name)


def test_foreign_files_and_places(tmp_path):
    (tmp_path / "x.maxnorm").write_text("hello")
    with pytest.raises(ModelFileError, match="not a model file"):
        maxnorm.load(tmp_path / "x.maxnorm")
    np.savez(tmp_path / "x.npz", X)
    with pytest.raises(ModelFileError, match="not a model file"):
        maxnorm.load(tmp_path / "x.npz")
    with pytest.raises(FileNotFoundError):
        maxnorm.load(tmp_path / "none.maxnorm")
    with pytest.raises(ModelFileError, match="is a folder"):
        maxnorm.load(tmp_path)
    with pytest.raises(FileNotFoundError):
        OnlineRobustPCA(2).save(tmp_path / "nowhere" / "m.maxnorm")


class OwnNoise:
    def prox(self, V):
        return 0.0 * V

    def value(self, E):
        return E.sum(axis=1)


def test_what_a_file_cannot_hold(tmp_path):
    with pytest.raises(TypeError, match="noise is a OwnNoise, which cannot be saved in a model file; pickle"):
        OnlineRobustPCA(2, noise=OwnNoise()).save(tmp_path / "m.maxnorm")

    class Mine(OnlineRobustPCA):
        pass

    with pytest.raises(TypeError, match="Mine is not an estimator of maxnorm"):
        Mine(2).save(tmp_path / "m.maxnorm")
    assert not list(tmp_path.iterdir())


def test_a_full_disk_leaves_the_model_of_before(saved):
    model, path = saved
    code = (
        "import resource, maxnorm\n"
        "model = maxnorm.load('m.maxnorm')\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try: model.save('m.maxnorm')\n"
        "except OSError as error: print('refused')\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=path.parent)
    assert result.stdout.strip() == "refused", result.stderr
    assert_same(maxnorm.load(path), model)
    assert [file.name for file in path.parent.iterdir()] == ["m.maxnorm"]


def test_the_same_model_gives_the_same_bytes(saved):
    model, path = saved
    before = path.read_bytes()
    model.save(path)
    assert path.read_bytes() == before
    assert read(path)[1]["about"] == {}


# -- files of earlier versions ----------------------------------------------------------------------


def test_models_saved_by_version_0_1_are_loaded_and_continue():
    """The files hold models with waiting rows; the expected values are those of version 0.1."""
    data = Path(__file__).parent / "data"
    samples = make_corrupted_low_rank(60, 8, 2, corruption=0.1, random_state=0).X
    model = maxnorm.load(data / "v01-decomposition.maxnorm")
    assert (model.basis_update, model.n_samples_seen_) == ("exact", 45)
    model.partial_fit(samples[45:]).flush()
    np.testing.assert_allclose(model.components_[0, :3], [-0.545524761, -1.671349634, 0.829221526])
    ratings = sp.random_array((120, 12), density=0.4, rng=0, format="csr")
    model = maxnorm.load(data / "v01-completion.maxnorm")
    assert (model.gram, model.biases, model.n_samples_seen_) == ("per-feature", True, 123)
    model.partial_fit(ratings[3:20]).flush()
    np.testing.assert_allclose(model.components_[0, :3], [0.209834499, 0.575028644, -0.421381070])
