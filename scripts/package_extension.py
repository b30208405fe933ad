#!/usr/bin/env python3
"""Turn a shared library into a loadable DuckDB extension by appending DuckDB's metadata footer.

The footer is 534 bytes, laid out as a WebAssembly custom section so that one format serves every platform:

    22 bytes   section header: id 0, payload length 531 (LEB128), name length 16, "duckdb_signature", length 512 (LEB128)
    256 bytes  eight 32-byte fields, zero padded: 8, 7, 6 (unused), 5 ABI, 4 extension version, 3 DuckDB version,
               2 platform, 1 magic "4"
    256 bytes  signature; zeros for an unsigned file

DuckDB reads the last 512 bytes of the file. It refuses an extension whose platform or DuckDB version differs from its
own, which is what we want of a C++ ABI extension: loaded into another version it would crash.
"""

import argparse
import os
import re
import sys
import tempfile
from pathlib import Path

FIELD_BYTES = 32
SIGNATURE_BYTES = 256
SECTION_NAME = b"duckdb_signature"
MAGIC = "4"
FOOTER_BYTES = 534
ABI_TYPES = ("CPP", "C_STRUCT", "C_STRUCT_UNSTABLE")


def leb128(value):
    """Unsigned LEB128, the integer encoding of WebAssembly sections."""
    encoded = bytearray()
    while True:
        low, value = value & 0x7F, value >> 7
        encoded.append(low | (0x80 if value else 0))
        if not value:
            return bytes(encoded)


def field(text):
    encoded = text.encode()
    if len(encoded) > FIELD_BYTES:
        raise ValueError(f"footer field {text!r} is longer than {FIELD_BYTES} bytes")
    if b"\0" in encoded:
        raise ValueError(f"footer field {text!r} contains a NUL byte")
    return encoded.ljust(FIELD_BYTES, b"\0")


def footer(abi, extension_version, duckdb_version, platform):
    """The 534 bytes that follow the shared library."""
    if abi not in ABI_TYPES:
        raise ValueError(f"unknown ABI type {abi!r}, expected one of {', '.join(ABI_TYPES)}")
    if not re.fullmatch(r"v\d+\.\d+\.\d+", duckdb_version):
        raise ValueError(f"DuckDB version {duckdb_version!r} must look like v2.0.0")
    if not platform or not extension_version:
        raise ValueError("platform and extension version must not be empty")
    metadata = b"".join(field(text) for text in ("", "", "", abi, extension_version, duckdb_version, platform, MAGIC))
    payload = metadata + bytes(SIGNATURE_BYTES)
    name = bytes([len(SECTION_NAME)]) + SECTION_NAME
    length = leb128(len(payload))
    # A custom section's length counts all that follows it: the name, then here the inner length and the payload.
    return b"\0" + leb128(len(name) + len(length) + len(payload)) + name + length + payload


def read_footer(data):
    """The footer's fields as a dict, or None when `data` (a whole file) does not end in one."""
    tail = data[-FOOTER_BYTES:]
    if len(tail) != FOOTER_BYTES or tail[4:20] != SECTION_NAME:
        return None
    fields = [tail[22 + i * FIELD_BYTES : 22 + (i + 1) * FIELD_BYTES].rstrip(b"\0").decode() for i in range(8)]
    if fields[7] != MAGIC:
        return None
    return {
        "abi": fields[3],
        "extension_version": fields[4],
        "duckdb_version": fields[5],
        "platform": fields[6],
    }


def package(library, output, abi, extension_version, duckdb_version, platform):
    """Write `library` plus footer to `output`, which appears complete or not at all."""
    data = Path(library).read_bytes()
    if read_footer(data) is not None:
        raise ValueError(f"{library} already has a footer")
    write_whole(output, data + footer(abi, extension_version, duckdb_version, platform), mode=0o755)


def write_whole(output, data, mode=0o644):
    """Write `data` to `output`, which appears complete or not at all."""
    output = Path(output)
    output.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{output.name}.", dir=output.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        os.chmod(temporary, mode)
        os.replace(temporary, output)
    except BaseException:
        os.unlink(temporary)
        raise


def crate_version():
    """`v` and the version in Cargo.toml."""
    manifest = Path(__file__).resolve().parent.parent / "Cargo.toml"
    found = re.search(r'^version\s*=\s*"([^"]+)"', manifest.read_text(), re.M)
    if not found:
        raise ValueError(f"no version in {manifest}")
    return "v" + found.group(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", help="shared library built by cargo")
    parser.add_argument("output", nargs="+", help="one or more .duckdb_extension files to write")
    parser.add_argument("--duckdb-version", required=True, help="the exact DuckDB release, such as v2.0.0")
    platform = parser.add_mutually_exclusive_group(required=True)
    platform.add_argument("--platform", help="DuckDB's name of the platform, such as linux_amd64")
    platform.add_argument("--platform-file", help="file that holds it")
    parser.add_argument("--extension-version", help="default: v and the version in Cargo.toml")
    parser.add_argument("--abi", default="CPP", choices=ABI_TYPES)
    arguments = parser.parse_args()
    name = arguments.platform or Path(arguments.platform_file).read_text().strip()
    try:
        version = arguments.extension_version or crate_version()
        for output in arguments.output:
            package(arguments.library, output, arguments.abi, version, arguments.duckdb_version, name)
            print(output)
    except (OSError, ValueError) as error:
        sys.exit(f"package_extension: {error}")


if __name__ == "__main__":
    main()
