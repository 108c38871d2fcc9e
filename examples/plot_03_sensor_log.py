"""
A sensor log
============

You have a log of a machine, one row per minute and one column per sensor. Which rows are wrong, and which
sensor is to blame?
"""

# %%
# The log
# -------
# Twelve sensors in different units follow three slow loads of a plant. We add what happens in real logs:
# single spikes, gaps, and a temperature sensor that is stuck at one plausible value for three hours.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import IsolationForest
from sklearn.metrics import average_precision_score

from maxnorm import AnomalyDetector, plot

rng = np.random.default_rng(0)
n = 3000
names = ["pressure", "flow", "speed", "power", "temperature", "vibration", "level", "current"]
names += ["oil pressure", "inlet flow", "torque", "outlet temperature"]
units = np.array([2e5, 0.03, 1500.0, 4e4, 60.0, 0.002, 1.2, 90.0, 4e5, 0.05, 250.0, 75.0])
minutes = np.arange(n)
loads = np.column_stack([np.sin(2 * np.pi * minutes / period + period) for period in (1440, 400, 97)])
values = 1.0 + 0.2 * loads @ rng.normal(0.0, 1.0, (3, 12)) + rng.normal(0.0, 0.02, (n, 12))
log = pd.DataFrame(values * units, columns=names)
log.index = pd.date_range("2024-05-01", periods=n, freq="min", name="time")

spikes = rng.random(log.shape) < 0.001
log = log.where(~spikes, log + rng.choice([-1, 1], log.shape) * rng.uniform(0.3, 0.6, log.shape) * units)
log.iloc[2000:2180, 4] = log.iloc[2000, 4]  # stuck
log = log.mask(rng.random(log.shape) < 0.02)  # gaps

wrong = spikes.any(axis=1)
stuck = (minutes >= 2000) & (minutes < 2180)
print(
    f"{wrong.sum()} rows with spikes, {stuck.sum()} rows with a stuck sensor, {log.isna().sum().sum()} gaps"
)

# %%
# Find the anomalous rows
# -----------------------
# ``alarm_rate`` is the only setting: the share of usual rows that may be reported.

detector = AnomalyDetector(alarm_rate=0.001, random_state=0).fit(log)
alarms = detector.predict(log) == -1
print(f"rows with spikes found: {(alarms & wrong).sum()} of {wrong.sum()}")
print(f"rows with the stuck sensor found: {(alarms & stuck).sum()} of {stuck.sum()}")
usual = ~wrong & ~stuck
print(f"false alarms: {(alarms & usual).sum()} of {usual.sum()} usual rows")

# %%
# A stuck value is plausible for the sensor itself. It is noticed only while the other sensors are far away
# from it, which is a small part of the three hours. The usual tool, an isolation forest, splits one column
# at a time and needs filled gaps.

forest = IsolationForest(random_state=0).fit(log.ffill().bfill().to_numpy())
for name, scores in (
    ("AnomalyDetector", -detector.score_samples(log)),
    ("IsolationForest", -forest.score_samples(log.ffill().bfill().to_numpy())),
):
    print(f"{name}: average precision {average_precision_score(~usual, scores):.2f}")

# %%
# Which sensor is to blame?
# -------------------------
# ``explain`` returns the wrong entries with what the other sensors predict, and the unusual rows.

found = detector.explain(log)
print(found.entries.head(6).to_string(index=False))

blamed = found.entries[found.entries["row"].between(2000, 2179)]
print("blamed while the temperature sensor was stuck:", blamed["feature"].value_counts().to_dict())

# %%
# The picture shows the hours around the stuck sensor, and the scores of all rows: spikes, and the rows in
# which the stuck sensor was noticed, are below the threshold of the detector.

expected = detector.deviations(log).expected[:, names.index("temperature")]
fig, (above, below) = plt.subplots(2, 1, figsize=(9, 5.5), layout="constrained")
window = slice(1850, 2350)
some = blamed[blamed["feature"] == "temperature"]
times = log.index[window]
above.plot(times, expected[window], color="tab:blue", linewidth=1, label="expected from the other sensors")
above.plot(times, log["temperature"].iloc[window], color="0.4", linewidth=1, label="measured")
above.plot(log.index[some["row"]], some["value"], ".", color="tab:red", label="anomalous entries")
above.set(title="A stuck sensor", ylabel="temperature")
above.legend(frameon=False, ncols=3, loc="upper left", fontsize=9)
above.set_ylim(top=above.get_ylim()[1] + 12)

plot.scores(detector, log, ax=below)
below.set(title="Scores of all rows", xlabel="time", yscale="symlog")
below.legend(frameon=False, ncols=3, loc="upper left", fontsize=9)
below.set_ylim(top=30.0)
plt.show()

# %%
# The same for colleagues without Python: one page with the unusual rows, the sensors that are to blame and
# the pictures, which needs no other file.

with tempfile.TemporaryDirectory() as folder:
    page = Path(folder) / "report.html"
    detector.report(page, log)
    print(f"{page.name}: {page.stat().st_size / 1e3:.0f} kB")

# %%
# With your own log, ``pd.read_csv`` and these two calls are all. For a stream use
# :meth:`maxnorm.AnomalyDetector.score_learn`, which judges each row by what was learnt before it. The
# command ``maxnorm clean log.csv`` does it for files, looks at neighbours in time as well, finds stuck
# sensors by their repeated values, and writes a report.
