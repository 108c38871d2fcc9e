"""
A file larger than memory
=========================

You have a file of 20 GB that does not fit in memory, with gross errors in it. Can a model be learnt from it,
how much memory does that take, and how long? This page learns from 50 MB, so that it can be built quickly,
and compares them with a file that is forty times larger.
"""

# %%
# A file
# ------
# We write 50 MB in pieces, as a long measurement would: 125,000 rows of 100 channels in single precision.
# Every row combines five components, and a tenth of the entries is wrong.

import tempfile
import time
import tracemalloc
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from maxnorm import MaxNormDecomposition, open_stream
from maxnorm.metrics import expressed_variance

n, p, rank = 125_000, 100, 5
rng = np.random.default_rng(0)
basis = np.linalg.qr(rng.standard_normal((p, rank)))[0]

folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "measurement.npy"
file = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, p))
for start in range(0, n, 5000):
    rows = rng.standard_normal((5000, rank)) @ basis.T + 0.01 * rng.standard_normal((5000, p))
    rows[rng.random(rows.shape) < 0.1] = 10.0
    file[start : start + 5000] = rows
file.flush()
del file
print(f"{path.name}: {path.stat().st_size / 1e6:.0f} MB")

# %%
# Learn from it
# -------------
# ``open_stream`` reads the file batch by batch; CSV, Parquet, HDF5 and Zarr are opened in the same way.
# ``batch_size`` is the number of rows that are read at a time; it limits the memory and does not change the
# model. By default, tens of MB are read ahead. A callback notes the memory that Python and NumPy hold, and
# how much of the true subspace has been learnt.

progress = []


def note(result):
    """Note rows, memory in MB and the share of the true subspace after a step."""
    if not progress:
        tracemalloc.reset_peak()  # modules that were imported on the way do not count
    memory = tracemalloc.get_traced_memory()[1] / 1e6
    progress.append((result.n_samples, memory, expressed_variance(basis, model.components_.T)))


model = MaxNormDecomposition(n_components=rank, random_state=0)
tracemalloc.start()
model.fit(open_stream(path, batch_size=1000), callback=note)
tracemalloc.stop()
rows, memory, found = np.array(progress).T
print(f"share of the true subspace found: {found[-1]:.4f}")
print(
    f"peak of memory: {memory[-1]:.0f} MB, of which {np.interp(n / 2, rows, memory):.0f} MB in the first half"
)

# %%
# How long would 20 GB take?
# --------------------------
# Measuring memory takes time, so that the speed is measured in a second run.

start = time.perf_counter()
again = MaxNormDecomposition(n_components=rank, random_state=0).fit(open_stream(path, batch_size=1000))
print(f"{time.perf_counter() - start:.1f} seconds for {n:,} rows")

# %%
# These seconds cannot simply be multiplied. The fit first reads the file for some thousand rows from
# everywhere in it, starts the model from them, which takes the same few seconds for every large file, and
# then reads the file again to learn from all rows. From there on, a larger file is the same loop for longer,
# and the model has a fixed size. We have therefore compared this file with one of 2 GB, made in the same way
# with ``n = 5_000_000``, by the command
#
# .. code-block:: console
#
#    $ OMP_NUM_THREADS=1 maxnorm fit measurement.npy --rank 5 --model measurement.maxnorm
#
# The times are those of two runs on one core of a server that was busy with other work as well:
#
# ======  =========  =========  ===========
# file    rows       seconds    peak memory
# ======  =========  =========  ===========
# 50 MB   125,000    5 and 6    331 MB
# 2 GB    5,000,000  21 and 41  362 MB
# ======  =========  =========  ===========
#
# The memory is that of the whole process with Python, its libraries and the part of the file that is mapped.
# What the process itself had allocated was 162 MB after half a million rows, and still at the end. Ten times
# the rows of the second file make 3 to 7 minutes for 20 GB. This is an extrapolation: we have not run it on
# 20 GB, and a file of 2 GB stays in the cache of the operating system, so that it is read from the disk once
# at most. One of 20 GB is read twice, and a slow disk may take longer to read it than the model to learn from
# it. Compressed files and text are slower to read, and more features or components take longer per row.

# %%
fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.6), layout="constrained")
left.plot(rows, memory, color="tab:blue")
left.axhline(path.stat().st_size / 1e6, color="0.5", linestyle="--", label="size of the file")
left.set(xlabel="rows read", ylabel="peak of memory, MB", title="Memory", ylim=0)
left.legend(frameon=False)
right.loglog(rows, 1.0 - found, color="tab:blue")
right.set(xlabel="rows read", ylabel="share not found yet", title="The true subspace")
plt.show()

# %%
# Results as large as the file are best used batch by batch:

count = 0
for batch in open_stream(path, batch_size=1000):
    count += np.count_nonzero(model.decompose(batch).noise)
    break  # your own loop goes on
print(f"errors in the first batch: {count / batch.size:.1%} of the entries")
folder.cleanup()
