"""Turn the results of bench.py into a Markdown page and plots.

python benchmarks/report.py docs/benchmarks     # once more from results.json
"""

import json
import sys
from pathlib import Path

LABELS = {
    "samples": "samples seen",
    "features": "features (10 components)",
    "components": "components (400 features)",
}


def write_report(results, folder):
    """Write README.md, curves.png and scaling.png next to results.json."""
    draw_curves(results["compared"], folder / "curves.png")
    draw_scaling(results["scaling"], folder / "scaling.png")
    machine = results["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["packages"].items() if version)
    command = "python benchmarks/bench.py" + (" --quick" if results["quick"] else "")
    lines = [
        "# Benchmarks",
        "",
        f"`{command}` on {machine['date']}: {machine['processor']}, {machine['cores']} cores, Python "
        f"{machine['python']}; {versions}.",
        "One BLAS thread unless said otherwise. Read ratios rather than milliseconds: the machine is shared.",
        "",
        "Expressed variance (EV) of the true subspace; time of the solve alone; the most memory held",
        "beside the data (streams: over the first 1,000 samples); samples and seconds after which EV 0.5,",
        "0.8 and 0.95 are passed. 400 features; entries of the signal are below 1 and errors up to 1000",
        "unless the name says otherwise. Batch methods see all samples at once. A stream that takes more",
        "than a minute is stopped.",
        "",
        "![expressed variance against samples and seconds](curves.png)",
    ]
    if results["missing"]:
        lines += ["", f"Not installed, left out: {', '.join(results['missing'])}."]
    for problem in dict.fromkeys(record["problem"] for record in results["compared"]):
        lines += [
            "",
            f"## {problem}",
            "",
            *compared([r for r in results["compared"] if r["problem"] == problem]),
        ]
    lines += [
        "",
        "## How it scales",
        "",
        "![milliseconds a sample](scaling.png)",
        "",
        *scaled(results["scaling"]),
    ]
    (folder / "README.md").write_text("\n".join(lines) + "\n")


def compared(records):
    """Return the table of one problem."""
    ours = records[0]["ms"]
    yield "| method | EV | samples | ms a sample | times ours | MB | to EV 0.5 | 0.8 | 0.95 |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for r in records:
        goals = " | ".join(
            f"{at[0]}, {at[1]:.2f} s" if (at := r["reached"][goal]) else "-"
            for goal in ("0.5", "0.8", "0.95")
        )
        memory = "-" if r["megabytes"] is None else f"{r['megabytes']:.1f}"
        samples = f"{r['samples']} (stopped)" if r["stopped"] else f"{r['samples']}"
        times = f"{r['ms']:.3f} | {r['ms'] / ours:.1f}"
        yield f"| {r['method']} | {r['ev']:.4f} | {samples} | {times} | {memory} | {goals} |"
    better = [f"{r['method']} ({r['ev']:.4f})" for r in records[1:] if r["ev"] > records[0]["ev"] + 0.0002]
    faster = [r["method"] for r in records[1:] if r["ms"] < 0.95 * ours]
    yield ""
    yield f"More accurate than `MaxNormDecomposition` here: {', '.join(better) or 'none'}."
    yield f"Faster: {', '.join(faster) or 'none'}."


def scaled(tables):
    """Return the tables of growth."""
    yield "Time and memory against the number of samples (400 features, 20 components):"
    yield ""
    yield "| learner | samples seen | ms a sample since the row before | MB held |"
    yield "|---|---|---|---|"
    for r in tables["samples"]:
        yield f"| {r['learner']} | {r['samples']} | {r['ms']:.3f} | {r['megabytes']:.1f} |"
    yield ""
    yield "BLAS threads, seconds for 1,000 samples with `MaxNormDecomposition`:"
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
        yield (
            f"- Film of 76,800 pixels, 5 components, single precision, `{r['learner']}`, {r['with']}: "
            f"{r['learning']:.0f} frames a second learning, {r['reading']:.0f} reading."
        )
    for r in tables["single"]:
        yield f"- A row of 50 features a call, `{r['learner']}`: {r['microseconds']:.0f} µs with validation."


def draw_curves(records, path):
    """Draw expressed variance against samples and against seconds."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    problems = list(dict.fromkeys(record["problem"] for record in records))
    names = list(dict.fromkeys(record["method"] for record in records))
    colours = dict(
        zip(names, plt.get_cmap("tab20").colors[::2] + plt.get_cmap("tab20").colors[1::2], strict=False)
    )
    figure, axes = plt.subplots(
        2, len(problems), figsize=(3.4 * len(problems), 6.4), sharey=True, layout="constrained", squeeze=False
    )
    for column, problem in zip(axes.T, problems, strict=True):
        for r in records:
            if r["problem"] != problem:
                continue
            samples, seconds, ev = zip(*r["curve"], strict=True)
            mark = "o" if len(samples) == 1 else ""
            column[0].plot(samples, ev, color=colours[r["method"]], marker=mark, label=r["method"])
            column[1].plot(seconds, ev, color=colours[r["method"]], marker=mark)
        column[0].set(title=problem.replace(", ", ",\n"), xlabel="samples", ylim=(0, 1.02))
        column[1].set(xlabel="seconds", xscale="log")
    for row in axes:
        row[0].set_ylabel("expressed variance")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    figure.savefig(path, dpi=80)
    plt.close(figure)


def draw_scaling(tables, path):
    """Draw milliseconds a sample against what grows."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    for ax, (key, label) in zip(axes, LABELS.items(), strict=True):
        for learner in dict.fromkeys(r["learner"] for r in tables[key]):
            points = [(r[key], r["ms"]) for r in tables[key] if r["learner"] == learner]
            ax.plot(*zip(*points, strict=True), marker="o", label=learner)
        ax.set(xlabel=label, ylabel="ms a sample", xscale="log", yscale="log")
    axes[0].legend()
    figure.savefig(path, dpi=90)
    plt.close(figure)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    write_report(json.loads((target / "results.json").read_text()), target)
