"""
A noise model of one's own
==========================

You know more about the errors in your data than the library does: cosmic rays, for example, only add to a
spectrum. Does it help to tell the model so?
"""

# %%
# Spectra with spikes and dips
# ----------------------------
# Four lines of emission in changing strength make up 600 spectra. Cosmic rays add spikes to 4 % of the
# entries. A tenth of the spectra have an absorption line at channel 60: a dip that is *real*, and of
# interest.

from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np

from maxnorm import MaxNormDecomposition

rng = np.random.default_rng(0)
channel = np.arange(100)
lines = np.exp(-0.5 * ((channel - np.array([[15], [38], [62], [85]])) / np.array([[4], [9], [14], [5]])) ** 2)
strength = rng.gamma(4.0, 0.5, (600, 4))
dip = np.zeros((600, 100))
dip[rng.random(600) < 0.1] = -0.9 * np.exp(-0.5 * ((channel - 60) / 1.5) ** 2)
spikes = np.where(rng.random((600, 100)) < 0.04, rng.uniform(1.0, 6.0, (600, 100)), 0.0)
wanted = strength @ lines + dip
spectra = wanted + rng.normal(0.0, 0.05, wanted.shape) + spikes
print(f"{np.mean(spikes > 0):.1%} of the entries have spikes, {np.sum(dip.any(axis=1))} spectra have a dip")

# %%
# Two methods make a noise model
# ------------------------------
# With a residual ``V``, the model asks for the errors ``E`` that minimise ``|V - E|^2 / 2 + cost(E)``. Here
# the cost is proportional to an error that is positive, and infinite if it is negative. ``prox`` returns
# the minimiser, and ``value`` the cost of each row.


@dataclass(frozen=True)
class PositiveSpikes:
    """Errors that only increase a value, at a cost of lambda2 per unit."""

    lambda2: float

    def prox(self, V):
        return np.maximum(V - self.lambda2, 0.0)

    def value(self, E):
        return self.lambda2 * E.sum(axis=1)


# %%
# An object with these methods is passed as ``noise=``. The weight is in units of the features' scales;
# errors much smaller than it count as ordinary noise.

models = {
    'noise="capped", the default': MaxNormDecomposition(n_components=4, random_state=0),
    'noise="l1"': MaxNormDecomposition(n_components=4, noise="l1", random_state=0),
    "PositiveSpikes": MaxNormDecomposition(n_components=4, noise=PositiveSpikes(0.1), random_state=0),
}
dips = dip < -0.4
noise = {}
for name, model in models.items():
    noise[name] = model.fit(spectra).decompose(spectra).noise
    cleaned = spectra - noise[name]
    print(
        f"{name}: {np.mean(noise[name][spikes > 0] > 0.5):.1%} of the spikes and"
        f" {np.mean(noise[name][dips] < -0.2):.1%} of the dips taken away;"
        f" error of the cleaned spectra {np.sqrt(np.mean((cleaned - wanted) ** 2)):.3f},"
        f" of the dips {np.sqrt(np.mean((cleaned - wanted)[dips] ** 2)):.3f}"
    )

# %%
# The model that knows the sign of the spikes takes no dip away. This has a price: its cost shrinks every
# error by ``lambda2`` and does not reject it altogether, so that a part of each spike remains, and the
# cleaned spectra as a whole have a larger error than with the default. Write a noise model of your own if
# the sign matters to you; otherwise keep the default.

row = int(np.flatnonzero(dip.any(axis=1))[0])
fig, axes = plt.subplots(3, 1, figsize=(9, 6.5), sharex=True, sharey=True, layout="constrained")
for axis, (name, errors) in zip(axes, noise.items(), strict=True):
    axis.plot(channel, spectra[row], color="0.75", label="measured")
    axis.plot(channel, wanted[row], "k--", linewidth=1, label="truth, with its dip at 60")
    axis.plot(channel, (spectra - errors)[row], color="tab:blue", label="cleaned")
    axis.set(title=name, ylabel="intensity")
axes[0].legend(frameon=False, ncols=3, fontsize=9)
axes[-1].set_xlabel("channel")
plt.show()
