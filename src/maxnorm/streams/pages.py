"""Pages in the browser: a Bokeh server on the loopback interface."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from maxnorm.streams.stream import needs


def start_server(build: Callable[[Any], object], port: int, when_ready: Callable[[str], object]) -> Any:
    """Start a server with one page, and return it.

    Parameters
    ----------
    build : callable
        Fills the document of a visitor.
    port : int
        Port on 127.0.0.1; 0 means any free one.
    when_ready : callable
        Called with the address of the page.

    Returns
    -------
    bokeh.server.server.Server
        The server; its ``io_loop`` must be started.
    """
    port = port or free_port()
    server_class = needs("bokeh.server.server", "the page of maxnorm watch", "view").Server
    server = server_class(
        {"/": build},
        port=port,
        address="127.0.0.1",
        allow_websocket_origin=[f"127.0.0.1:{port}", f"localhost:{port}"],
    )
    server.start()
    when_ready(f"http://127.0.0.1:{port}/")
    return server


def free_port() -> int:
    """Return a port of this machine that is free."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
