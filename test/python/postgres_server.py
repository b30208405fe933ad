"""A PostgreSQL server on loopback for tests, in a temporary directory. Debian's package is enough; it needs no running service."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path


def _programs():
    places = [Path(place) for place in os.environ.get("PATH", "").split(os.pathsep)]
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for place in places:
        # a directory of links may have some of them only
        place = (place / "initdb").resolve().parent
        if all((place / program).exists() for program in ("initdb", "postgres", "psql")):
            return place
    return None


class Postgres:
    """Starts on construction; `RuntimeError` says why it cannot."""

    def __init__(self):
        programs = _programs()
        if programs is None:
            raise RuntimeError("PostgreSQL is not installed (initdb and postgres in PATH or /usr/lib/postgresql)")
        self.programs = programs
        # the server refuses to run as root
        self.user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []
        self.directory = tempfile.mkdtemp(prefix="pensieve-postgres-")
        data = os.path.join(self.directory, "data")
        os.mkdir(data)
        self.process = None
        try:
            if self.user:
                shutil.chown(self.directory, "postgres")
                shutil.chown(data, "postgres")
            self._run("initdb", "--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", "-D", data)
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self.port = probe.getsockname()[1]
            self.process = subprocess.Popen(
                [*self.user, str(programs / "postgres"), "-D", data, "-h", "127.0.0.1", "-p", str(self.port)]
                + ["-c", "fsync=off", "-c", "max_connections=200", "-k", data],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
            )
            self._wait()
        except (LookupError, OSError, subprocess.CalledProcessError) as error:
            self.stop()
            raise RuntimeError(f"PostgreSQL does not start: {error}") from error

    def _run(self, program, *arguments):
        command = [*self.user, str(self.programs / program), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, cwd="/")

    def _wait(self):
        for _ in range(300):
            try:
                self.sql("postgres", "SELECT 1")
                return
            except subprocess.CalledProcessError:
                time.sleep(0.1)
        raise OSError("no answer within 30 seconds")

    def sql(self, database, statement):
        arguments = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-d", database, "-qAt"]
        return self._run("psql", *arguments, "-v", "ON_ERROR_STOP=1", "-c", statement).stdout

    def database(self, name):
        """The address of a new, empty database."""
        self.sql("postgres", f'CREATE DATABASE "{name}"')
        return f"postgres://postgres@127.0.0.1:{self.port}/{name}"

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)
