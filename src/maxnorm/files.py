"""Files that are replaced as a whole: readers see either the previous content or the complete new one."""

from __future__ import annotations

import os
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import BinaryIO

if sys.platform != "win32":  # on Windows, a file that is open cannot be removed and needs no lock
    import fcntl

LONGEST_PREFIX = 40  # characters of a file name that its temporary files repeat, because names are limited


def check_replaceable(path: Path) -> Path:
    """Return the path without symbolic links, or raise an error if no file can be written there.

    Devices, pipes and sockets are refused, because a file that replaces them would destroy them, and so are
    files without permission to write, which the permissions of the folder would allow to replace.

    Parameters
    ----------
    path : Path
        The file to write. A symbolic link stands for the file that it points to.

    Returns
    -------
    Path
        The absolute path.

    Raises
    ------
    OSError
        If the folder does not exist or is read-only, or if the path is neither free nor an ordinary file
        with permission to write.
    """
    try:
        path = path.resolve()
        if path.is_symlink():  # Python 3.13 resolves a circle of links without an error
            raise OSError("it is a circle of links")
        mode = path.stat().st_mode if path.exists() else None
    except (OSError, RuntimeError) as error:  # a circle of links, or a folder that may not be entered
        raise OSError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}") from error
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: {path.parent} is not a folder; create it first")
    if mode is not None and stat.S_ISDIR(mode):
        raise IsADirectoryError(f"cannot write {path}: it is a folder; name a file")
    if mode is not None and not stat.S_ISREG(mode):
        raise OSError(f"cannot write {path}: it is a device or a pipe; name an ordinary file")
    if mode is not None and not os.access(path, os.W_OK):
        raise PermissionError(
            f"cannot write {path}: it is read-only; change its permissions or name another file"
        )
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(
            f"cannot write {path}: {path.parent} is read-only; name a file in another folder"
        )
    return path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield the path of a new temporary file, which replaces ``path`` if the block raises no exception.

    The temporary file is in the same folder and has a name of its own, so that any number of threads and
    processes can write to one path: the last one to finish wins. It is flushed to disk before it replaces
    ``path``, and keeps the permissions of the file that it replaces. Temporary files that processes have
    left behind because they were killed are removed.

    Parameters
    ----------
    path : Path
        The file to write. A symbolic link stays, and the file that it points to is replaced.

    Yields
    ------
    Path
        The temporary file, which exists and is empty.
    """
    path = check_replaceable(path)
    _remove_stale_files(path)
    with _create_temporary_file(path) as file:
        part = Path(file.name)
        try:
            if path.exists():
                part.chmod(stat.S_IMODE(path.stat().st_mode))
            yield part
            os.fsync(file.fileno())
            if sys.platform == "win32":
                file.close()  # because Windows cannot rename an open file
            part.replace(path)
        except BaseException:
            file.close()
            part.unlink(missing_ok=True)
            raise
    _flush_folder(path.parent)


def _prefix(path: Path) -> str:
    return f".{path.name[:LONGEST_PREFIX]}."


def _create_temporary_file(path: Path) -> BinaryIO:
    """Return a new file that is open and locked, which shows others that its process is alive."""
    while True:
        file = path.with_name(f"{_prefix(path)}{secrets.token_hex(8)}.part").open("xb")
        if sys.platform != "win32":
            with suppress(OSError):  # some network file systems have no locks
                fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:
            return file
        file.close()  # another process took the file for a stale one before it was locked


def _remove_stale_files(path: Path) -> None:
    """Remove the temporary files for ``path`` whose processes have ended."""
    for part in path.parent.glob(f"{escape(_prefix(path))}*.part"):
        with suppress(OSError):  # a living process has the file open, or the file is gone already
            if sys.platform == "win32":
                part.unlink()
            else:
                with open(os.open(part, os.O_WRONLY | os.O_NOFOLLOW), "wb") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    part.unlink()


def _flush_folder(folder: Path) -> None:
    """Flush the renaming to disk, on systems where folders can be flushed."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
