"""What the HTML pages of reports share: the style, tables, and the beginning and end of a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from maxnorm import __version__

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #fff; --soft: #6b7280; --line: #e5e7eb;
  --blue: #1f6feb; --red: #d1242f; --grey: #b0b7c3; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --paper: #15181c; --soft: #9aa4b2;
  --line: #2b3138; --blue: #6cb0ff; --red: #ff7b72; --grey: #566070; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 1000px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
table { border-collapse: collapse; font-size: .9rem; } td, th { padding: .2rem .8rem .2rem 0;
  text-align: left; border-bottom: 1px solid var(--line); }
svg { width: 100%; height: auto; } svg text { font: 11px system-ui, sans-serif; fill: var(--soft); }
.before { fill: none; stroke: var(--grey); stroke-width: 1; } .after { fill: none; stroke: var(--blue);
  stroke-width: 1.2; } .wrong { fill: var(--red); } .empty { fill: var(--line); fill-opacity: .5; }
.change { stroke: var(--red); stroke-dasharray: 4 3; } .bar { fill: var(--blue); }
.pictures { display: flex; flex-wrap: wrap; gap: 1rem; }
.picture { width: 180px; height: auto; image-rendering: pixelated; display: block;
  outline: 1px solid var(--line); }
figure { margin: 1rem 0; } figcaption { font-weight: 600; } p.soft { color: var(--soft); }
"""


def make_table(rows: Sequence[Sequence[str]], *, has_header: bool = False) -> str:
    """Return rows of texts as a table, whose first row may be a header."""
    lines = []
    for k, row in enumerate(rows):
        tag = "th" if has_header and k == 0 else "td"
        lines.append("<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row) + "</tr>")
    return "<table>" + "".join(lines) + "</table>"


def make_page(title: str, parts: Iterable[str]) -> str:
    """Return a page that needs no other file and no network."""
    return "\n".join(
        [
            f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}: report</title>',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<style>{STYLE}</style><h1>{escape(title)}</h1>",
            *parts,
            f'<p class="soft">maxnorm {__version__}</p></html>',
        ]
    )


def make_figure(content: str, caption: str = "") -> str:
    """Return a chart or an image with its caption."""
    shown = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f"<figure>{shown}{content}</figure>"


def counted(number: int, noun: str) -> str:
    """Return a number with a noun in the singular or, with the ending -s, in the plural."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
