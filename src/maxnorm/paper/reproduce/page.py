"""Write the figures, their numbers and the verdicts on the claims to one self-contained HTML page."""

from __future__ import annotations

import base64
import html
import json
from pathlib import Path
from typing import Any

from maxnorm import __version__
from maxnorm.paper.methods import METHODS
from maxnorm.paper.reproduce.cells import Cell, Results
from maxnorm.paper.reproduce.claims import Claim, judge, spread
from maxnorm.paper.reproduce.figures import draw
from maxnorm.paper.reproduce.plan import FIGURES

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem }
img { max-width: 100% } table { border-collapse: collapse; margin: 1rem 0 } summary { cursor: pointer }
td, th { border: 1px solid #ccc; padding: .2rem .6rem; text-align: left } .agree { color: #0a7d32 }
.disagree { color: #b00020 } .partly { color: #a66300 }
"""


def write(figures: dict[str, Results], size: str, folder: Path) -> Path:
    """Write results.json, the figures as PNG and SVG, and index.html.

    Parameters
    ----------
    figures : dict
        Results of the cells of each figure, by the name of the figure.
    size : str
        Name of the size, a key of ``plan.SIZES``, as it is shown on the page.
    folder : Path
        Folder to write to. It is created if it does not exist.

    Returns
    -------
    Path
        The HTML page.
    """
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    for name, results in figures.items():
        figure = draw(name, results)
        for extension in ("png", "svg"):
            figure.savefig(folder / "figures" / f"{name}.{extension}", dpi=100)
        figure.clear()
    (folder / "results.json").write_text(_format_results(figures, size))
    page = folder / "index.html"
    page.write_text(
        "<!doctype html><html lang=en><meta charset=utf-8><title>maxnorm reproduce</title>"
        f"<style>{STYLE}</style>"
        f"<h1>Online max-norm regularisation, reproduced</h1><p>maxnorm {__version__}, size <b>{size}</b>. "
        f"The data are in <code>results.json</code>, one entry per cell.</p>"
        + "".join(_format_section(name, results, folder) for name, results in figures.items())
        + "</html>"
    )
    return page


def _format_results(figures: dict[str, Results], size: str) -> str:
    """Return JSON with one line per cell, which names the figures that use it."""
    used_in: dict[Cell, list[str]] = {}
    for name, results in figures.items():
        for cell in results:
            used_in.setdefault(cell, []).append(name)
    rows = (
        json.dumps({"figures": names, "kind": c.kind, **dict(c.settings), "result": figures[names[0]][c]})
        for c, names in used_in.items()
    )
    head = json.dumps({"version": __version__, "size": size})
    return f'{head[:-1]}, "cells": [\n' + ",\n".join(rows) + "\n]}\n"


def _format_section(name: str, results: Results, folder: Path) -> str:
    picture = base64.b64encode((folder / "figures" / f"{name}.png").read_bytes()).decode()
    verdicts = "".join(_format_claim(claim) for claim in judge(name, results))
    repeated = _format_spread(spread(results)) if name == "grid" else ""
    table = f"<table><tr><th>the paper<th>verdict<th>measured</tr>{verdicts}</table>" if verdicts else ""
    numbers = "".join(
        f"<tr><td>{html.escape(', '.join(f'{k}={_format_value(v)}' for k, v in cell.settings))}"
        f"<td>{html.escape(', '.join(f'{k}={_format_value(v)}' for k, v in result.items()))}</tr>"
        for cell, result in results.items()
    )
    return (
        f"<h2>{html.escape(FIGURES[name])}</h2><img alt='{html.escape(FIGURES[name])}' "
        f"src='data:image/png;base64,{picture}'>{table}{repeated}"
        f"<details><summary>the numbers</summary><table>{numbers}</table></details>"
    )


def _format_spread(rows: list[tuple[str, ...]]) -> str:
    cells = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}" for cell in row) + "</tr>" for row in rows)
    return f"<p>Means and standard deviations over the repetitions:</p><table>{cells}</table>"


def _format_claim(claim: Claim) -> str:
    statement, verdict, evidence = (html.escape(text) for text in claim)
    return f"<tr><td>{statement}<td class={verdict}>{verdict}<td>{evidence}</tr>"


def _format_value(value: Any) -> str:
    if isinstance(value, list):
        return f"... {_format_value(value[-1])}" if value else "none"
    if isinstance(value, float):
        return f"{value:.4g}"
    return METHODS[value].title if value in METHODS else str(value)
