#!/usr/bin/env python3
"""The repository that scripts/make_repository.py lays out: DuckDB installs from it, unsigned where that is allowed, and signed everywhere."""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import duckdb  # noqa: E402
import make_repository  # noqa: E402
import sign_extension  # noqa: E402
from support import Tally, add_extension_argument, quoted  # noqa: E402


def session(home, **settings):
    """A DuckDB that keeps extensions and repositories in the folder `home`."""
    places = {"extension_directories": [str(home / "extensions")], "extension_repository_directory": str(home / "repositories")}
    return duckdb.connect(config={**places, "autoinstall_known_extensions": "false", **settings})


def rows(connection, sql):
    return connection.execute(sql).fetchall()


def refusal(connection, sql):
    """What DuckDB says against a statement; empty when it runs it."""
    try:
        connection.execute(sql)
    except duckdb.Error as error:
        return str(error)
    return ""


def unsigned(tally, extension, root):
    repository = root / "unsigned"
    place = make_repository.add(repository, extension, host_linked=True)
    with session(root / "allows", allow_unsigned_extensions="true") as connection:
        [(platform,)] = rows(connection, "PRAGMA platform")
        expected = repository / f"v{duckdb.__version__}" / platform / "pensieve.duckdb_extension.gz"
        tally.check("place of the file", expected, place)
        connection.execute(f"INSTALL pensieve FROM {quoted(repository)}")
        connection.execute("LOAD pensieve")
        connection.execute(f"COPY (FROM range(10)) TO {quoted(root / 'logs.tlm')}")
        answer = rows(connection, f"SELECT row_count FROM tlm_metadata({quoted(root / 'logs.tlm')})")
        tally.check("a question after INSTALL and LOAD by name", [(10,)], answer)
    with session(root / "forbids") as connection:
        said = refusal(connection, f"INSTALL pensieve FROM {quoted(repository)}")
        tally.check(f"unsigned where that is not allowed: {said}", True, "valid signature" in said)


def private_key(path, bits=2048):
    sign_extension.openssl("genrsa", "-out", path, bits)
    return path


def signed(tally, extension, root):
    repository = root / "signed"
    key, foreign = private_key(root / "key.pem"), private_key(root / "foreign.pem")
    public = sign_extension.public_key(key)
    make_repository.add(repository, extension, public, key, host_linked=True)
    make_repository.describe(repository, public)

    # The keys are those that the repository lists.
    home = root / "trusts"
    with session(home, allow_extension_repositories="allowed") as connection:
        connection.execute(f"CREATE EXTENSION REPOSITORY mine WITH PREFIX {quoted(repository)}")
        connection.execute("INSTALL pensieve FROM mine")
    # Adding a repository takes a setting, using it does not.
    with session(home) as connection:
        said = refusal(connection, "LOAD pensieve")
        tally.check(f"LOAD that does not name the repository: {said}", True, "not found" in said)
        connection.execute("LOAD pensieve FROM mine")
        answer = rows(connection, f"SELECT row_count FROM tlm_metadata({quoted(root / 'logs.tlm')})")
        tally.check("a question after LOAD from a signed repository", [(10,)], answer)
        allowed = rows(connection, "SELECT current_setting('allow_unsigned_extensions')")
        tally.check("nothing unsigned was allowed", [(False,)], allowed)

    # The key is one that the user got otherwise, and it is another one.
    with session(root / "distrusts", allow_extension_repositories="allowed") as connection:
        other = sign_extension.compact(sign_extension.public_key(foreign))
        connection.execute(f"CREATE EXTENSION REPOSITORY mine WITH PREFIX {quoted(repository)} USING PUBLIC KEY {quoted(other)}")
        said = refusal(connection, "INSTALL pensieve FROM mine")
        tally.check(f"a signature of another key: {said}", True, "valid signature" in said)

    # One byte of the library differs from what was signed.
    changed = bytearray(sign_extension.sign(Path(extension).read_bytes(), key))
    changed[len(changed) // 2] ^= 1
    (root / "changed.duckdb_extension").write_bytes(changed)
    said = ""
    try:
        make_repository.add(repository, root / "changed.duckdb_extension", public, host_linked=True)
    except ValueError as error:
        said = str(error)
    tally.check(f"a changed file, without DuckDB: {said}", True, "not signed with this key" in said)
    make_repository.add(repository, root / "changed.duckdb_extension", host_linked=True)
    with session(root / "careful", allow_extension_repositories="allowed") as connection:
        connection.execute(f"CREATE EXTENSION REPOSITORY mine WITH PREFIX {quoted(repository)}")
        said = refusal(connection, "INSTALL pensieve FROM mine")
        tally.check(f"a changed file: {said}", True, "valid signature" in said)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_extension_argument(parser)
    arguments = parser.parse_args()
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="pensieve-repository-") as directory:
        unsigned(tally, arguments.extension, Path(directory))
        if shutil.which("openssl"):
            signed(tally, arguments.extension, Path(directory))
        else:
            print("skipped: signing, as the command openssl is not installed")
    print(f"{tally.passed} passed, {tally.failed} failed")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
