"""
Robust PCA in three lines
=========================

You have a table in which some numbers were typed wrongly, and you want to see its structure. How far do a
few wrong entries mislead PCA, and does a robust decomposition find them?
"""

# %%
# The table
# ---------
# The wine data of scikit-learn have 178 wines and 13 measurements in different units. We spoil 1 % of the
# entries in a way that happens in real tables: the decimal point is lost, so that 2.5 becomes 250.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from maxnorm import MaxNormDecomposition, plot

wine = load_wine(as_frame=True)
clean = wine.data
rng = np.random.default_rng(0)
wrong = rng.random(clean.shape) < 0.01
table = clean.where(~wrong, 100.0 * clean)
print(f"{wrong.sum()} of {wrong.size} entries are wrong, in {wrong.any(axis=1).sum()} of {len(table)} wines")

# %%
# Three lines
# -----------
# The model learns means and units of the columns itself, so that no scaler is needed. ``decompose`` returns
# the clean part of each row, the gross errors (zero where there are none) and the coefficients.

model = MaxNormDecomposition(n_components=2, random_state=0).fit(table)
parts = model.decompose(table)
errors = np.asarray(parts.noise) != 0

# %%
# Which entries does it reject? :func:`maxnorm.plot.noise` draws them all.

# sphinx_gallery_thumbnail_number = 2
display = plot.noise(model, table)
plt.show()

# %%
# Ordinary entries that are rare for their wine are rejected as well, because nothing but their size tells a
# rare value from a wrong one. Look at the largest errors first.

found = errors & wrong
print(f"wrong entries found: {found.sum()} of {wrong.sum()}")
print(f"other entries rejected: {(errors & ~wrong).sum()} of {(~wrong).sum()}")
sizes = np.abs(np.asarray(parts.noise)) / clean.std().to_numpy()
for row, column in np.argwhere(sizes >= np.sort(sizes, axis=None)[-5])[:5]:
    print(
        f"  wine {row}, {table.columns[column]}: {table.iat[row, column]:g},"
        f" expected about {table.iat[row, column] - np.asarray(parts.noise)[row, column]:.2f},"
        f" truth {clean.iat[row, column]:g}"
    )

# %%
# The same with PCA
# -----------------
# PCA needs standardised columns. One entry that is a hundred times too large decides the scale of its
# column *and* the direction of a component. We compare both with PCA of the table without errors.


def share_of_plane(components, reference):
    """Return the mean squared cosine of the angles between two planes; 1 means that they are the same."""
    cosines = np.linalg.svd(np.linalg.qr(components.T)[0].T @ np.linalg.qr(reference.T)[0])[1]
    return np.mean(cosines**2)


deviations = clean.std(ddof=0).to_numpy()
truth = PCA(2).fit(StandardScaler().fit_transform(clean))
scaler = StandardScaler().fit(table)
pca = PCA(2).fit(scaler.transform(table))

pca_plane = pca.components_ * scaler.scale_ / deviations
model_plane = model.components_ / deviations
print(
    f"agreement with PCA of the clean table: PCA {share_of_plane(pca_plane, truth.components_):.2f},", end=" "
)
print(f"robust {share_of_plane(model_plane, truth.components_):.2f}")

# %%
# The picture shows the wines by their grape variety, which no method was told. After a few typing errors
# PCA shows a heap and some outliers. The robust map has the groups of the clean table; it is turned,
# because its axes are orthogonal in the units of the table and not in standard deviations.

maps = {
    "PCA of the clean table": truth.transform(StandardScaler().fit_transform(clean)),
    "PCA of the table with errors": pca.transform(scaler.transform(table)),
    "robust PCA of the table with errors": np.asarray(parts.coefficients),
}
fig, axes = plt.subplots(1, 3, figsize=(11, 3.8), layout="constrained")
for axis, (title, points) in zip(axes, maps.items(), strict=True):
    for variety, colour in enumerate(("tab:blue", "tab:orange", "tab:green")):
        some = wine.target == variety
        axis.scatter(*points[some].T, s=14, color=colour, alpha=0.7, label=f"variety {variety + 1}")
    axis.set(title=title, xlabel="component 1", ylabel="component 2", xticks=[], yticks=[])
    axis.title.set_fontsize(10)
axes[0].legend(frameon=False, fontsize=9)
plt.show()

# %%
# With your own table, pass it as it is: units do not matter, and gaps may be NaN. Leave out
# ``n_components`` to let the model choose the rank, and read ``parts.noise`` for what it takes to be wrong.
