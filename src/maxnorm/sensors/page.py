"""The page that shows a live log in the browser: a Bokeh server on the loopback interface."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from maxnorm.sensors.watching import WINDOW, LiveLog

UPDATE_MILLISECONDS = 500
SHOWN_ALARMS, SHOWN_CHANGES = 20, 5
BLUE, ORANGE, RED = "#1f6feb", "#bf8700", "#d1242f"


def build_page(document: Any, log: LiveLog, title: str) -> None:
    """Fill the page of one visitor, and keep it up to date."""
    from bokeh.layouts import column, row
    from bokeh.models import ColumnDataSource, Div, Select, Span
    from bokeh.plotting import figure

    series = ColumnDataSource({"row": [], "value": [], "expected": []})
    marks = ColumnDataSource({"row": [], "value": []})
    scores = ColumnDataSource({"row": [], "score": []})
    status = Div(text="waiting for rows", width=900)
    select = Select(title="sensor", value="", options=[], width=250)

    shape: dict[str, Any] = {"width": 900, "x_axis_label": "row", "tools": "pan,wheel_zoom,reset,save"}
    chart = figure(title="latest rows", height=280, **shape)
    chart.line("row", "value", source=series, color=BLUE, legend_label="value")
    chart.line("row", "expected", source=series, color=ORANGE, line_dash="dashed", legend_label="expected")
    chart.scatter("row", "value", source=marks, color=RED, size=7, legend_label="anomaly")
    chart.legend.location, chart.legend.orientation = "top_left", "horizontal"
    below = figure(title="score; below zero is an alarm", height=180, x_range=chart.x_range, **shape)
    below.line("row", "score", source=scores, color=BLUE)
    below.add_layout(Span(location=0.0, dimension="width", line_color=RED, line_dash="dashed"))
    alarms = Div(text="", width=900, styles={"font-size": "13px"})

    def update() -> None:
        shown = snapshot(log, select.value)
        if shown is None:
            return
        if select.options != shown["names"]:
            select.options = shown["names"]
            select.value = select.value or shown["names"][0]
        status.text = shown["status"]
        series.data, marks.data = shown["series"], shown["marks"]
        scores.data, alarms.text = shown["scores"], shown["alarms"]

    document.title = f"maxnorm watch: {title}"
    document.add_root(
        column(Div(text=f"<h2>{escape(title)}</h2>"), status, row(select), chart, below, alarms)
    )
    document.add_periodic_callback(update, UPDATE_MILLISECONDS)
    update()


def snapshot(log: LiveLog, sensor: str) -> dict[str, Any] | None:
    """Return what the page shows of a log; None before the first row."""
    with log.lock:
        if not log.n_rows:
            return None
        names, n_rows, n_alarms = log.names, log.n_rows, log.n_alarms
        j = names.index(sensor) if sensor in names else 0
        values = np.array([one[j] for one in log.values])
        expected = np.array([one[j] for one in log.expected])
        wrong = np.array([one[j] for one in log.wrong])
        decisions = np.array(log.decisions)
        recent = list(log.alarms)[-SHOWN_ALARMS:][::-1]
        changes = list(log.changed_rows)
    rows = n_rows - len(values) + 1 + np.arange(len(values))
    ended = "; the input has ended" if log.is_ended else ""
    last = ", ".join(f"{change:,}" for change in changes[-SHOWN_CHANGES:])
    last_change = f"; the process has changed at row {last}" if changes else ""
    return {
        "names": names,
        "status": f"<b>{n_rows:,}</b> rows, {log.rate:,.0f} per second, <b>{n_alarms:,}</b> alarms"
        + escape(last_change + ended)
        + f" (the last {min(WINDOW, n_rows)} rows are shown)",
        "series": {"row": rows, "value": values, "expected": expected},
        "marks": {"row": rows[wrong], "value": values[wrong]},
        "scores": {"row": rows, "score": decisions},
        "alarms": table_of_alarms(recent),
    }


def table_of_alarms(alarms: list[dict[str, Any]]) -> str:
    """Return alarms as a table."""
    rows = [("row", "time", "what")]
    rows += [(f"{alarm['row']:,}", alarm.get("time", ""), describe(alarm)) for alarm in alarms]
    style = "padding: 2px 14px 2px 0; vertical-align: top"
    lines = ["".join(f'<td style="{style}">{escape(cell)}</td>' for cell in row) for row in rows]
    return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def describe(alarm: dict[str, Any]) -> str:
    """Return an alarm in words."""
    if alarm["kind"] == "change":
        words = {
            "new": "the process has changed",
            "turn": "the relations have changed",
            "drift": "slow drift",
        }
        return words[alarm["change"]]
    if alarm["kind"] == "stuck":
        return f"{alarm['sensor']} is stuck"
    parts = [
        f"{entry['sensor']}: {entry['value']} instead of about {entry['expected']}"
        for entry in alarm["entries"]
    ]
    return "; ".join(parts)
