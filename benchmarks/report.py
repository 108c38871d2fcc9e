"""Write the results of bench.py as a Markdown page with plots.

python benchmarks/report.py docs/benchmarks     # write the report again from results.json
"""

import json
import sys
from pathlib import Path

AXES = {
    "samples": "samples seen",
    "features": "features (10 components)",
    "components": "components (400 features)",
}
EXPLANATION = """\
One BLAS thread is used unless stated otherwise. The machine is shared, so compare ratios rather than
milliseconds.

The tables show the expressed variance (EV) of the true subspace, which is 1 if it is recovered; the time of
the solver alone; the peak memory beside the data (for streams: over the first 1,000 samples); and the samples
and seconds after which an EV of 0.5, 0.8 and 0.95 is reached. There are 400 features; entries of the signal
are below 1 and errors are up to 1000 unless the title says otherwise. Batch methods see all samples at once.
A stream that takes more than a minute is stopped. All methods are told the rank. Trimmed PCA and GRASTA are
written small and plain in `benchmarks/rivals.py`."""


def write_report(results, folder):
    """Write README.md, curves.png and scaling.png.

    Parameters
    ----------
    results : dict
        Results of bench.py, the content of results.json.
    folder : Path
        Folder of the report.
    """
    draw_curves(results["compared"], folder / "curves.png")
    draw_scaling(results["scaling"], folder / "scaling.png")
    (folder / "README.md").write_text("\n".join(format_page(results)) + "\n")


def format_page(results):
    """Yield the lines of the page."""
    machine = results["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["packages"].items() if version)
    command = "python benchmarks/bench.py" + (" --quick" if results["quick"] else "")
    yield "# Benchmarks"
    yield ""
    yield (
        f"`{command}` on {machine['date']}: {machine['processor']}, {machine['cores']} cores, Python "
        f"{machine['python']}; {versions}."
    )
    yield EXPLANATION
    yield ""
    yield "![expressed variance against samples and seconds](curves.png)"
    if results["missing"]:
        yield ""
        yield f"Not installed and therefore left out: {', '.join(results['missing'])}."
    for problem in distinct(results["compared"], "problem"):
        yield ""
        yield f"## {problem}"
        yield ""
        yield from format_comparison([r for r in results["compared"] if r["problem"] == problem])
    yield ""
    yield "## Scaling"
    yield ""
    yield "![milliseconds per sample](scaling.png)"
    yield ""
    yield from format_scaling(results["scaling"])


def distinct(records, key):
    """Return the distinct values of a key, in the order in which they occur."""
    return list(dict.fromkeys(record[key] for record in records))


def format_comparison(records):
    """Yield the table of one problem; times are compared with the first record."""
    ours = records[0]["ms"]
    yield "| method | EV | samples | ms per sample | times ours | MB | to EV 0.5 | 0.8 | 0.95 |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for r in records:
        levels = " | ".join(
            f"{point[0]}, {point[1]:.2f} s" if (point := r["reached"][level]) else "-"
            for level in ("0.5", "0.8", "0.95")
        )
        memory = "-" if r["megabytes"] is None else f"{r['megabytes']:.1f}"
        samples = f"{r['samples']} (stopped)" if r["stopped"] else f"{r['samples']}"
        times = f"{r['ms']:.3f} | {r['ms'] / ours:.1f}"
        yield f"| {r['method']} | {r['ev']:.4f} | {samples} | {times} | {memory} | {levels} |"
    better = [f"{r['method']} ({r['ev']:.4f})" for r in records[1:] if r["ev"] > records[0]["ev"] + 0.0002]
    faster = [r["method"] for r in records[1:] if r["ms"] < 0.95 * ours]
    yield ""
    yield f"More accurate than `MaxNormDecomposition` here: {', '.join(better) or 'none'}."
    yield f"Faster: {', '.join(faster) or 'none'}."


def format_scaling(tables):
    """Yield the tables of time and memory against the size of the problem."""
    yield "Time and memory against the number of samples (400 features, 20 components):"
    yield ""
    yield "| learner | samples seen | ms per sample since the previous row | peak MB |"
    yield "|---|---|---|---|"
    for r in tables["samples"]:
        yield f"| {r['learner']} | {r['samples']} | {r['ms']:.3f} | {r['megabytes']:.1f} |"
    yield ""
    yield "Seconds for 1,000 samples with `MaxNormDecomposition`, by number of BLAS threads:"
    yield ""
    yield "| features, components | one thread | all threads | one, a core busy | all, a core busy |"
    yield "|---|---|---|---|---|"
    for r in tables["threads"]:
        times = " | ".join(f"{r[key]:.3f}" for key in ("one", "all", "one, a core busy", "all, a core busy"))
        yield f"| {r['features']}, {r['components']} | {times} |"
    yield ""
    for r in tables["large"]:
        yield (
            f"- {r['features']} features, {r['components']} components, 30 % corrupted: EV {r['ev']} after "
            f"{r['samples']} samples and {r['s']:.1f} s."
        )
    for r in tables["film"]:
        implementation = "Numba" if r["with"] == "fast" else r["with"]
        yield (
            f"- Film of 76,800 pixels, 5 components, single precision, `{r['learner']}` with "
            f"{implementation}: {r['learning']:.0f} frames per second learnt, {r['reading']:.0f} decomposed."
        )
    for r in tables["single"]:
        microseconds = f"{r['microseconds']:.0f} µs"
        yield f"- One row of 50 features per call, `{r['learner']}`: {microseconds}, validation included."


def draw_curves(records, path):
    """Draw expressed variance against samples and against seconds, one column per problem."""
    plt = import_pyplot()
    problems, methods = distinct(records, "problem"), distinct(records, "method")
    palette = plt.get_cmap("tab20").colors
    colours = dict(zip(methods, palette[::2] + palette[1::2], strict=False))
    figure, axes = plt.subplots(
        2, len(problems), figsize=(3.4 * len(problems), 6.4), sharey=True, layout="constrained", squeeze=False
    )
    for column, problem in zip(axes.T, problems, strict=True):
        for r in records:
            if r["problem"] != problem:
                continue
            samples, seconds, ev = zip(*r["curve"], strict=True)
            style = {"color": colours[r["method"]], "marker": "o" if len(samples) == 1 else ""}
            column[0].plot(samples, ev, label=r["method"], **style)
            column[1].plot(seconds, ev, **style)
        column[0].set(title=problem.replace(", ", ",\n"), xlabel="samples", ylim=(0, 1.02))
        column[1].set(xlabel="seconds", xscale="log")
    for row in axes:
        row[0].set_ylabel("expressed variance")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    figure.savefig(path, dpi=80)
    plt.close(figure)


def draw_scaling(tables, path):
    """Draw milliseconds per sample against samples, features and components."""
    plt = import_pyplot()
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    for ax, (key, label) in zip(axes, AXES.items(), strict=True):
        for learner in distinct(tables[key], "learner"):
            points = [(r[key], r["ms"]) for r in tables[key] if r["learner"] == learner]
            ax.plot(*zip(*points, strict=True), marker="o", label=learner)
        ax.set(xlabel=label, ylabel="ms per sample", xscale="log", yscale="log")
    axes[0].legend()
    figure.savefig(path, dpi=90)
    plt.close(figure)


def import_pyplot():
    """Return matplotlib.pyplot with a backend that needs no display."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


if __name__ == "__main__":
    target = Path(sys.argv[1])
    write_report(json.loads((target / "results.json").read_text()), target)
