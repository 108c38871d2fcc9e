"""One self-contained page with all figures, their numbers and the verdicts."""

from __future__ import annotations

import base64
import html
import json
from pathlib import Path
from typing import Any

from maxnorm import __version__
from maxnorm.paper.reproduce.cells import Cell
from maxnorm.paper.reproduce.claims import Claim, judge
from maxnorm.paper.reproduce.figures import Results, draw
from maxnorm.paper.reproduce.plan import FIGURES, METHODS

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem }
img { max-width: 100% } table { border-collapse: collapse; margin: 1rem 0 } summary { cursor: pointer }
td, th { border: 1px solid #ccc; padding: .2rem .6rem; text-align: left } .agree { color: #0a7d32 }
.disagree { color: #b00020 } .partly { color: #a66300 }
"""


def write(figures: dict[str, Results], size: str, repetitions: int, folder: Path) -> Path:
    """Write results.json, the figures as PNG and SVG, and index.html; return the page."""
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    parts: list[str] = []
    shown: dict[Cell, list[str]] = {}
    for name, results in figures.items():
        figure = draw(name, results)
        for kind in ("png", "svg"):
            figure.savefig(folder / "figures" / f"{name}.{kind}", dpi=100)
        figure.clear()
        for cell in results:
            shown.setdefault(cell, []).append(name)
        parts.append(_section(name, results, folder))
    everything = {cell: result for results in figures.values() for cell, result in results.items()}
    rows = (
        json.dumps({"figures": names, "kind": c.kind, **dict(c.settings), "result": everything[c]})
        for c, names in shown.items()
    )
    head = json.dumps({"version": __version__, "size": size, "repetitions": repetitions})
    (folder / "results.json").write_text(f'{head[:-1]}, "cells": [\n' + ",\n".join(rows) + "\n]}\n")
    page = folder / "index.html"
    page.write_text(
        "<!doctype html><html lang=en><meta charset=utf-8><title>maxnorm reproduce</title>"
        f"<style>{STYLE}</style>"
        f"<h1>Online max-norm regularisation, reproduced</h1><p>maxnorm {__version__}, size <b>{size}</b>, "
        f"{repetitions} repetition(s). Data in <code>results.json</code>, one cell an entry.</p>"
        + "".join(parts)
        + "</html>"
    )
    return page


def _section(name: str, results: Results, folder: Path) -> str:
    picture = base64.b64encode((folder / "figures" / f"{name}.png").read_bytes()).decode()
    verdicts = "".join(_row(claim) for claim in judge(name, results))
    table = f"<table><tr><th>the paper<th>verdict<th>measured</tr>{verdicts}</table>" if verdicts else ""
    numbers = "".join(
        f"<tr><td>{html.escape(', '.join(f'{k}={_short(v)}' for k, v in cell.settings))}"
        f"<td>{html.escape(', '.join(f'{k}={_short(v)}' for k, v in result.items()))}</tr>"
        for cell, result in results.items()
    )
    return (
        f"<h2>{html.escape(FIGURES[name])}</h2><img alt='{html.escape(FIGURES[name])}' "
        f"src='data:image/png;base64,{picture}'>{table}"
        f"<details><summary>the numbers</summary><table>{numbers}</table></details>"
    )


def _row(claim: Claim) -> str:
    statement, verdict, evidence = (html.escape(text) for text in claim)
    return f"<tr><td>{statement}<td class={verdict}>{verdict}<td>{evidence}</tr>"


def _short(value: Any) -> str:
    if isinstance(value, list):
        return f"... {_short(value[-1])}" if value else "none"
    if isinstance(value, float):
        return f"{value:.4g}"
    return METHODS.get(value, str(value)) if isinstance(value, str) else str(value)
