#!/usr/bin/env python3
"""Queries over one object behind 20 ms of latency: time, requests and bytes, beside DuckDB's `read_parquet` on the same server.

The server is in this process and counts what it is asked. The extension reads it with its own client; DuckDB's reader goes through
a minimal fsspec file system, which sends one request per read that DuckDB asks for.
"""

import argparse
import datetime
import http.client
import statistics
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "test" / "python"))

import fsspec  # noqa: E402
import logs  # noqa: E402
from bench import BASELINE, ENGINES, OURS, queries, same  # noqa: E402
from range_server import RangeServer  # noqa: E402
from support import add_extension_argument, connect, quoted  # noqa: E402

SHOWN = [
    "needle on a unique id",
    "one minute of time",
    "newest 100 errors",
    "semi-join on four ids",
    "count, min and max",
    "group-by string",
    "full-scan aggregate",
]
NEEDLE_REQUESTS = 4
NEEDLE_BYTES = 0.3


class RangeFileSystem(fsspec.AbstractFileSystem):
    """`bench://name`: reads of a file of the server, one request each, over kept connections."""

    protocol = "bench"
    cachable = False

    def __init__(self, server):
        super().__init__()
        self.address = urlsplit(server.url)
        self.idle = []

    def request(self, method, path, headers=None):
        connection = self.idle.pop() if self.idle else http.client.HTTPConnection(self.address.hostname, self.address.port)
        connection.request(method, "/" + path, headers=headers or {})
        answer = connection.getresponse()
        body = answer.read()
        self.idle.append(connection)
        return answer, body

    def info(self, path, **_):
        path = self._strip_protocol(path)
        answer, _ = self.request("HEAD", path)
        if answer.status != 200:
            raise FileNotFoundError(path)
        return {"name": path, "size": int(answer.headers["Content-Length"]), "type": "file"}

    def modified(self, path):
        return datetime.datetime.fromtimestamp(0, datetime.timezone.utc)

    def glob(self, path, **_):
        return [self._strip_protocol(path)]

    def _open(self, path, mode="rb", **_):
        return RangeFile(self, self._strip_protocol(path))


class RangeFile:
    """An open file of a RangeFileSystem, as DuckDB uses one."""

    def __init__(self, files, path):
        self.files, self.path, self.position = files, path, 0
        self.size = files.info(path)["size"]
        self.closed = False

    def seek(self, offset, whence=0):
        self.position = offset + (0, self.position, self.size)[whence]
        return self.position

    def tell(self):
        return self.position

    def seekable(self):
        return True

    def read(self, length=-1):
        end = self.size if length < 0 else min(self.size, self.position + length)
        if end <= self.position:
            return b""
        _, body = self.files.request("GET", self.path, {"Range": f"bytes={self.position}-{end - 1}"})
        self.position = end
        return body

    def close(self):
        self.closed = True


def measure(connection, server, sql, repetitions, forget):
    """Answer, median seconds, and requests and bytes of the first run, for which nothing is cached."""
    seconds = []
    for repetition in range(repetitions):
        if repetition == 0:
            forget()
        server.reset()
        started = time.perf_counter()
        answer = connection.execute(sql).fetchall()
        seconds.append(time.perf_counter() - started)
        if repetition == 0:
            first = (server.requests, server.bytes, seconds[0])
    return answer, first, statistics.median(seconds[1:] or seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_extension_argument(parser)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--delay", type=float, default=0.02, help="seconds before each answer")
    parser.add_argument("--repetitions", type=int, default=4)
    arguments = parser.parse_args()
    connection = connect(arguments.extension)
    logs.create(connection, "logs", arguments.rows)
    engines = {name: ENGINES[name] for name in (BASELINE, OURS, "tlm zstd")}
    with tempfile.TemporaryDirectory(prefix="pensieve-bench-") as directory, RangeServer(directory, arguments.delay) as server:
        for number, (options, _) in enumerate(engines.values()):
            connection.execute(f"COPY logs TO {quoted(Path(directory) / f'{number}.extent')} ({options})")
        todo = dict(queries(connection, arguments.rows))
        connection.execute("DROP TABLE logs")
        connection.register_filesystem(RangeFileSystem(server))
        print(f"{arguments.rows:,} rows, {arguments.delay * 1000:.0f} ms before each answer; cold: first run; warm: median.\n")
        print("| | " + " | ".join(f"{name}: cold | warm | requests | MB" for name in engines) + " |")
        print("|---" * (1 + 4 * len(engines)) + "|")
        needle = {}
        for query in SHOWN:
            cells, answers = [], {}
            for number, (name, (_, function)) in enumerate(engines.items()):
                address = f"bench://{number}.extent" if name == BASELINE else f"{server.url}/{number}.extent"

                def forget():
                    # a file of the same content with a new version: nothing known about it holds
                    (Path(directory) / f"{number}.extent").touch()

                sql = todo[query].replace("@T@", f"{function}({quoted(address)})")
                answers[name], (requests, size, cold), warm = measure(
                    connection, server, sql, arguments.repetitions, forget
                )
                if not same(answers[name], answers[BASELINE]):
                    raise SystemExit(f"{query}: {name} answers differently")
                cells.append(f"{cold:.2f} s | {warm:.2f} s | {requests} | {size / 1e6:.1f}")
                if query == SHOWN[0]:
                    needle[name] = (requests, size)
            print(f"| {query} | " + " | ".join(cells) + " |", flush=True)
    requests, size = needle[OURS]
    share = size / needle[BASELINE][1]
    print("\n| target | at most | measured | |")
    print("|---|---|---|---|")
    print(f"| needle, requests | {NEEDLE_REQUESTS} | {requests} | {'met' if requests <= NEEDLE_REQUESTS else 'missed'} |")
    print(f"| needle, share of bytes | {NEEDLE_BYTES} | {share:.2f} | {'met' if share <= NEEDLE_BYTES else 'missed'} |")


if __name__ == "__main__":
    main()
