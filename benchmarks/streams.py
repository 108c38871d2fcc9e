"""Learn from a file that is larger than memory; compare speed and peak memory with batches from memory.

    python benchmarks/streams.py                      # 20 GB, about ten minutes
    python benchmarks/streams.py --gigabytes 2

Also compares learning with and without the background thread that reads ahead, for several file formats.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import click
import numpy as np
from machine import describe

from maxnorm import MaxNormDecomposition, open_stream
from maxnorm.datasets import make_corrupted_low_rank
from maxnorm.paper.measure import measure_resident_memory, measure_seconds
from maxnorm.streams.stream import Stream

FEATURES, COMPONENTS, BLOCK = 400, 10, 25_000


def make_block():
    """Return the rows that the file repeats."""
    return make_corrupted_low_rank(BLOCK, FEATURES, COMPONENTS, corruption=0.1, random_state=0).X


def write_file(path, copies):
    """Write a .npy file that repeats the block ``copies`` times, without holding it in memory."""
    rows = make_block()
    header = np.lib.format.open_memmap(path, mode="w+", dtype=rows.dtype, shape=(copies * BLOCK, FEATURES))
    offset = header.offset
    del header
    with path.open("r+b") as file:
        file.seek(offset)
        for _ in range(copies):
            file.write(rows.data)
        file.flush()
        os.fsync(file.fileno())


def learn(stream):
    """Learn from a stream, and return the number of rows, the seconds and the peak memory of the process."""
    seconds, model = measure_seconds(MaxNormDecomposition(COMPONENTS, random_state=0).fit, stream)
    return {"rows": model.n_samples_seen_, "seconds": seconds, "peak MB": measure_resident_memory()}


def memory_stream(copies):
    """Return a stream of the same batches without a file."""
    rows = make_block()
    size = next(open_stream(rows).source(0)).shape[0]
    parts = [rows[i : i + size] for i in range(0, BLOCK, size)]
    return Stream(lambda start: iter(parts * copies), "memory", in_background=False)


def run_subprocess(kind, *arguments):
    """Run a subcommand of this script in a new process, which has a peak memory of its own."""
    result = subprocess.run(
        [sys.executable, __file__, kind, *map(str, arguments)], capture_output=True, check=True
    )
    return json.loads(result.stdout)


@click.group(invoke_without_command=True)
@click.option("--gigabytes", type=float, default=20.0, show_default=True, help="Size of the file.")
@click.option("--folder", type=click.Path(path_type=Path), default=None, help="Folder of the temporary file.")
@click.pass_context
def main(context, gigabytes, folder):
    """Run all measurements."""
    if context.invoked_subcommand:
        return
    click.echo(describe())
    copies = max(1, round(gigabytes * 1e9 / (8 * FEATURES * BLOCK)))
    with tempfile.TemporaryDirectory(dir=folder) as folder_name:
        path = Path(folder_name) / "large.npy"
        write_file(path, copies)
        click.echo(f"{path.stat().st_size / 1e9:.1f} GB, {copies * BLOCK:,} rows of {FEATURES}")
        rates = {}
        for name, found in (
            ("memory", run_subprocess("memory", copies)),
            ("file", run_subprocess("file", path)),
        ):
            rates[name] = found["rows"] / found["seconds"]
            click.echo(f"{name:8} {rates[name]:10,.0f} rows/s   peak {found['peak MB']:.0f} MB")
        click.echo(f"file / memory: {100 * rates['file'] / rates['memory']:.0f} % of the speed")
        path.unlink()
        compare_reading_ahead(Path(folder_name))


@main.command()
@click.argument("copies", type=int)
def memory(copies):
    """Learn from batches in memory, and print the measurements as JSON."""
    click.echo(json.dumps(learn(memory_stream(copies))))


@main.command()
@click.argument("path", type=click.Path(path_type=Path))
def file(path):
    """Learn from a file, and print the measurements as JSON."""
    click.echo(json.dumps(learn(open_stream(path))))


def compare_reading_ahead(folder):
    """Compare learning with and without the background thread that reads ahead."""
    import h5py
    import pandas

    rows = np.tile(make_block(), (2, 1))
    np.save(folder / "x.npy", rows)
    frame = pandas.DataFrame(rows, columns=[f"s{i}" for i in range(FEATURES)])
    frame.to_parquet(folder / "x.parquet", row_group_size=5000)
    frame[:10_000].to_csv(folder / "x.csv", index=False)
    with h5py.File(folder / "x.h5", "w") as file:
        file.create_dataset(
            "data", data=rows, chunks=(1000, FEATURES), compression="gzip", compression_opts=1
        )
    click.echo("reading ahead      rows/s without        with      gain")
    for name in ("x.npy", "x.parquet", "x.h5", "x.csv"):
        stream = open_stream(folder / name)
        in_foreground = Stream(stream.source, stream.title, in_background=False)
        times = {True: [], False: []}
        for _ in range(3):
            for ahead in (False, True):
                found = learn(stream if ahead else in_foreground)
                times[ahead].append(found["seconds"] / found["rows"])
        without, with_ = 1 / min(times[False]), 1 / min(times[True])
        click.echo(f"{name:18} {without:14,.0f}  {with_:10,.0f}  {100 * (with_ / without - 1):6.0f} %")


if __name__ == "__main__":
    main()
