"""Text: layouts that are recognised, errors that explain, endless lines, and input that arrives live."""

import gzip
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from maxnorm import open_stream
from maxnorm.streams import StreamError, text_files

READ_AND_PRINT = """
from maxnorm import open_stream
stream = open_stream("-")
print("opened", flush=True)
for batch in stream:
    print(batch.tolist(), flush=True)
"""


def write(path, text, **options):
    path.write_text(text, **options)
    return path


def rows(stream):
    return np.concatenate(list(stream)).tolist()


# -- layouts ------------------------------------------------------------------------------------------


def test_decimal_commas_are_read_with_a_remark(tmp_path):
    path = write(tmp_path / "x.csv", "t;x\n0,5;-3,14\n1;2,5e3\n;NA\n")
    stream = open_stream(path)
    assert stream.names == ("t", "x")
    assert "decimal commas" in stream.remarks[0]
    np.testing.assert_array_equal(rows(stream), [[0.5, -3.14], [1, 2500], [np.nan, np.nan]])
    assert rows(open_stream(write(tmp_path / "x.tsv", "1,5\t2,5\n3\t4,25\n"))) == [[1.5, 2.5], [3, 4.25]]


def test_a_decimal_comma_in_quotes_is_read(tmp_path):
    assert rows(open_stream(write(tmp_path / "x.csv", '1;2\n"1,5";3\n'))) == [[1, 2], [1.5, 3]]


@pytest.mark.parametrize("cells", ["1,234;5,678", "1,5;2.5", "1.234,5;2,5"])
def test_commas_with_two_meanings_are_refused_with_a_remedy(cells, tmp_path):
    path = write(tmp_path / "x.csv", f"a;b\n{cells}\n")
    with pytest.raises(StreamError, match=r"line 2, column .* is not a number: its comma .* decimal points"):
        rows(open_stream(path))


def test_a_line_of_units_is_left_out_with_a_remark(tmp_path):
    path = write(tmp_path / "x.csv", "time,temp\ns,°C\n0,20.5\n1,21\n", encoding="utf-8")
    stream = open_stream(path)
    assert stream.names == ("time", "temp")
    assert "line 2 holds units ('s', '°C') and is left out" in stream.remarks[0]
    assert rows(stream) == [[0, 20.5], [1, 21]]
    assert rows(open_stream(path, header=True)) == [[0, 20.5], [1, 21]]
    with pytest.raises(StreamError, match="line 1, column 0: 'time' is not a number"):
        rows(open_stream(path, header=False))


def test_samples_after_a_sample_of_words_are_not_taken_for_units(tmp_path):
    path = write(tmp_path / "x.csv", "name,value\nBob,\nAnn,3\n")
    assert rows(open_stream(path, columns="value", header=True))[1] == [3]
    assert not open_stream(path, columns="value", header=True).remarks


@pytest.mark.parametrize("delimiter", [";", ",", "\t", "|"])
def test_the_delimiter_that_a_file_for_excel_names_is_used(delimiter, tmp_path):
    lines = [f"sep={delimiter}", delimiter.join("ab"), delimiter.join("12"), delimiter.join("34")]
    stream = open_stream(write(tmp_path / "x.csv", "\n".join(lines)))
    assert stream.names == ("a", "b")
    assert rows(stream) == [[1, 2], [3, 4]]


def test_a_line_break_within_quotes_is_explained(tmp_path):
    path = write(tmp_path / "x.csv", 'a,b\n1,2\n3,4\n5,"6\n7"\n')
    with pytest.raises(StreamError, match=r"line 4: a quoted cell contains a line break"):
        rows(open_stream(path))
    with pytest.raises(StreamError, match="line 1: a quoted cell contains a line break"):
        open_stream(write(tmp_path / "y.csv", '"temp\n(C)",b\n1,2\n'))


def test_text_that_is_not_utf_8_is_explained(tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes("time,temp\ns,°C\n0,20.5\n".encode("latin-1"))
    with pytest.raises(StreamError, match=r"x\.csv: is not text in UTF-8 \(it has the byte 0xb0\)"):
        open_stream(path)


# -- bounded memory -----------------------------------------------------------------------------------


def test_an_endless_line_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "LONGEST_LINE", 10_000)
    with gzip.open(tmp_path / "x.csv.gz", "wt") as file:
        file.write("1,2\n3,4\n" + "5" * 20_000)
    batches = iter(open_stream(tmp_path / "x.csv.gz"))
    assert next(batches).tolist() == [[1, 2], [3, 4]]
    with pytest.raises(StreamError, match=r"x\.csv\.gz: a line has more than 10000 characters"):
        next(batches)


def test_long_lines_are_parsed_in_blocks_and_batches_keep_their_size(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "BLOCK_CHARACTERS", 1000)
    path = write(tmp_path / "x.csv", "a,b\n" + "".join(f"{i},{i + 1}{' ' * 300}\n" for i in range(50)))
    assert [len(batch) for batch in open_stream(path, batch_size=20)] == [20, 20, 10]


def test_a_text_file_with_too_many_columns_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "MOST_COLUMNS", 100)
    with pytest.raises(StreamError, match="line 1: has more than the 100 columns"):
        open_stream(write(tmp_path / "x.csv", "1," * 200 + "1\n"))


@pytest.mark.parametrize("begin", ["", "1,2\n3,4\n"])
def test_very_many_empty_lines_are_refused(begin, tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "MOST_EMPTY_LINES", 1000)
    path = write(tmp_path / "x.csv", begin + "\n" * 5000)
    with pytest.raises(StreamError, match="more than 1000 empty lines"):
        rows(open_stream(path, batch_size=100))


# -- live input ---------------------------------------------------------------------------------------


def start_reader():
    return subprocess.Popen(
        [sys.executable, "-c", READ_AND_PRINT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def send(process, text):
    process.stdin.write(text)
    process.stdin.flush()


def test_a_row_of_standard_input_is_yielded_although_no_further_row_arrives():
    with start_reader() as process:
        send(process, "a,b\n1,2\n")
        assert process.stdout.readline() == "opened\n"
        assert process.stdout.readline() == "[[1.0, 2.0]]\n"  # while standard input is open and silent
        send(process, "3,")
        send(process, "4\n")
        assert process.stdout.readline() == "[[3.0, 4.0]]\n"
        send(process, "5,6")  # a last line without a line end
        process.stdin.close()
        assert process.stdout.readline() == "[[5.0, 6.0]]\n"


def test_a_program_may_end_while_standard_input_is_open():
    code = "from maxnorm import open_stream; print(next(iter(open_stream('-'))).tolist())"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        send(process, "1,2\n3,4\n")
        assert process.wait(timeout=60) == 0
        assert process.stderr.read() == ""
        assert process.stdout.read() == "[[1.0, 2.0], [3.0, 4.0]]\n"


def test_closed_standard_input_is_explained(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(StreamError, match="standard input is closed; pass the path of a file"):
        open_stream("-")


def test_standard_input_in_memory_is_read(monkeypatch):
    import io

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbfa,b\r\n1,2\r\n\r\n3,4")))
    stream = open_stream("-")
    assert stream.names == ("a", "b")
    assert rows(stream) == [[1, 2], [3, 4]]
    with pytest.raises(StreamError, match="standard input: can be read once only"):
        rows(stream)


@pytest.fixture
def pipe(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


def write_slowly(path, *parts):
    def run():
        with path.open("wb", buffering=0) as file:
            for part in parts:
                if isinstance(part, bytes):
                    file.write(part)
                else:
                    time.sleep(part)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_a_batch_of_a_pipe_ends_half_a_second_after_its_first_row(pipe):
    thread = write_slowly(pipe, b"1,2\n3,4\n", 2.0, b"5,6\n7,", b"8\n")
    assert [batch.tolist() for batch in open_stream(pipe)] == [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]
    thread.join()


def test_with_header_given_the_first_line_of_a_pipe_is_enough(pipe):
    thread = write_slowly(pipe, b"a,b\n", 2.0, b"1,2\n")
    begin = time.monotonic()
    stream = open_stream(pipe, header=True)
    assert time.monotonic() < begin + 1.9
    assert stream.names == ("a", "b")
    assert rows(stream) == [[1, 2]]
    thread.join()


def test_errors_in_a_pipe_come_after_the_rows_before_them(pipe):
    thread = write_slowly(pipe, b"1,2\n3,4\n5,six\n")
    batches = iter(open_stream(pipe))
    assert next(batches).tolist() == [[1, 2], [3, 4]]
    with pytest.raises(StreamError, match="line 3, column 1: 'six'"):
        next(batches)
    thread.join()


def test_units_and_characters_that_are_cut_in_two_are_read_from_a_pipe(pipe):
    cut = "time,temp\ns,°C\n0,20.5\n".encode()
    at = cut.index("°".encode()) + 1
    thread = write_slowly(pipe, cut[:at], 0.2, cut[at:])
    stream = open_stream(pipe)
    assert "'°C'" in stream.remarks[0]
    assert rows(stream) == [[0, 20.5]]
    thread.join()
