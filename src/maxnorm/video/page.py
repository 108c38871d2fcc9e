"""The page that shows a film with its background and its mask in the browser, while it is read."""

from __future__ import annotations

import threading
import time
from html import escape
from typing import Any

import numpy as np

from maxnorm.core.types import AnyArray
from maxnorm.video.reading import Film

UPDATE_MILLISECONDS = 100
WIDTH = 320  # of each picture on the page, in pixels
MOST_SHOWN = 480  # pixels of height or width that are sent to the browser


class LiveFilm:
    """A film that is judged frame by frame, and its latest pictures, for a page.

    Parameters
    ----------
    film : Film
        The film.
    subtractor : VideoBackground
        Judges the frames and learns from them.
    """

    def __init__(self, film: Film, subtractor: Any) -> None:
        self.film, self.subtractor = film, subtractor
        self.lock = threading.Lock()
        self.feeding = threading.Lock()
        self.n_frames, self.is_ended = 0, False
        self.pictures: tuple[AnyArray, ...] = ()
        self.covered = 0.0
        self.start = time.monotonic()

    def run(self) -> None:
        """Judge all frames, not faster than the film is played."""
        for frame in self.film:
            with self.feeding:
                mask = self.subtractor.apply(frame)
                background = self.subtractor.as_bytes(self.subtractor.background_)
                pictures = (self.subtractor.as_bytes(frame), background, mask)
            with self.lock:
                self.n_frames += 1
                self.pictures, self.covered = pictures, float(np.mean(mask > 0))
            ahead = self.start + self.n_frames / float(self.film.rate) - time.monotonic()
            if ahead > 0.0:
                time.sleep(ahead)
        self.is_ended = True

    @property
    def status(self) -> str:
        """The state of the film in words."""
        if not self.n_frames:
            return "waiting for frames"
        rate = self.n_frames / max(time.monotonic() - self.start, 1e-9)
        ended = "; the film has ended" if self.is_ended else ""
        return f"{self.n_frames:,} frames, {rate:,.0f} per second, {self.covered:.1%} foreground{ended}"


def build_page(document: Any, live: LiveFilm) -> None:
    """Fill the page of one visitor, and keep it up to date.

    Parameters
    ----------
    document : bokeh.document.Document
        The page.
    live : LiveFilm
        The film.
    """
    from bokeh.layouts import column, row
    from bokeh.models import ColumnDataSource, Div
    from bokeh.plotting import figure

    status = Div(text=live.status, width=3 * WIDTH)
    sources, charts = [], []
    for title in ("frame", "background", "foreground"):
        source = ColumnDataSource({"image": []})
        shape: dict[str, Any] = {"x_range": (0, 1), "y_range": (0, 1), "width": WIDTH, "height": WIDTH}
        chart = figure(title=title, tools="", toolbar_location=None, **shape)
        chart.axis.visible, chart.grid.visible = False, False
        chart.image_rgba("image", x=0, y=0, dw=1, dh=1, source=source)
        sources.append(source)
        charts.append(chart)

    def update() -> None:
        with live.lock:
            pictures = live.pictures
        status.text = escape(live.status)
        if not pictures:
            return
        height = round(WIDTH * pictures[0].shape[0] / pictures[0].shape[1])
        for source, chart, picture in zip(sources, charts, pictures, strict=True):
            source.data = {"image": [to_rgba(picture)]}
            chart.height = height + 30  # with the title

    document.title = f"maxnorm watch: {live.film.title}"
    document.add_root(column(Div(text=f"<h2>{escape(live.film.title)}</h2>"), status, row(*charts)))
    document.add_periodic_callback(update, UPDATE_MILLISECONDS)
    update()


def to_rgba(picture: AnyArray) -> AnyArray:
    """Return a picture as Bokeh wants it: one number of 32 bits per pixel, with the lowest row first.

    Parameters
    ----------
    picture : ndarray of shape (height, width) or (height, width, channels)
        The picture, of bytes.

    Returns
    -------
    uint32 ndarray of shape (height, width)
        The picture, reduced to what a page needs.
    """
    step = max(1, max(picture.shape[:2]) // MOST_SHOWN)
    picture = picture[::step, ::step].reshape(*picture[::step, ::step].shape[:2], -1)
    rgba = np.full((*picture.shape[:2], 4), 255, dtype=np.uint8)
    rgba[..., :3] = picture
    return np.ascontiguousarray(rgba[::-1]).view(np.uint32)[..., 0]
