"""Kill `maxnorm fit --checkpoint-every` with SIGKILL at random moments, then compare with a quiet run.

    python benchmarks/survival.py --kills 50

After every kill the model file must load; in the end the model must be that of a run never stopped.
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


@click.command()
@click.option("--kills", type=click.IntRange(1), default=50, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
def main(kills, seed):
    """Run the experiment."""
    rng = random.Random(seed)
    block = make_corrupted_low_rank(20_000, FEATURES, 3, corruption=0.1, random_state=0).X
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        np.save(folder / "x.npy", np.tile(block, (ROWS // len(block), 1)))
        model = folder / "m.maxnorm"
        command = [sys.executable, "-m", "maxnorm", "fit", "x.npy", "--rank", "3", "--model"]
        often = [*command, model.name, "--checkpoint-every", "1000", "--resume"]
        done, parts = 0, 0
        while done < kills:
            process = subprocess.Popen(
                often, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            before = model.stat().st_mtime_ns if model.exists() else 0
            while process.poll() is None and (not model.exists() or model.stat().st_mtime_ns == before):
                time.sleep(0.001)  # until the first checkpoint: start-up takes longer than the rest
            time.sleep(rng.uniform(0.0, 0.2))
            if process.poll() is not None:
                raise click.ClickException("it finished before it could be killed: raise ROWS")
            process.kill()
            process.wait()
            done += 1
            parts += bool(list(folder.glob(".*.part")))
            seen = maxnorm.load(model).n_samples_seen_
            click.echo(f"kill {done}: {seen:,} rows learnt, the file is whole")
        subprocess.run([*command, model.name, "--resume"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        subprocess.run([*command, "quiet.maxnorm"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        killed, quiet = (maxnorm.load(folder / name) for name in (model.name, "quiet.maxnorm"))
        same = np.array_equal(killed.components_, quiet.components_)
        same &= np.array_equal(killed.state_.statistics.B, quiet.state_.statistics.B)
        click.echo(f"{done} kills, {parts} of them while it was saving; same model to the last bit: {same}")
        raise SystemExit(0 if same else 1)


if __name__ == "__main__":
    main()
