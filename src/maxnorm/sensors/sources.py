"""Where the rows of a live log come from: standard input, a file that grows, or a local TCP socket."""

from __future__ import annotations

import ipaddress
import os
import socket
import time
from pathlib import Path

from maxnorm.streams.live_lines import LiveLines, RawSource
from maxnorm.streams.stream import StreamError
from maxnorm.streams.text_files import LONGEST_LINE

POLL_SECONDS = 0.1  # how often a file is looked at for new lines
TCP = "tcp://"


def open_source(source: str) -> tuple[LiveLines, str]:
    """Return the lines of a live log, and its title.

    Parameters
    ----------
    source : str
        ``"-"`` for standard input; the path of a file, which is read from its beginning and then followed as
        it grows; or ``tcp://HOST:PORT``, where HOST is a loopback address, on which connections are accepted
        one after the other.

    Returns
    -------
    lines : LiveLines
        The lines.
    title : str
        Name of the source in messages.
    """
    if source == "-":
        return LiveLines(None, "standard input", LONGEST_LINE), "standard input"
    if source.startswith(TCP):
        server, title = listen(source)
        return LiveLines(accepted(server), title, LONGEST_LINE), title
    path = Path(source)
    if path.is_file():
        return LiveLines(followed(path), source, LONGEST_LINE), source
    return LiveLines(path, source, LONGEST_LINE), source  # a pipe


def followed(path: Path) -> RawSource:
    """Return the bytes of a file, and those that are appended to it later; it never ends.

    If the file becomes shorter, because another one has taken its place, it is read from its beginning.
    """
    descriptor = os.open(path, os.O_RDONLY)

    def read(count: int) -> bytes:
        while not (content := os.read(descriptor, count)):
            time.sleep(POLL_SECONDS)
            if os.fstat(descriptor).st_size < os.lseek(descriptor, 0, os.SEEK_CUR):
                os.lseek(descriptor, 0, os.SEEK_SET)
        return content

    return RawSource(read, lambda: os.close(descriptor))


def listen(address: str) -> tuple[socket.socket, str]:
    """Return a socket that listens on a loopback address, and the address with the port in use."""
    host, _, port = address.removeprefix(TCP).rpartition(":")
    host = {"": "127.0.0.1", "localhost": "127.0.0.1"}.get(host, host)
    try:
        is_local, number = ipaddress.ip_address(host).is_loopback, int(port)
    except ValueError as error:
        raise StreamError(f"{address}: is not an address such as tcp://127.0.0.1:9000") from error
    if not is_local:
        raise StreamError(f"{address}: is not an address of this machine alone; use tcp://127.0.0.1:{port}")
    try:
        server = socket.create_server((host, number))
    except OSError as error:
        raise StreamError(f"{address}: cannot be listened on: {error.strerror}; use another port") from error
    return server, f"{TCP}{host}:{server.getsockname()[1]}"


def accepted(server: socket.socket) -> RawSource:
    """Return the bytes of the connections that a socket accepts, one after the other; it never ends.

    A line that a connection leaves incomplete is ended, so that it does not run into the next one.
    """
    connection: socket.socket | None = None

    def read(count: int) -> bytes:
        nonlocal connection
        if connection is None:
            connection, _ = server.accept()
        try:
            content = connection.recv(count)
        except ConnectionError:
            content = b""
        if not content:
            connection.close()
            connection = None
        return content or b"\n"

    return RawSource(read, server.close)
