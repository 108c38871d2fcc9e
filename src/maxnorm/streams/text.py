"""Streams over text: CSV and TSV, compressed or not, from files and from standard input."""

from __future__ import annotations

import csv
import gzip
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from maxnorm._typing import Array
from maxnorm.streams.stream import Columns, Stream, StreamError, batch_rows, chosen

MISSING = {"", "na", "nan", "n/a", "null", "none", "?"}
LIVE_ROWS = 1000  # lines of standard input that are waited for before they are handed on
HEAD = 100  # lines from which the layout is told, and the number of lines estimated


def text_stream(path: Path | None, *, batch_size: int | None, columns: Columns, transpose: bool) -> Stream:
    """A file of numbers separated by commas, tabs, semicolons or blanks; None is standard input."""
    title = "standard input" if path is None else str(path)
    if path is None or not path.is_file():  # it can be read once only, so that its beginning is kept
        if transpose:
            raise StreamError(
                f"{title}: can be read by rows only; save it as a file to take columns for samples"
            )
        lines = _opened(path)
        beginning = list(islice(lines, 2))
        table = _Table.of(beginning, title, columns)
        rows = batch_size or LIVE_ROWS
        return table.stream(
            lambda start: table.blocks(chain(beginning, lines), start, rows), repeatable=False
        )

    with _opened(path) as lines:
        beginning = list(islice(lines, HEAD))
    if transpose:
        table = _Table.of(beginning, title, columns=None)
        return _transposed(path, table, _count(path, beginning), batch_size, columns)
    table = _Table.of(beginning, title, columns)
    rows = batch_rows(batch_size, table.width)

    def source(start: int) -> Iterator[Array]:
        with _opened(path) as lines:
            yield from table.blocks(lines, start, rows)

    return table.stream(source, n_expected=_count(path, beginning))


def _transposed(
    path: Path, table: _Table, rows: int | None, batch_size: int | None, columns: Columns
) -> Stream:
    """Samples in columns: the file is read once for every batch of them."""
    size = batch_rows(batch_size, rows or 1)
    positions = np.arange(table.width) if table.picked is None else table.picked

    def source(start: int) -> Iterator[Array]:
        for i in range(start, len(positions), size):
            part = replace(table, picked=positions[i : i + size])
            with _opened(path) as lines:
                batch = np.concatenate(list(part.blocks(lines, 0, 1000))).T
            picked, _ = chosen(columns, None, batch.shape[1], table.title)
            yield np.ascontiguousarray(batch if picked is None else batch[:, picked])

    return Stream(source, table.title, n_samples=len(positions), remarks=table.remarks)


@dataclass(frozen=True)
class _Table:
    """How a file of numbers is laid out."""

    delimiter: str | None  # None: any run of blanks
    width: int
    first: int  # lines before the first sample
    picked: np.ndarray | None
    title: str
    names: tuple[str, ...] | None = None
    remarks: tuple[str, ...] = ()

    @classmethod
    def of(cls, head: Sequence[str], title: str, columns: Columns) -> _Table:
        filled = [(i, line.lstrip("\ufeff")) for i, line in enumerate(head) if line.strip()][:2]
        if not filled:
            raise StreamError(f"{title}: is empty")
        delimiter = _delimiter([line for _, line in filled])
        fields = [_split(line, delimiter) for _, line in filled]
        width = len(fields[0])
        numbers = [[_number(cell) is not None for cell in row] for row in fields]
        if len(fields) > 1:
            header = any(not a and b for a, b in zip(*numbers, strict=False))
        else:
            header = not any(numbers[0])
        names = [cell.strip() for cell in fields[0]] if header else None
        remarks: tuple[str, ...] = ()
        if columns is None and names and not names[0] and all(names[1:]) and width > 1:
            columns = slice(1, None)
            remarks = (f"{title}: the first column has no name and is taken for row labels",)
        picked, kept = chosen(columns, names, width, title)
        return cls(delimiter, width, filled[0][0] + header, picked, title, kept, remarks)

    def stream(self, source: Callable[[int], Iterator[Array]], **known: Any) -> Stream:
        """Return the stream of what ``source`` reads by this layout."""
        width = self.width if self.picked is None else len(self.picked)
        return Stream(source, self.title, n_features=width, names=self.names, remarks=self.remarks, **known)

    def blocks(self, lines: Iterable[str], start: int, size: int) -> Iterator[Array]:
        """Yield blocks of ``size`` lines, without the first ``start`` samples."""
        number = self.first + 1  # of the next line, counted from 1
        lines = islice(lines, self.first, None)
        while block := list(islice(lines, size)):
            samples = self._parsed(block, number)
            number += len(block)
            if start < len(samples):
                yield samples[start:]
            start = max(0, start - len(samples))

    def _parsed(self, lines: list[str], number: int) -> Array:
        delimiter = self.delimiter
        if delimiter is not None and all(line.count(delimiter) == self.width - 1 for line in lines):
            text = "".join(lines)
            if '"' not in text:
                try:
                    block = np.loadtxt(
                        _filled(text, delimiter).splitlines(),
                        delimiter=delimiter,
                        comments=None,
                        usecols=None if self.picked is None else self.picked.tolist(),
                        ndmin=2,
                    )
                except ValueError:
                    pass  # something is not a number: find out what
                else:
                    if len(block) == len(lines):
                        return block
        return self._parsed_with_care(lines, number)

    def _parsed_with_care(self, lines: list[str], number: int) -> Array:
        wanted = range(self.width) if self.picked is None else self.picked
        rows = []
        for i, line in enumerate(lines, start=number):
            if not line.strip():
                continue
            cells = _split(line, self.delimiter)
            if len(cells) != self.width:
                raise StreamError(
                    f"{self.title}, line {i}: {len(cells)} columns where {self.width} are expected"
                )
            row = [_number(cells[j]) for j in wanted]
            if None in row:
                j = wanted[row.index(None)]
                raise StreamError(
                    f"{self.title}, line {i}, column {j}: {cells[j].strip()!r} is not a number; "
                    "leave missing entries empty, or choose columns that are numbers"
                )
            rows.append(row)
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(wanted))


def _opened(path: Path | None) -> TextIO:
    """Return lines of a file, compressed or not, or of standard input."""
    if path is None:
        return sys.stdin
    if _is_zipped(path):
        return gzip.open(path, "rt", encoding="utf-8-sig")
    return path.open(encoding="utf-8-sig")


def _is_zipped(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as raw:
        return raw.read(2) == b"\x1f\x8b"


def _delimiter(lines: list[str]) -> str | None:
    for candidate in "\t;,":
        counts = {line.count(candidate) for line in lines if '"' not in line} or {
            len(_split(line, candidate)) - 1 for line in lines
        }
        if 0 not in counts and len(counts) == 1:
            return candidate
    for candidate in "\t;,":  # the lines disagree, which is found out when they are read
        if candidate in lines[0]:
            return candidate
    return None


def _split(line: str, delimiter: str | None) -> list[str]:
    return line.split() if delimiter is None else next(csv.reader([line.rstrip("\r\n")], delimiter=delimiter))


def _number(cell: str) -> float | None:
    cell = cell.strip()
    if cell.lower() in MISSING:
        return float("nan")
    try:
        return float(cell)
    except ValueError:
        return None


def _filled(text: str, delimiter: str) -> str:
    """Return the lines with nan in place of nothing."""
    text = "\n" + text.replace("\r", "").rstrip("\n") + "\n"
    for before, after in (
        (delimiter, delimiter),
        (delimiter, delimiter),
        ("\n", delimiter),
        (delimiter, "\n"),
    ):
        text = text.replace(before + after, f"{before}nan{after}")
    return text[1:]


def _count(path: Path, head: Sequence[str]) -> int | None:
    """Estimate the number of lines from the length of the first ones; not for compressed files."""
    return None if _is_zipped(path) else round(path.stat().st_size / (sum(map(len, head)) / len(head)))
