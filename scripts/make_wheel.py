#!/usr/bin/env python3
"""Put a packaged extension into a Python wheel: `pip install` it, and `duckdb_extension_pensieve.connect()` has it loaded.

The wheel has the layout of the `duckdb-extension-*` packages: `extensions/<DuckDB version>/<file>`, and it requires that release of DuckDB.
What it is for comes from the extension: DuckDB's release and ours from its footer, the platform tag from what its library needs.

The version is DuckDB's followed by ours: 2.0.1.0.1.0 is pensieve 0.1.0 for DuckDB 2.0.1. So every release of both has a wheel of its own,
the newest is the newest DuckDB's, and `==2.0.1.*` is the newest for one DuckDB. The same extension makes the same bytes.
"""

import argparse
import base64
import hashlib
import io
import re
import sys
import zipfile
from pathlib import Path

from linkage import platform_tag, read_shippable
from package_extension import write_whole

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "duckdb_extension_pensieve"
NAME = "pensieve.duckdb_extension"
# A zip file has no earlier date.
DATE = (1980, 1, 1, 0, 0, 0)
METADATA = """\
Metadata-Version: 2.4
Name: {package}
Version: {version}
Summary: The DuckDB extension pensieve: logs, traces and metrics as immutable columnar extents
License-Expression: MIT
License-File: LICENSE
Classifier: Programming Language :: Python :: 3
Classifier: Topic :: Database
Requires-Python: >=3.9
Requires-Dist: duckdb=={duckdb}
Description-Content-Type: text/markdown

# pensieve for DuckDB {duckdb}

```python
import duckdb_extension_pensieve as pensieve

db = pensieve.connect()
db.sql("COPY (SELECT now() - INTERVAL (range) SECOND AS ts FROM range(1000)) TO 'logs.tlm'")
db.sql("SELECT count(*) FROM 'logs.tlm'")
```

`connect` takes what `duckdb.connect` takes. This is pensieve {ours}; it works with DuckDB {duckdb} alone.
"""
WHEEL = """\
Wheel-Version: 1.0
Generator: pensieve make_wheel
Root-Is-Purelib: false
Tag: py3-none-{tag}
"""
BUILT_FOR = '''\
"""What the extension in this package was built for."""

VERSION = "{ours}"
DUCKDB_VERSION = "{duckdb}"
PLATFORM = "{platform}"
'''


def python_version(text):
    """A version as Cargo has it in the form that Python has it in: 0.2.0-beta.1 is 0.2.0b1."""
    found = re.fullmatch(r"v?(\d+(?:\.\d+)*)(?:-(alpha|beta|rc)\.?(\d+))?", text)
    if not found:
        raise ValueError(f"version {text!r} has no counterpart in Python; it must look like 0.2.0, 0.2.0-beta.1 or 0.2.0-rc.1")
    release, phase, number = found.groups()
    return release + ({"alpha": "a", "beta": "b", "rc": "rc"}[phase] + str(int(number)) if phase else "")


def record_line(name, data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


def wheel(data, footer, tag):
    """The file name and the bytes of the wheel of an extension."""
    duckdb = footer["duckdb_version"].removeprefix("v")
    ours = python_version(footer["extension_version"])
    version = f"{duckdb}.{ours}"
    values = {"package": PACKAGE, "version": version, "duckdb": duckdb, "ours": ours, "platform": footer["platform"], "tag": tag}
    info = f"{PACKAGE}-{version}.dist-info"
    sources = sorted((ROOT / "python" / PACKAGE).glob("*.py"))
    members = [(f"{PACKAGE}/{source.name}", source.read_bytes()) for source in sources]
    members += [
        (f"{PACKAGE}/_built_for.py", BUILT_FOR.format(**values).encode()),
        (f"{PACKAGE}/extensions/v{duckdb}/{NAME}", data),
        (f"{info}/METADATA", METADATA.format(**values).encode()),
        (f"{info}/WHEEL", WHEEL.format(**values).encode()),
        (f"{info}/licenses/LICENSE", (ROOT / "LICENSE").read_bytes()),
    ]
    record = f"{info}/RECORD"
    members.append((record, ("".join(record_line(*member) for member in members) + f"{record},,\n").encode()))
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            member = zipfile.ZipInfo(name, DATE)
            member.compress_type = zipfile.ZIP_DEFLATED
            member.external_attr = 0o100644 << 16
            archive.writestr(member, content)
    return f"{PACKAGE}-{version}-py3-none-{tag}.whl", stream.getvalue()


def make(extension, output, host_linked=False):
    """Write the wheel of the file `extension` into the folder `output`; its path, and what keeps it on this machine."""
    data, footer, library = read_shippable(extension, host_linked)
    tag, why_here_only = platform_tag(library)
    name, content = wheel(data, footer, tag)
    path = Path(output) / name
    write_whole(path, content)
    return path, why_here_only


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("extension", help="a packaged .duckdb_extension")
    parser.add_argument("--output", required=True, help="the folder to write the wheel into")
    parser.add_argument("--host-linked", action="store_true", help="take an extension that is linked to the DuckDB of this machine too")
    arguments = parser.parse_args()
    try:
        path, why_here_only = make(arguments.extension, arguments.output, arguments.host_linked)
        print(path)
        if why_here_only:
            print(f"note: this wheel is for machines like this one: {why_here_only}", file=sys.stderr)
    except (OSError, ValueError) as error:
        sys.exit(f"make_wheel: {error}")


if __name__ == "__main__":
    main()
