"""
An imputer in a pipeline
========================

You want to classify patients by a table that has gaps and wrong entries. Which imputer leaves the
classifier the most to learn from?
"""

# %%
# The table
# ---------
# The breast cancer data of scikit-learn have 569 patients and 30 measurements. We delete a share of the
# entries, and in a second table 5 % of the remaining ones are wrong by 5 to 20 standard deviations.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxnorm import MaxNormCompletion, MaxNormDecomposition

clean, diagnosis = load_breast_cancer(return_X_y=True)
rng = np.random.default_rng(0)
missing = rng.random(clean.shape) < 0.4
wrong = rng.random(clean.shape) < 0.05
size = rng.choice([-1, 1], clean.shape) * rng.uniform(5.0, 20.0, clean.shape) * clean.std(axis=0)

tables = {
    "40 % gaps": np.where(missing, np.nan, clean),
    "40 % gaps, 5 % errors": np.where(missing, np.nan, clean + wrong * size),
}

# %%
# The pipelines
# -------------
# :class:`maxnorm.MaxNormCompletion` is an imputer like those of scikit-learn: it learns from the training
# rows and fills rows that it has never seen. Like every imputer it leaves the observed entries alone, the
# wrong ones included; ``noise="capped"`` only keeps them from spoiling what is filled in. To replace wrong
# entries as well, put :class:`maxnorm.MaxNormDecomposition` there, whose coefficients are features without
# gaps and errors.

imputers = {
    "median": SimpleImputer(strategy="median"),
    "nearest neighbours": KNNImputer(),
    "MaxNormCompletion": MaxNormCompletion(noise="capped", random_state=0),
    "MaxNormDecomposition": MaxNormDecomposition(random_state=0),
}
accuracy = {}
for title, table in tables.items():
    for name, imputer in imputers.items():
        steps = [StandardScaler(), imputer] if name == "nearest neighbours" else [imputer, StandardScaler()]
        pipeline = make_pipeline(*steps, LogisticRegression(max_iter=1000))
        accuracy[title, name] = cross_val_score(pipeline, table, diagnosis, cv=3)
        scores = accuracy[title, name]
        print(
            f"{title}, {name}: accuracy {scores.mean():.3f} (folds {scores.min():.3f} to {scores.max():.3f})"
        )

# %%
# For comparison, the same classifier on the table without gaps and errors:

pipeline = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
complete = cross_val_score(pipeline, clean, diagnosis, cv=3).mean()
print(f"complete table: accuracy {complete:.3f}")

# %%
# The result
# ----------
# With gaps alone the differences between the imputers are about as large as those between folds: take the
# one that you have. With wrong entries, all imputers lose, because the classifier sees the wrong entries
# themselves. The coefficients of the decomposition lose little.

fig, axes = plt.subplots(1, 2, figsize=(9.5, 3.4), sharex=True, sharey=True, layout="constrained")
for axis, title in zip(axes, tables, strict=True):
    for place, name in enumerate(imputers):
        scores = accuracy[title, name]
        colour = "tab:blue" if name.startswith("MaxNorm") else "tab:orange"
        axis.plot([scores.min(), scores.max()], [place, place], color=colour, linewidth=2, alpha=0.6)
        axis.plot(scores.mean(), place, "o", color=colour, markersize=9)
    axis.axvline(complete, color="0.3", linestyle="--", linewidth=1)
    axis.set(title=title, xlabel="accuracy", xlim=(0.75, 1.0), yticks=range(len(imputers)))
axes[0].set_yticklabels(imputers)
axes[0].set_ylim(len(imputers) - 0.5, -0.5)
for axis in axes:
    axis.grid(axis="x", alpha=0.3)
plt.show()

# %%
# The dots are means and the lines the range of the folds; the dashed line is the complete table. With your
# own table, compare in the same way: an imputer belongs inside the pipeline, so that it never learns from
# the rows that judge the classifier.
