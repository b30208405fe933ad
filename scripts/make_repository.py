#!/usr/bin/env python3
"""Lay out packaged extensions as a repository that DuckDB installs from: a folder, or a web server over it.

    <folder>/<DuckDB version>/<platform>/pensieve.duckdb_extension.gz
    <folder>/.well-known/duckdb-extension-repo.json      the keys that sign it

Version and platform come from the footers. What the folder holds of other releases and platforms stays, and so do keys that it lists.
"""

import argparse
import gzip
import json
import sys
from pathlib import Path

from linkage import read_shippable
from package_extension import write_whole
from sign_extension import compact, is_signed_by, public_key, sign

NAME = "pensieve.duckdb_extension.gz"
METADATA = Path(".well-known", "duckdb-extension-repo.json")


def add(folder, extension, key=None, private_key=None, host_linked=False):
    """Write one extension to its place and return that. `key` is the public key (PEM) that its signature must have."""
    data, footer, _ = read_shippable(extension, host_linked)
    if private_key:
        data = sign(data, private_key)
    if key and not is_signed_by(data, key):
        raise ValueError(f"{extension} is not signed with this key; sign it with scripts/sign_extension.py")
    place = Path(folder, footer["duckdb_version"], footer["platform"], NAME)
    write_whole(place, gzip.compress(data, compresslevel=6, mtime=0))
    return place


def describe(folder, key=None, url=None):
    """Write what DuckDB reads about the repository: the keys that sign it, and where it is for a host that is named instead of it."""
    path = Path(folder) / METADATA
    known = json.loads(path.read_text()) if path.exists() else {}
    keys = known.get("signature_keys", [])
    if key and compact(key) not in keys:
        keys.append(compact(key))
    description = {"version": 1, **({"repository_url": url} if url else {}), "signature_keys": keys}
    write_whole(path, (json.dumps({**known, **description}, indent=2) + "\n").encode())
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("extensions", nargs="+", help="packaged .duckdb_extension files, of any DuckDB releases and platforms")
    parser.add_argument("--output", required=True, help="the folder of the repository")
    keys = parser.add_mutually_exclusive_group()
    keys.add_argument("--private-key", help="PEM file of an RSA key of 2048 bits that signs the extensions")
    keys.add_argument("--public-key", help="PEM file of the key that signed them already")
    parser.add_argument("--url", help="where the folder will be served, as https://...: for CREATE EXTENSION REPOSITORY <host>")
    parser.add_argument("--host-linked", action="store_true", help="take an extension that is linked to the DuckDB of this machine too")
    arguments = parser.parse_args()
    try:
        key = public_key(arguments.private_key) if arguments.private_key else None
        key = Path(arguments.public_key).read_text() if arguments.public_key else key
        if not key and (Path(arguments.output) / METADATA).exists():
            raise ValueError(f"{arguments.output} is signed; add to it with --private-key or --public-key")
        for extension in arguments.extensions:
            print(add(arguments.output, extension, key, arguments.private_key, arguments.host_linked))
        if key or arguments.url:
            print(describe(arguments.output, key, arguments.url))
    except (OSError, ValueError) as error:
        sys.exit(f"make_repository: {error}")


if __name__ == "__main__":
    main()
