"""HyperSpy decomposes signals with the estimators, as docs/hyperspy.md says."""

import hyperspy.api as hs
import numpy as np
import pytest

from maxnorm import MaxNormDecomposition, OnlineRobustPCA

# HyperSpy 2.5 adds the attribute mean_ of an estimator to the data, so that there must be none.
SETTINGS = {"center": False, "random_state": 0}
CHANNELS = 40

pytestmark = pytest.mark.filterwarnings("ignore")  # of other libraries


def spectrum_image(*, lazy=False):
    """Return a signal with Poisson noise and spikes, its data, and the data without both."""
    rng = np.random.default_rng(0)
    x = np.linspace(0.0, 1.0, CHANNELS)
    peaks = [np.exp(-(((x - centre) / 0.05) ** 2)) for centre in (0.3, 0.7)]
    pure = np.array([40.0 * np.exp(-2.0 * x) + 5.0, 60.0 * peaks[0], 50.0 * peaks[1]])
    amounts = np.dstack([1.0 + 0.3 * rng.random((16, 16)), rng.random((16, 16)), rng.random((16, 16))])
    clean = amounts @ pure
    data = rng.poisson(clean).astype(float)
    spikes = rng.random(data.shape) < 0.01
    data[spikes] += rng.uniform(200, 2000, spikes.sum())
    signal = hs.signals.Signal1D(data.copy())
    if lazy:
        signal = signal.as_lazy()
        signal.data = signal.data.rechunk((8, 8, CHANNELS))
    return signal, data, clean


def error(model, clean):
    """Return the relative error of the model of a signal where it is defined."""
    found = np.asarray(model.data)
    seen = ~np.isnan(found)
    return np.linalg.norm((found - clean)[seen]) / np.linalg.norm(clean[seen])


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("kind", [MaxNormDecomposition, OnlineRobustPCA])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"normalize_poissonian_noise": True},
        {"output_dimension": 3},
        {"signal_mask": np.arange(CHANNELS) < 4},
    ],
    ids=["plain", "poissonian", "output_dimension", "signal_mask"],
)
def test_a_spectrum_image_is_decomposed_and_reconstructed(lazy, kind, options):
    signal, data, clean = spectrum_image(lazy=lazy)
    fitted = signal.decomposition(
        algorithm=kind(3, **SETTINGS), print_info=False, return_info=True, **options
    )
    assert type(fitted) is kind
    assert error(signal.get_decomposition_model(), clean) < (0.15 if lazy else 0.08)
    np.testing.assert_allclose(signal.data, data)
    assert (np.diff(signal.learning_results.explained_variance_ratio) <= 0.0).all()
    signal.plot_explained_variance_ratio()
    before = signal.learning_results.factors.copy()
    signal.reverse_decomposition_component(0)
    np.testing.assert_allclose(signal.learning_results.factors[:, 0], -before[:, 0])


def test_the_rank_is_found_in_a_masked_image():
    signal, data, clean = spectrum_image()
    mask = np.zeros((16, 16), dtype=bool)
    mask[:3, :7] = True
    signal.decomposition(algorithm=MaxNormDecomposition(**SETTINGS), print_info=False, navigation_mask=mask)
    assert signal.learning_results.factors.shape == (CHANNELS, 3)
    assert error(signal.get_decomposition_model(), clean) < 0.08
    np.testing.assert_allclose(signal.data, data)


def test_a_lazy_signal_continues_the_model_of_some_of_its_pixels():
    signal, data, clean = spectrum_image(lazy=True)
    pixels = np.random.default_rng(0).permutation(256)[:150]
    model = MaxNormDecomposition(**SETTINGS).fit(data.reshape(256, -1)[pixels])
    signal.decomposition(algorithm=model, print_info=False)
    assert model.n_samples_seen_ == 150 + 256
    assert error(signal.get_decomposition_model(), clean) < 0.08


def test_results_are_saved_and_loaded(tmp_path):
    signal, _, clean = spectrum_image()
    signal.decomposition(algorithm=MaxNormDecomposition(3, **SETTINGS), print_info=False)
    signal.learning_results.decomposition_algorithm = "maxnorm"  # HDF5 cannot hold an object
    signal.save(tmp_path / "a.hspy")
    assert error(hs.load(tmp_path / "a.hspy").get_decomposition_model(), clean) < 0.08
