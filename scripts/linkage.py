"""What a shared library needs of the machine that loads it, read from its bytes, and the tag that says so of a Python wheel.

Linux: a library runs where glibc has the versions of the symbols it names (`objdump -T` shows them as GLIBC_2.34). PEP 600 calls that
`manylinux_2_34`. It also demands that nothing else be needed than libraries which every distribution of that age has, libstdc++ and
libgcc_s among them; their symbols have versions of their own, and the table below says which glibc they came with.

macOS: the library says which release it was built for. Tags know only whole releases from 11 on, so 11.3 becomes 12.0.
"""

import re
import struct
from pathlib import Path

from package_extension import read_footer

# glibc's minor version, and the newest symbols of libstdc++ and libgcc_s in distributions of that age: the policies of auditwheel.
RUNTIMES = [
    (17, {"GLIBCXX": (3, 4, 19), "CXXABI": (1, 3, 7), "GCC": (4, 7)}),
    (24, {"GLIBCXX": (3, 4, 22), "CXXABI": (1, 3, 10), "GCC": (4, 8)}),
    (27, {"GLIBCXX": (3, 4, 24), "CXXABI": (1, 3, 11), "GCC": (7,)}),
    (31, {"GLIBCXX": (3, 4, 28), "CXXABI": (1, 3, 12), "GCC": (7,)}),
    (34, {"GLIBCXX": (3, 4, 29), "CXXABI": (1, 3, 13), "GCC": (7,)}),
    (35, {"GLIBCXX": (3, 4, 30), "CXXABI": (1, 3, 13), "GCC": (12,)}),
    (39, {"GLIBCXX": (3, 4, 33), "CXXABI": (1, 3, 15), "GCC": (14,)}),
]
OLDEST = RUNTIMES[0][0]
EVERYWHERE = re.compile(r"lib(c|m|dl|rt|util|pthread|gcc_s|stdc\+\+)\.so\.\d+|ld-linux-[\w-]+\.so\.\d+")
ELF_MACHINES = {62: "x86_64", 183: "aarch64"}
MACH_MACHINES = {0x01000007: "x86_64", 0x0100000C: "arm64"}


class Library:
    """`system` is linux or macos, `machine` as in tags; `needed` are names of libraries, `versions` those of symbols they must have (Linux),
    `minimum` is the release of macOS."""

    def __init__(self, system, machine, needed, versions=(), minimum=None):
        self.system = system
        self.machine = machine
        self.needed = needed
        self.versions = versions
        self.minimum = minimum

    def platform(self):
        """DuckDB's name of the platform."""
        system = "osx" if self.system == "macos" else self.system
        return f"{system}_{'amd64' if self.machine == 'x86_64' else 'arm64'}"

    def host_linked(self):
        """Whether it looks for a DuckDB beside it instead of containing what it uses of it."""
        return any(re.search(r"(^|/)(lib|_)duckdb[^/]*$", name) for name in self.needed)


def read(data):
    """What the library in `data` needs; ValueError when it is none that is known here."""
    try:
        if data[:4] == b"\x7fELF":
            return _read_elf(data)
        if data[:4] == b"\xcf\xfa\xed\xfe":
            return _read_mach(data)
    except (struct.error, KeyError, ValueError) as error:
        raise ValueError(f"the library cannot be read: {error!r}") from None
    raise ValueError("neither an ELF nor a 64-bit Mach-O library")


def read_shippable(path, host_linked=False):
    """The bytes of a packaged extension, its footer's fields and what its library needs. One that is linked to the DuckDB of this machine
    is refused, as it loads nowhere else, unless it is asked for."""
    data = Path(path).read_bytes()
    footer = read_footer(data)
    if footer is None:
        raise ValueError(f"{path} has no footer; scripts/package_extension.py writes it")
    try:
        library = read(data)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if footer["platform"] != library.platform():
        raise ValueError(f"{path}: the footer says {footer['platform']}, the library is for {library.platform()}")
    if library.host_linked() and not host_linked:
        raise ValueError(
            f"{path} is linked to the DuckDB of this machine ({', '.join(library.needed)}) and loads nowhere else; `make dist` builds the "
            f"one to ship, --host-linked takes this one for a test here"
        )
    return data, footer, library


def _text(data, offset):
    return data[offset : data.index(b"\0", offset)].decode()


def _read_elf(data):
    if data[4:6] != b"\x02\x01":
        raise ValueError("not a little-endian 64-bit ELF library")
    machine = struct.unpack_from("<H", data, 18)[0]
    if machine not in ELF_MACHINES:
        raise ValueError(f"machine {machine} is not known")
    table, size, count = *struct.unpack_from("<Q", data, 32), *struct.unpack_from("<HH", data, 54)
    segments = [struct.unpack_from("<IIQQQQ", data, table + size * i) for i in range(count)]

    def offset(address):
        for kind, _, start, virtual, _, length in segments:
            if kind == 1 and virtual <= address < virtual + length:
                return address - virtual + start
        raise ValueError(f"address {address:#x} is in no segment")

    entries = []
    for kind, _, start, _, _, length in segments:
        if kind == 2:
            entries = list(struct.iter_unpack("<qQ", data[start : start + length // 16 * 16]))
    # The list ends with a null entry; what follows is room for tools.
    entries = entries[: next((i for i, (tag, _) in enumerate(entries) if tag == 0), len(entries))]
    dynamic = dict(entries)
    strings = offset(dynamic[5])
    needed = [_text(data, strings + value) for tag, value in entries if tag == 1]
    versions = set()
    if 0x6FFFFFFE in dynamic:
        place = offset(dynamic[0x6FFFFFFE])
        for _ in range(dynamic[0x6FFFFFFF]):
            _, names, _, first, following = struct.unpack_from("<HHIII", data, place)
            entry = place + first
            for _ in range(names):
                name, after = struct.unpack_from("<II", data, entry + 8)
                versions.add(_text(data, strings + name))
                entry += after
            place += following
    return Library("linux", ELF_MACHINES[machine], needed, sorted(versions))


def _read_mach(data):
    machine, _, _, commands = struct.unpack_from("<IIII", data, 4)
    if machine not in MACH_MACHINES:
        raise ValueError(f"machine {machine:#x} is not known")
    needed, minimum, place = [], None, 32
    for _ in range(commands):
        kind, size = struct.unpack_from("<II", data, place)
        if size < 8:
            raise ValueError("a load command of no length")
        # LC_LOAD_DYLIB and its weak and re-exporting kinds, LC_VERSION_MIN_MACOSX, LC_BUILD_VERSION
        if kind & 0x7FFFFFFF in (0x0C, 0x18, 0x1F):
            needed.append(_text(data, place + struct.unpack_from("<I", data, place + 8)[0]))
        elif kind in (0x24, 0x32):
            packed = struct.unpack_from("<I", data, place + (8 if kind == 0x24 else 12))[0]
            minimum = (packed >> 16, packed >> 8 & 0xFF)
        place += size
    return Library("macos", MACH_MACHINES[machine], needed, minimum=minimum)


def platform_tag(library):
    """The platform tag of a wheel, and what kept it from being one that works on other machines too (None when nothing did)."""
    if library.system == "macos":
        if library.minimum is None:
            raise ValueError("the library does not say which macOS it needs")
        major, minor = library.minimum
        if major >= 11:
            major, minor = major + (minor > 0), 0
        return f"macosx_{major}_{minor}_{library.machine}", None
    foreign = sorted(name for name in library.needed if not EVERYWHERE.fullmatch(name))
    if foreign:
        return f"linux_{library.machine}", f"it needs {', '.join(foreign)}"
    oldest = OLDEST
    for version in library.versions:
        came_with = _came_with(version)
        if came_with is None:
            return f"linux_{library.machine}", f"it needs {version}"
        oldest = max(oldest, came_with)
    return f"manylinux_2_{oldest}_{library.machine}", None


def _came_with(version):
    """The minor version of the first glibc whose distributions have the symbols of `version`, or None."""
    # Relocations in their short form, which ld.so knows since then.
    if version == "GLIBC_ABI_DT_RELR":
        return 36
    family, _, number = version.partition("_")
    if not re.fullmatch(r"\d+(\.\d+)*", number):
        return None
    numbers = tuple(int(part) for part in number.split("."))
    if family == "GLIBC":
        return numbers[1] if numbers[0] == 2 and len(numbers) > 1 else None
    for minor, newest in RUNTIMES:
        # GCC_7.0.0 is GCC_7.
        if family in newest and numbers[: len(newest[family])] <= newest[family]:
            return minor
    return None
