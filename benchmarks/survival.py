"""Kill ``maxnorm fit --checkpoint-every`` at random moments, and compare with a run that is not interrupted.

    python benchmarks/survival.py --kills 50

After each SIGKILL the model file must load. At the end the model must equal that of the uninterrupted run.
"""

import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click
import numpy as np

import maxnorm
from maxnorm.datasets import make_corrupted_low_rank

ROWS, FEATURES = 2_000_000, 40


def wait_for_checkpoint(process, model):
    """Wait until a running fit has written its next checkpoint: start-up takes longer than the rest."""
    before = model.stat().st_mtime_ns if model.exists() else 0
    while process.poll() is None and (not model.exists() or model.stat().st_mtime_ns == before):
        time.sleep(0.001)


@click.command()
@click.option("--kills", type=click.IntRange(1), default=50, show_default=True, help="Number of kills.")
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed of the moments.")
def main(kills, seed):
    """Run the experiment; the exit status is 0 if both models are identical."""
    rng = random.Random(seed)
    block = make_corrupted_low_rank(20_000, FEATURES, 3, corruption=0.1, random_state=0).X
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "x.npy", np.tile(block, (ROWS // len(block), 1)))
        model = folder / "m.maxnorm"
        command = [sys.executable, "-m", "maxnorm", "fit", "x.npy", "--rank", "3", "--model"]
        resumed = [*command, model.name, "--checkpoint-every", "1000", "--resume"]
        while_saving = 0
        for kill in range(1, kills + 1):
            process = subprocess.Popen(
                resumed, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            wait_for_checkpoint(process, model)
            time.sleep(rng.uniform(0.0, 0.2))
            if process.poll() is not None:
                raise click.ClickException("the fit finished before it could be killed: raise ROWS")
            process.kill()
            process.wait()
            while_saving += bool(list(folder.glob(".*.part")))
            seen = maxnorm.load(model).n_samples_seen_
            click.echo(f"kill {kill}: the model file is complete, with {seen:,} rows learnt")
        subprocess.run([*command, model.name, "--resume"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        subprocess.run([*command, "whole.maxnorm"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        killed, whole = (maxnorm.load(folder / name) for name in (model.name, "whole.maxnorm"))
        same = np.array_equal(killed.components_, whole.components_)
        same &= np.array_equal(killed.state_.statistics.B, whole.state_.statistics.B)
        click.echo(
            f"{kills} kills, {while_saving} of them during a save; models identical bit by bit: {same}"
        )
        raise SystemExit(0 if same else 1)


if __name__ == "__main__":
    main()
