"""
A drifting stream
=================

Rows arrive one after the other from a process that someone may readjust at any time. Does the model notice,
when did it happen, and how soon are the new rows described well?
"""

# %%
# The stream
# ----------
# Forty sensors follow four hidden loads, with 5 % gross errors. After 3,000 rows the process is readjusted,
# so that the sensors follow the loads in another way. From row 6,000 on, it changes slowly.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import IncrementalPCA

from maxnorm import MaxNormDecomposition

rng = np.random.default_rng(0)
n, p, rank = 9000, 40, 4
before, after, drift = rng.normal(0.0, 1.0, (3, rank, p))
loads = rng.normal(0.0, 1.0, (n, rank))
clean = loads @ before
clean[3000:] = loads[3000:] @ after
turn = np.linspace(0.0, 0.6, 3000)[:, None]
clean[6000:] = np.cos(turn) * (loads[6000:] @ after) + np.sin(turn) * (loads[6000:] @ drift)
X = clean + rng.normal(0.0, 0.1, clean.shape)
X[rng.random(X.shape) < 0.05] += 20.0

# %%
# Learn as rows arrive
# --------------------
# Every batch of 100 rows is first judged by what was learnt before it, and then learnt from. ``drift=None``
# shows what happens without attention to changes, and ``IncrementalPCA`` is the usual tool for streams.

following = MaxNormDecomposition(n_components=rank, random_state=0)
ignoring = MaxNormDecomposition(n_components=rank, drift=None, random_state=0)
pca = IncrementalPCA(n_components=rank)
models = {"IncrementalPCA": pca, "drift=None": ignoring, "MaxNormDecomposition": following}


def reconstruct(model, rows):
    """Return the low-rank part of rows."""
    if isinstance(model, IncrementalPCA):
        return model.inverse_transform(model.transform(rows))
    return model.decompose(rows).low_rank


starts = np.arange(0, n, 100)
errors = {name: [] for name in models}
for start in starts:
    rows, right = X[start : start + 100], clean[start : start + 100]
    for name, model in models.items():
        if start:
            difference = reconstruct(model, rows) - right
            errors[name].append(np.linalg.norm(difference) / np.linalg.norm(right))
        model.partial_fit(rows)

# %%
# ``changes_`` says at which row the stream has changed and how: "new" if learning has started anew, "turn"
# or "drift" if the components turn suddenly or slowly.

for change in following.changes_:
    print(f"row {change.sample}: {change.kind}, components turned by {np.degrees(change.angle):.0f} degrees")

for name, values in errors.items():
    values = np.array(values)
    places = {
        "before": slice(19, 29),
        "200 to 1000 rows after": slice(31, 39),
        "while drifting": slice(69, 89),
    }
    print(f"{name}: " + ", ".join(f"{place} {values[some].mean():.3f}" for place, some in places.items()))

# %%
# The curves are relative errors on rows that the model has not learnt from yet. At the change every model
# fails; the one that follows has recovered a few hundred rows later.

fig, axis = plt.subplots(figsize=(9, 4), layout="constrained")
colours = ("tab:orange", "0.6", "tab:blue")
for colour, (name, values) in zip(colours, errors.items(), strict=True):
    axis.semilogy(starts[1:], values, color=colour, label=name)
for change in following.changes_:
    axis.axvline(change.sample, color="tab:red", linestyle=":", linewidth=1.2)
axis.axvspan(6000, n, color="0.95", zorder=0)
axis.text(7500, 0.0125, "slow drift", ha="center", color="0.4")
axis.set(xlabel="row", ylabel="relative error of the next 100 rows", ylim=(0.01, 3.0), xlim=(0, n))
axis.legend(frameon=False, ncols=3, loc="upper center")
plt.show()

# %%
# The dotted lines are the changes that were reported. With your own stream, call ``partial_fit`` with
# whatever has arrived, one row or a thousand, and look at ``changes_`` from time to time.
