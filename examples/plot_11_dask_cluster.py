"""
A Dask cluster
==============

Your data are spread over several machines, or you want to use all cores of one. Does a model that is learnt
on the workers agree with one that is learnt in a single process?
"""

# %%
# A cluster
# ---------
# A local cluster stands for a real one: two workers with one thread each, in this process and without a
# dashboard. For machines of your own, replace it by ``Client("tcp://HOST:8786")``; nothing else changes.

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from dask.distributed import Client, LocalCluster

from maxnorm import MaxNormDecomposition
from maxnorm.datasets import make_corrupted_low_rank
from maxnorm.metrics import expressed_variance

cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None)
client = Client(cluster)
print(f"{len(client.scheduler_info()['workers'])} workers")

# %%
# Data in blocks
# --------------
# The array has 20,000 rows in twenty blocks, and a fifth of its entries is wrong. With your own data,
# ``da.from_zarr`` or ``dd.read_parquet`` would let each worker read its blocks itself.

data = make_corrupted_low_rank(
    20_000, 60, 5, corruption=0.2, magnitude=20.0, dense_noise=0.01, random_state=0
)
blocks = da.from_array(data.X, chunks=(1000, -1))
print(f"{blocks.numblocks[0]} blocks of {blocks.chunks[0][0]} rows")

# %%
# Learn on the workers
# --------------------
# A round encodes some blocks on the workers that hold them, and adds up small sums; the blocks themselves
# stay where they are. Rounds grow, because little is learnt from many rows while the model is still poor.

rounds = []


def note(result):
    """Note the number of rows and the share of the subspace that is still missing after a round."""
    rounds.append((result.n_samples, 1.0 - expressed_variance(data.basis, model.components_.T)))


model = MaxNormDecomposition(n_components=5, n_epochs=1, random_state=0)
model.fit(blocks, callback=note)
single = MaxNormDecomposition(n_components=5, n_epochs=1, random_state=0).fit(data.X)
for name, fitted in (("cluster", model), ("single process", single)):
    print(f"{name}: share of the true subspace {expressed_variance(data.basis, fitted.components_.T):.6f}")
agreement = expressed_variance(np.linalg.qr(single.components_.T)[0], model.components_.T)
print(f"share of the one model's subspace that the other spans: {agreement:.6f}")

# %%
# Results are lazy
# ----------------
# ``decompose`` and ``transform`` return Dask arrays. Nothing is computed before you ask for it, and only
# what you ask for comes back from the workers.

errors = model.decompose(blocks).noise
print(type(errors).__module__, errors.shape)
share = (abs(errors) > 0.1).mean(axis=0).compute()
print(f"wrong entries: {share.mean():.1%} found, {np.mean(np.abs(data.noise) > 0.1):.1%} planted")

client.close()
cluster.close()

# %%
fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.6), layout="constrained")
left.loglog(*np.array(rounds).T, "o-", markersize=4)
left.set(
    xlabel="rows learnt from", ylabel="share of the subspace not found yet", title="Rounds on the cluster"
)
right.bar(np.arange(60), share, color="tab:blue", width=0.8)
right.axhline(0.2, color="0.3", linestyle="--", linewidth=1, label="planted")
right.set(
    xlabel="feature",
    ylabel="share of wrong entries",
    title="Errors found, feature by feature",
    ylim=(0, 0.28),
)
right.legend(frameon=False)
plt.show()

# %%
# On one machine, data in files are learnt with less memory by ``maxnorm.open_stream``. A cluster pays when
# the data are already on it, or when rows have thousands of features; this small example would be faster
# without one.
