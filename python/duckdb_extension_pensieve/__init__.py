"""The DuckDB extension pensieve, and connections that have it loaded.

    import duckdb_extension_pensieve as pensieve
    db = pensieve.connect()
"""

import atexit
import shutil
import tempfile
import threading
from pathlib import Path

import duckdb

from ._built_for import DUCKDB_VERSION, PLATFORM, VERSION

__version__ = VERSION
__all__ = ["connect", "extension_directory", "extension_file"]

# Where DuckDB looks when nothing else is set.
_DEFAULT_DIRECTORIES = ["~/.duckdb/extensions"]
_NAME = "pensieve.duckdb_extension"
_links = None
_lock = threading.Lock()


def extension_file():
    """The path of the extension, for LOAD and INSTALL."""
    return str(Path(__file__).resolve().parent / "extensions" / f"v{DUCKDB_VERSION}" / _NAME)


def extension_directory():
    """A directory for DuckDB's setting `extension_directories`, with which `LOAD pensieve` finds the extension of this package.

    DuckDB looks for `<directory>/<version>/<platform>/<file>`, while packages of extensions hold `<version>/<file>`. So this is a
    temporary directory that holds a link to the file; it is removed when the process ends.
    """
    global _links
    with _lock:
        if _links is None:
            _links = tempfile.mkdtemp(prefix="duckdb_extension_pensieve-")
            atexit.register(shutil.rmtree, _links, ignore_errors=True)
        link = Path(_links, f"v{DUCKDB_VERSION}", PLATFORM, _NAME)
        # Anew when something has cleaned it up: the name must stay, as DuckDB compares the settings of connections to one database.
        if not link.exists():
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(extension_file())
        return _links


def _directories(settings):
    """The directories in which DuckDB looks for extensions: those of the settings or the default ones first, for it installs others there."""
    given = settings.get("extension_directories")
    if isinstance(given, str):
        with duckdb.connect() as scratch:
            given = scratch.execute("SELECT CAST(? AS VARCHAR[])", [given]).fetchone()[0]
    if not given:
        given = [] if settings.get("extension_directory") else _DEFAULT_DIRECTORIES
    return [*given, extension_directory()]


def connect(database=":memory:", read_only=False, config=None):
    """`duckdb.connect` with the extension loaded. The extension is not signed by DuckDB, so unsigned ones are allowed."""
    if duckdb.__version__ != DUCKDB_VERSION:
        raise ImportError(
            f"this package has pensieve {VERSION} for DuckDB {DUCKDB_VERSION}, but DuckDB is {duckdb.__version__}; an extension works "
            f"with exactly one release. Run: pip install 'duckdb=={DUCKDB_VERSION}', or, where there is a package for yours: "
            f"pip install 'duckdb-extension-pensieve=={duckdb.__version__}.*'"
        )
    settings = {"allow_unsigned_extensions": "true", **(config or {})}
    settings["extension_directories"] = _directories(settings)
    connection = duckdb.connect(database, read_only=read_only, config=settings)
    try:
        # By its path: by its name, a pensieve that was installed into one of the other directories would be found first.
        connection.execute("LOAD '" + extension_file().replace("'", "''") + "'")
    except BaseException:
        connection.close()
        raise
    return connection
