"""
Choosing the rank
=================

You have measured mixtures and want to know how many substances are in them. How many components should the
model have, and how do a few spikes of the detector change the answer?
"""

# %%
# Spectra of mixtures
# -------------------
# Six substances with four bands each are mixed in 200 samples, with noise of 0.01. We know the right
# answer, six, so that we can judge the methods. A second copy of the spectra has spikes in 1 % of the
# entries.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV

from maxnorm import MaxNormDecomposition, plot

rng = np.random.default_rng(0)
channels = np.linspace(0.0, 1.0, 100)
centres, widths = rng.uniform(0.05, 0.95, (6, 4, 1)), rng.uniform(0.01, 0.05, (6, 4, 1))
heights = rng.uniform(0.3, 1.0, (6, 4, 1))
substances = (heights * np.exp(-0.5 * ((channels - centres) / widths) ** 2)).sum(axis=1)
amounts = rng.dirichlet(np.ones(6), 200) * rng.uniform(0.5, 1.5, (200, 1))
spectra = amounts @ substances + rng.normal(0.0, 0.01, (200, 100))

spikes = rng.random(spectra.shape) < 0.01
spiky = spectra + np.where(spikes, rng.uniform(0.5, 3.0, spectra.shape), 0.0)

# %%
# Leave it to the model
# ---------------------
# By default the model keeps the components that the data support. Their shares of the variance tell the
# large from the negligible.

for name, data in (("clean", spectra), ("with spikes", spiky)):
    model = MaxNormDecomposition(random_state=0).fit(data)
    shares = ", ".join(f"{share:.0e}" for share in model.explained_variance_ratio_)
    print(f"{name}: rank {model.n_components_}, shares of variance {shares}")
    print(f"  PCA(n_components='mle') keeps {PCA('mle').fit(data).n_components_}")

# %%
# Look at the scree plot
# ----------------------
# The variances of the components in decreasing order fall steeply after the last one that matters. With
# spikes PCA has no such step: its components describe spikes, one after the other.
# The robust model may have twelve components as well, and uses six. :func:`maxnorm.plot.scree` draws the
# models of scikit-learn, too.

robust = MaxNormDecomposition(n_components=12, random_state=0).fit(spiky)
fig, axes = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
for axis, model in zip(axes, (PCA(12).fit(spiky), robust), strict=True):
    plot.scree(model, ax=axis)
    axis.set(title=f"{type(model).__name__}, spectra with spikes", yscale="log", ylim=(1e-5, 2.0))
plt.show()

# %%
# Search with held-out data
# -------------------------
# ``score`` is a log-likelihood, as for scikit-learn's ``PCA``, so that ``GridSearchCV`` can choose the
# rank. With clean data both find six.

grid = {"n_components": [2, 4, 5, 6, 7, 9]}
for estimator in (PCA(), MaxNormDecomposition(random_state=0)):
    search = GridSearchCV(estimator, grid, cv=3).fit(spectra)
    print(f"{type(estimator).__name__}: {search.best_params_['n_components']} components")

# %%
# With spikes this search fails for *both*, because spikes in the held-out samples decide the likelihood.
# The remedy is a score that spikes cannot decide: hide a tenth of the held-out entries, predict them from
# the others, and take the median of the errors. Spare components do no harm, so that the error is flat
# above the right rank: take the smallest rank that is nearly the best.


def hidden_entries(model, X, y=None):
    """Return minus the median error of entries that are hidden from the model."""
    hidden = np.random.default_rng(0).random(X.shape) < 0.1
    predicted = model.decompose(np.where(hidden, np.nan, X)).low_rank
    return -np.median(np.abs(predicted - X)[hidden])


def likelihood(model, X, y=None):
    """Return the mean log-likelihood, which is also the default of GridSearchCV."""
    return model.score(X)


ranks = grid["n_components"]
search = GridSearchCV(PCA(), grid, cv=3).fit(spiky)
print(f"PCA by likelihood: {search.best_params_['n_components']} components")
scorers = {"likelihood": likelihood, "hidden": hidden_entries}
search = GridSearchCV(MaxNormDecomposition(random_state=0), grid, cv=3, scoring=scorers, refit=False).fit(
    spiky
)
likeliest = ranks[np.argmax(search.cv_results_["mean_test_likelihood"])]
print(f"MaxNormDecomposition by likelihood: {likeliest} components")
errors = -search.cv_results_["mean_test_hidden"]
for rank, error in zip(ranks, errors, strict=True):
    print(f"  rank {rank}: median error of hidden entries {error:.4f}")
good = min(rank for rank, error in zip(ranks, errors, strict=True) if error < 1.02 * errors.min())
print(f"the smallest rank within 2 % of the best: {good}")

fig, axis = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
axis.axvline(6, color="0.8", linewidth=8, zorder=0)
axis.plot(ranks, errors, "o-")
axis.axhline(0.6745 * 0.01, color="0.4", linestyle="--", label="median size of the noise")
axis.set(xlabel="n_components", ylabel="median error of hidden entries", title="Spectra with spikes", ylim=0)
axis.legend(frameon=False)
plt.show()

# %%
# With your own data, start with the default rank and look at ``explained_variance_ratio_``. Search only if
# a number of components must be defended.
