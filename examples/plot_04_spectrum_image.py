"""
A spectrum image in HyperSpy
============================

A microscope has measured a spectrum in each pixel, and cosmic rays have left spikes in some of them. Which
components does the sample have, and what do its maps look like without the spikes?
"""

# %%
# The signal
# ----------
# Three phases with a spectrum of their own cover an image of 32 x 32 pixels; counts have Poisson noise.
# Spikes of 200 to 2000 counts hit 1 % of the entries. We know the mean counts, with which the results are
# compared.

import warnings

import matplotlib.pyplot as plt
import numpy as np

from maxnorm import MaxNormDecomposition, plot

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # importing HyperSpy warns of its own dependencies
    import hyperspy.api as hs

hs.set_log_level("ERROR")
rng = np.random.default_rng(0)
energy = np.linspace(0.0, 10.0, 120)
lines = [[(1.0, 40), (6.4, 60)], [(1.7, 80), (3.0, 20)], [(4.5, 50), (8.0, 30)]]
phases = np.array(
    [sum(height * np.exp(-0.5 * ((energy - e) / 0.15) ** 2) for e, height in peaks) for peaks in lines]
)
phases += 15.0 * np.exp(-energy / 4.0)

y, x = np.mgrid[:32, :32] / 31.0
disc = 1.0 / (1.0 + np.exp(40.0 * (np.hypot(x - 0.35, y - 0.4) - 0.22)))
layer = (1.0 - disc) / (1.0 + np.exp(-30.0 * (y + 0.3 * x - 0.9)))
amounts = np.dstack([1.0 - disc - layer, disc, layer])
mean_counts = amounts @ phases
counts = rng.poisson(mean_counts).astype(float)
spikes = rng.random(counts.shape) < 0.01
counts[spikes] += rng.uniform(200.0, 2000.0, spikes.sum())
signal = hs.signals.Signal1D(counts)

# %%
# Decompose it
# ------------
# ``decomposition`` of HyperSpy takes an estimator. Pass ``center=False``: HyperSpy cannot rebuild a signal
# whose estimator has a mean. The rank is found by the model.

model = MaxNormDecomposition(center=False, random_state=0)
signal.decomposition(algorithm=model, normalize_poissonian_noise=True, print_info=False)
rank = signal.learning_results.output_dimension = model.n_components_
robust = signal.get_decomposition_model().data
print(f"rank found: {rank}")

# %%
# Each component is a spectrum, and has a map that shows how much of it is in each pixel. One display draws
# lines or, with the shape of the image, images.

# sphinx_gallery_thumbnail_number = 3
found = signal.learning_results
spectra = plot.ComponentsDisplay(found.factors[:, :rank].T).plot()
maps = plot.ComponentsDisplay(found.loadings[:, :rank].T, feature_shape=signal.data.shape[:2]).plot()
plt.show()

# %%
# HyperSpy's own decomposition is a singular value decomposition. We tell it the rank.

usual = hs.signals.Signal1D(counts)
usual.decomposition(normalize_poissonian_noise=True, output_dimension=3, print_info=False)
svd = usual.get_decomposition_model().data


def relative_error(image):
    """Return the error of an image in units of the norm of the mean counts."""
    return np.linalg.norm(image - mean_counts) / np.linalg.norm(mean_counts)


for name, image in (("measured", counts), ("SVD of rank 3", svd), ("MaxNormDecomposition", robust)):
    print(f"{name}: relative error {relative_error(image):.3f}")

# %%
# Maps and spectra
# ----------------
# The maps show the counts of the line at 1.7, which only the disc has. The spectrum is that of one pixel.

channel = int(np.argmin(np.abs(energy - 1.7)))
fig, axes = plt.subplots(1, 4, figsize=(11, 3.1), layout="constrained")
images = {"truth": mean_counts, "measured": counts, "SVD": svd, "robust": robust}
for axis, (title, image) in zip(axes, images.items(), strict=True):
    drawn = axis.imshow(image[..., channel], vmin=0.0, vmax=mean_counts[..., channel].max(), cmap="magma")
    axis.set(title=title, xticks=[], yticks=[])
fig.colorbar(drawn, ax=axes, label="counts at 1.7", shrink=0.85)
plt.show()

# %%
row, column = np.argwhere(spikes[..., :].sum(axis=2) >= 3)[0]
fig, axis = plt.subplots(figsize=(9, 3.6), layout="constrained")
axis.plot(energy, counts[row, column], color="0.75", label="measured")
axis.plot(energy, svd[row, column], color="tab:orange", linewidth=1, label="SVD")
axis.plot(energy, robust[row, column], color="tab:blue", label="robust")
axis.plot(energy, mean_counts[row, column], "k--", linewidth=1, label="truth")
axis.set(
    xlabel="energy",
    ylabel="counts",
    ylim=(-20, 160),
    title=f"Pixel ({row}, {column}); its spikes are cut off",
)
axis.legend(frameon=False, ncols=4)
plt.show()

# %%
# With your own scan, ``hs.load`` replaces the generated signal. Scans that are larger than memory are read
# with ``lazy=True`` and decomposed chunk by chunk in the same way.
