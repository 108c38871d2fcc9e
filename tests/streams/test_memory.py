"""The memory of an online estimator does not grow with the number of samples."""

import subprocess
import sys

SCRIPT = """
import resource
import numpy as np
from maxnorm import MaxNormDecomposition

rng = np.random.default_rng(0)
basis = rng.standard_normal((5, 300))
model = MaxNormDecomposition(n_components=5, max_iter=5, random_state=0)
peaks = []
for k in range(100):
    X = rng.standard_normal((1000, 5)) @ basis
    X[rng.random(X.shape) < 0.05] += 100
    model.partial_fit(X)
    if k in (9, 99):
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
assert model.n_samples_seen_ == 100_000
print(peaks[1] - peaks[0])
"""


def test_peak_memory_does_not_grow_between_10_000_and_100_000_samples():
    result = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    growth_in_kilobytes = int(result.stdout)
    assert growth_in_kilobytes < 5 * 1024
