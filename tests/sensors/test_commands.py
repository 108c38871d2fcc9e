"""``maxnorm clean`` and ``maxnorm watch`` as people run them."""

import csv
import json
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import maxnorm
from maxnorm.cli import main

PATIENCE = 120  # seconds


def make_log(n=1400, p=8, seed=0):
    """Return a log of sensors with other units, a change after half of the rows, and its spikes."""
    rng = np.random.default_rng(seed)
    t = np.arange(n)
    factors = np.column_stack([np.sin(t / 30.0), np.cos(t / 30.0), np.sin(t / 11.0)])
    first, second = rng.standard_normal((2, 3, p))
    X = np.where((t < n // 2)[:, None], factors @ first, factors @ second)
    X += 0.05 * rng.standard_normal(X.shape)
    spikes = (rng.random(X.shape) < 0.005) & (t > 300)[:, None]
    X = (X + 8.0 * spikes) * 10.0 ** rng.uniform(-2, 4, p)
    frame = pd.DataFrame(X, columns=[f"sensor {j}" for j in range(p)])
    frame.insert(0, "time", pd.date_range("2024-01-01", periods=n, freq="min"))
    return frame, spikes


def run(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_a_log_is_cleaned(tmp_path):
    frame, spikes = make_log()
    frame.iloc[10, 1] = np.nan
    frame.to_csv(tmp_path / "log.csv", index=False)
    result = run("clean", tmp_path / "log.csv", "--json")
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert summary["gaps filled"] == 1
    assert "row 701" in summary["changes"]
    folder = tmp_path / "log-cleaned"
    assert {path.name for path in folder.iterdir()} == {"log.csv", "anomalies.csv", "report.html"}
    cleaned = pd.read_csv(folder / "log.csv")
    assert list(cleaned.columns) == list(frame.columns)
    assert not cleaned.isna().any().any()
    anomalies = pd.read_csv(folder / "anomalies.csv")
    found = anomalies[anomalies["kind"] == "spike"]
    places = {(row - 1, int(name[-1])) for row, name in zip(found["row"], found["sensor"], strict=True)}
    true = set(zip(*np.nonzero(spikes), strict=True))
    assert len(places & true) > 0.95 * len(true)
    assert len(places - true) < 0.02 * len(frame)
    assert (anomalies["kind"] == "change").sum() == 1


def test_nothing_is_overwritten_unasked(tmp_path):
    make_log(200)[0].to_csv(tmp_path / "log.csv", index=False)
    assert run("clean", tmp_path / "log.csv", "-q").exit_code == 0
    again = run("clean", tmp_path / "log.csv", "-q")
    assert again.exit_code == 1
    assert "already exists: use --overwrite" in again.output
    result = run("clean", tmp_path / "log.csv", "-q", "--overwrite")
    assert result.exit_code == 0
    assert "gaps filled" in result.stdout
    assert result.stderr == ""


def test_options_of_clean(tmp_path):
    make_log(300)[0].to_parquet(tmp_path / "log.parquet")
    arguments = ("-o", tmp_path / "out", "--exclude", "sensor 1", "--lags", 1, "--alarm-rate", 0.02, "--json")
    result = run("clean", tmp_path / "log.parquet", *arguments)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["sensors"] == 7
    assert list(pd.read_parquet(tmp_path / "out" / "log.parquet").columns)[2] == "sensor 1"


def test_a_single_series_gets_honest_advice(tmp_path):
    frame, _ = make_log(300)
    frame[["time", "sensor 0"]].to_csv(tmp_path / "one.csv", index=False)
    assert "a running median is better" in run("clean", tmp_path / "one.csv").output


def test_alarms_are_written_as_lines_of_json(tmp_path):
    frame, spikes = make_log()
    command = [sys.executable, "-m", "maxnorm", "watch", "-", "--headless", "--model", tmp_path / "m.maxnorm"]
    text = frame.to_csv(index=False)
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=PATIENCE, check=True)
    alarms = [json.loads(line) for line in done.stdout.splitlines()]
    rows = {alarm["row"] - 1 for alarm in alarms if alarm["kind"] == "row"}
    late = {int(i) for i in np.flatnonzero(spikes.any(axis=1)) if not 700 <= i < 900}
    assert len(rows & late) > 0.8 * len(late)
    changes = [alarm["row"] for alarm in alarms if alarm["kind"] == "change" and alarm["change"] != "drift"]
    assert min(abs(row - 701) for row in changes) <= 50
    entry = next(alarm for alarm in alarms if alarm["kind"] == "row")["entries"][0]
    assert set(entry) == {"sensor", "value", "expected", "deviation"}
    detector = maxnorm.load(tmp_path / "m.maxnorm")
    assert detector.n_samples_seen_ == len(frame)


def start_watch(*arguments):
    command = [sys.executable, "-m", "maxnorm", "watch", *map(str, arguments), "--headless"]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def wait_for_title(process):
    """Return the source that the command says that it reads."""
    line = process.stderr.readline()
    assert line.startswith("reading "), line
    return line.removeprefix("reading ").strip()


@pytest.mark.parametrize("kind", ["standard input", "file", "socket"])
def test_rows_are_learnt_soon_and_saved_on_a_signal(tmp_path, kind):
    frame, _ = make_log(200)
    frame.iloc[150, 2] += 1e6
    lines, model = frame.to_csv(index=False), tmp_path / "m.maxnorm"
    path = tmp_path / "growing.csv"
    path.write_text(lines[: lines.index("\n") + 1])
    source = {"standard input": "-", "file": path, "socket": "tcp://127.0.0.1:0"}[kind]
    with start_watch(source, "--model", model) as process:
        title = wait_for_title(process)
        if kind == "standard input":
            process.stdin.write(lines)
            process.stdin.flush()
        elif kind == "file":
            with path.open("a") as file:
                file.write(lines[lines.index("\n") + 1 :])
        else:
            with socket.create_connection(("127.0.0.1", int(title.rpartition(":")[2]))) as connection:
                connection.sendall(lines.encode())
        rows = []
        while not rows or rows[-1] < 151:  # although no further row arrives
            alarm = json.loads(process.stdout.readline())
            rows.append(alarm["row"])
        time.sleep(1.0)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 143
        assert "saved" in process.stderr.read()
    assert maxnorm.load(model).n_samples_seen_ == 200


def test_watching_is_resumed(tmp_path):
    frame, _ = make_log(600)
    model = tmp_path / "m.maxnorm"
    for part, options in ((frame[:400], ()), (frame[400:], ("--resume",))):
        command = [sys.executable, "-m", "maxnorm", "watch", "-", "--headless", "--model", model, *options]
        subprocess.run(
            command,
            input=part.to_csv(index=False),
            text=True,
            check=True,
            capture_output=True,
            timeout=PATIENCE,
        )
    assert maxnorm.load(model).n_samples_seen_ == 600


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tcp://192.0.2.1:9000"], "is not an address of this machine alone"),
        (["tcp://localhost:none"], "is not an address such as"),
        (["nothing.csv"], "there is no such file"),
        (["-", "--resume"], "--resume needs --model"),
    ],
)
def test_wrong_sources_are_refused_with_a_reason(arguments, message):
    result = run("watch", *arguments, "--headless")
    assert result.exit_code in (1, 2)
    assert message in result.output


def test_the_list_of_anomalies_is_plain_csv(tmp_path):
    make_log(400)[0].to_csv(tmp_path / "log.csv", index=False)
    run("clean", tmp_path / "log.csv", "-q")
    with (tmp_path / "log-cleaned" / "anomalies.csv").open() as file:
        names = next(csv.reader(file))
    assert names == ["row", "time", "kind", "sensor", "value", "expected", "cleaned", "deviation"]
