"""Files are replaced as a whole, and only files are replaced."""

import os
import signal
import stat
import subprocess
import sys
import threading
import time

import pytest

from maxnorm.files import check_replaceable, replacing


def write(path, text):
    with replacing(path) as part:
        part.write_text(text)


def write_and_interrupt(path):
    with replacing(path) as part:
        part.write_text("half")
        raise KeyboardInterrupt


def parts(folder):
    return list(folder.glob(".*.part"))


def test_a_file_is_written_and_replaced(tmp_path):
    for text in ("first", "second"):
        write(tmp_path / "a.txt", text)
        assert (tmp_path / "a.txt").read_text() == text
    assert os.listdir(tmp_path) == ["a.txt"]


def test_an_error_leaves_the_previous_file(tmp_path):
    write(tmp_path / "a.txt", "first")
    with pytest.raises(KeyboardInterrupt):
        write_and_interrupt(tmp_path / "a.txt")
    assert (tmp_path / "a.txt").read_text() == "first"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_permissions_are_kept_and_otherwise_follow_the_umask(tmp_path):
    (tmp_path / "a.txt").touch(0o600)
    (tmp_path / "b.txt").touch()  # as any program would create it
    write(tmp_path / "a.txt", "private")
    write(tmp_path / "c.txt", "new")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes["a.txt"] == 0o600
    assert modes["c.txt"] == modes["b.txt"]


def test_a_link_stays_and_its_target_is_replaced(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder" / "a.txt")
    write(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "folder" / "a.txt").read_text() == "text"


def test_pipes_devices_and_links_to_them_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    (tmp_path / "null").symlink_to(os.devnull)
    for name in ("pipe", "link", "null"):
        with pytest.raises(OSError, match="it is a device or a pipe; name an ordinary file"):
            write(tmp_path / name, "text")
    assert (tmp_path / "pipe").is_fifo()
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


def test_folders_missing_folders_and_circles_of_links_are_refused(tmp_path):
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        check_replaceable(tmp_path)
    with pytest.raises(FileNotFoundError, match="is not a folder; create it first"):
        check_replaceable(tmp_path / "missing" / "a.txt")
    with pytest.raises(OSError, match="cannot write"):
        check_replaceable(tmp_path / "circle")


def test_files_and_folders_without_permission_to_write_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.touch()
    for protected in (path, tmp_path):
        # Permissions do not bind root, as whom the tests may run.
        monkeypatch.setattr(os, "access", lambda asked, _, protected=protected: asked != protected)
        with pytest.raises(PermissionError, match=f"cannot write {path}: .* is read-only"):
            write(path, "text")


def test_very_long_names_can_be_written(tmp_path):
    write(tmp_path / ("ä" * 125), "text")
    assert len(os.listdir(tmp_path)) == 1


def test_threads_that_write_to_one_file_leave_one_whole_file(tmp_path):
    texts = [str(i) * 100_000 for i in range(8)]
    seen, errors = set(), []

    def write_often(text):
        try:
            for _ in range(20):
                write(tmp_path / "a.txt", text)
                seen.add((tmp_path / "a.txt").read_text())
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=write_often, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert seen <= set(texts)
    assert os.listdir(tmp_path) == ["a.txt"]


WRITE_AND_WAIT = """
import sys, time
from pathlib import Path
from maxnorm.files import replacing
with replacing(Path("a.txt")) as part:
    part.write_text("half")
    print("ready", flush=True)
    time.sleep(600)
"""


def test_the_remains_of_a_killed_process_are_removed_but_not_those_of_a_living_one(tmp_path):
    killed, alive = (
        subprocess.Popen([sys.executable, "-c", WRITE_AND_WAIT], cwd=tmp_path, stdout=subprocess.PIPE)
        for _ in range(2)
    )
    for process in (killed, alive):
        assert process.stdout.readline() == b"ready\n"
    assert len(parts(tmp_path)) == 2
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    write(tmp_path / "a.txt", "whole")
    assert len(parts(tmp_path)) == 1
    alive.send_signal(signal.SIGKILL)
    alive.wait()
    for process in (killed, alive):
        process.stdout.close()
    write(tmp_path / "a.txt", "whole again")
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_temporary_file_that_is_taken_for_a_stale_one_is_created_again(tmp_path, monkeypatch):
    import fcntl

    taken = []

    def remove_first(file, operation):
        if not taken:
            taken.append(os.unlink(file.name))

    monkeypatch.setattr(fcntl, "flock", remove_first)
    write(tmp_path / "a.txt", "text")
    assert taken
    assert (tmp_path / "a.txt").read_text() == "text"


def test_a_reader_never_sees_half_a_file(tmp_path):
    path, stop = tmp_path / "a.txt", time.monotonic() + 1.0
    texts = {"a" * 200_000, "b" * 300_000}
    write(path, next(iter(texts)))
    seen = set()

    def read():
        while time.monotonic() < stop:
            seen.add(path.read_text())

    reader = threading.Thread(target=read)
    reader.start()
    while reader.is_alive():
        for text in texts:
            write(path, text)
    reader.join()
    assert seen <= texts
