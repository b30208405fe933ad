#!/usr/bin/env python3
"""Sign a packaged extension with an RSA key of 2048 bits of one's own.

The last 256 bytes of the file are its signature (see package_extension.py). DuckDB hashes what precedes them in pieces of 1 MiB, hashes
those hashes, and verifies that hash with the keys of the repository that the file was installed from: RSA with PKCS #1 padding, SHA-256.
`openssl` does the arithmetic here.
"""

import argparse
import hashlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from package_extension import SIGNATURE_BYTES, read_footer, write_whole

CHUNK_BYTES = 1 << 20


def signed_hash(data):
    """What is signed of `data`, a whole file: 32 bytes."""
    end = len(data) - SIGNATURE_BYTES
    chunks = (data[start : min(start + CHUNK_BYTES, end)] for start in range(0, end, CHUNK_BYTES))
    return hashlib.sha256(b"".join(hashlib.sha256(chunk).digest() for chunk in chunks)).digest()


def openssl(*arguments, given=b""):
    try:
        done = subprocess.run(["openssl", *map(str, arguments)], input=given, capture_output=True, check=False)
    except FileNotFoundError:
        raise ValueError("signing needs the command openssl, which is not installed") from None
    if done.returncode:
        raise ValueError(f"openssl {arguments[0]}: {done.stderr.decode(errors='replace').strip() or 'failed'}")
    return done.stdout


def public_key(private_key):
    """The public half of the PEM file `private_key`, as PEM text."""
    return openssl("pkey", "-in", private_key, "-pubout").decode()


def compact(pem):
    """A public key as repositories list it: the base64 text of its PEM form on one line."""
    return re.sub(r"-----[^-]+-----|\s", "", pem)


def sign(data, private_key):
    """`data`, a packaged extension, with the signature of the PEM file `private_key` instead of the one it had."""
    if read_footer(data) is None:
        raise ValueError("the file has no footer; scripts/package_extension.py writes it")
    prehashed = ("-pkeyopt", "digest:sha256", "-pkeyopt", "rsa_padding_mode:pkcs1")
    digest = signed_hash(data)
    signature = openssl("pkeyutl", "-sign", "-inkey", private_key, *prehashed, given=digest)
    if len(signature) != SIGNATURE_BYTES:
        raise ValueError(f"{private_key} makes signatures of {len(signature)} bytes; DuckDB takes those of RSA keys of 2048 bits")
    return data[:-SIGNATURE_BYTES] + signature


def is_signed_by(data, pem):
    """Whether the public key `pem` verifies the signature of `data`, as DuckDB does."""
    with tempfile.TemporaryDirectory() as directory:
        key, signature = Path(directory, "key.pem"), Path(directory, "signature")
        key.write_text(pem)
        signature.write_bytes(data[-SIGNATURE_BYTES:])
        options = ("-pubin", "-inkey", key, "-sigfile", signature, "-pkeyopt", "digest:sha256")
        try:
            openssl("pkeyutl", "-verify", *options, given=signed_hash(data))
        except ValueError:
            return False
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("extension", help="a packaged .duckdb_extension, signed in place unless --output is given")
    parser.add_argument("--private-key", required=True, help="PEM file: openssl genrsa -out key.pem 2048")
    parser.add_argument("--output", help="where to write the signed file")
    arguments = parser.parse_args()
    try:
        signed = sign(Path(arguments.extension).read_bytes(), arguments.private_key)
        output = arguments.output or arguments.extension
        write_whole(output, signed, mode=0o755)
        print(output)
    except (OSError, ValueError) as error:
        sys.exit(f"sign_extension: {arguments.extension}: {error}")


if __name__ == "__main__":
    main()
