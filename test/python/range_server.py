"""A small HTTP server of the files of a directory: byte ranges, a delay before each answer, and counts of what was asked.

Stands in for an object store in tests and benchmarks, where only latency, requests and bytes matter.
"""

import http.server
import os
import re
import threading
import time
from pathlib import Path


class RangeServer:
    """Serves `directory` on loopback until closed; use it as a context manager."""

    def __init__(self, directory, delay=0.0, etags=True):
        self.directory = Path(directory)
        self.delay = delay
        self.etags = etags
        self.lock = threading.Lock()
        self.reset()
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # small writes of headers and body must not wait for each other's acknowledgement
            disable_nagle_algorithm = True
            wbufsize = -1

            def log_message(self, *_):
                pass

            def do_HEAD(self):
                owner.answer(self, body=False)

            def do_GET(self):
                owner.answer(self, body=True)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def reset(self):
        """Forgets the counts so far."""
        with self.lock:
            self.requests, self.bytes, self.log = 0, 0, []

    def answer(self, handler, body):
        time.sleep(self.delay)
        path = self.directory / handler.path.lstrip("/").split("?")[0]
        if not path.is_file():
            handler.send_error(404)
            return
        size = path.stat().st_size
        start, end = 0, size
        wanted = re.fullmatch(r"bytes=(\d*)-(\d*)", handler.headers.get("Range", ""))
        if wanted and body:
            first, last = wanted.groups()
            if first:
                start, end = int(first), min(size, int(last) + 1 if last else size)
            else:
                start = max(0, size - int(last))
            if start >= end:
                handler.send_error(416)
                return
        with self.lock:
            self.requests += 1
            self.bytes += end - start if body else 0
            self.log.append((handler.command, start, end))
        handler.send_response(206 if wanted and body else 200)
        handler.send_header("Content-Length", str(end - start))
        handler.send_header("Accept-Ranges", "bytes")
        if self.etags:
            handler.send_header("ETag", f'"{os.stat(path).st_mtime_ns}-{size}"')
        handler.send_header("Last-Modified", self.server_date(path))
        if wanted and body:
            handler.send_header("Content-Range", f"bytes {start}-{end - 1}/{size}")
        handler.end_headers()
        if body:
            with path.open("rb") as file:
                file.seek(start)
                left = end - start
                while left:
                    part = file.read(min(left, 1 << 20))
                    handler.wfile.write(part)
                    left -= len(part)
        handler.wfile.flush()

    @staticmethod
    def server_date(path):
        return time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(path.stat().st_mtime))

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
