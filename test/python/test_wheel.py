"""Byte-level tests of wheels, of the tags that libraries earn, of signatures and of the layout of repositories."""

import base64
import csv
import email
import gzip
import hashlib
import io
import json
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import duckdb  # noqa: E402
import linkage  # noqa: E402
import make_repository  # noqa: E402
import make_wheel  # noqa: E402
import package_extension as packer  # noqa: E402
import sign_extension  # noqa: E402

RUNTIME = ("libstdc++.so.6", "libgcc_s.so.1", "libm.so.6", "libc.so.6", "ld-linux-x86-64.so.2")


def elf(needed=RUNTIME, versions=("GLIBC_2.17",), machine=62):
    """A library of one segment that names what it needs, and nothing else."""
    address = 0x10000
    strings = bytearray(b"\0")

    def string(text):
        strings.extend(text.encode() + b"\0")
        return len(strings) - len(text) - 1

    libraries = [string(name) for name in needed]
    names = [string(name) for name in versions]
    start = 64 + 2 * 56
    dynamic_size = 16 * (len(needed) + 4)
    verneed = start + dynamic_size
    # One file needed with all versions; each entry says how far the next one is.
    block = struct.pack("<HHIII", 1, len(names), libraries[0] if libraries else 0, 16, 0)
    for place, name in enumerate(names):
        block += struct.pack("<IHHII", 0, 0, 2, name, 16 if place + 1 < len(names) else 0)
    entries = [(1, name) for name in libraries]
    entries += [(5, address + verneed + len(block)), (0x6FFFFFFE, address + verneed), (0x6FFFFFFF, 1), (0, 0)]
    dynamic = b"".join(struct.pack("<qQ", *entry) for entry in entries)
    content = dynamic + block + bytes(strings)
    total = start + len(content)
    header = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0)
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, address, address, total, total, 0x1000)
    dynamics = struct.pack("<IIQQQQQQ", 2, 6, start, address + start, address + start, len(dynamic), len(dynamic), 8)
    return header + load + dynamics + content


def mach(minimum, machine=0x0100000C, needed=("/usr/lib/libc++.1.dylib",), old=False):
    packed = minimum[0] << 16 | minimum[1] << 8
    commands = [struct.pack("<IIII", 0x24, 16, packed, 0) if old else struct.pack("<IIIIII", 0x32, 24, 1, packed, 0, 0)]
    for name in needed:
        text = name.encode() + b"\0"
        text += bytes(-len(text) % 8)
        commands.append(struct.pack("<IIIIII", 0x0C, 24 + len(text), 24, 0, 0, 0) + text)
    body = b"".join(commands)
    return struct.pack("<IIIIIIII", 0xFEEDFACF, machine, 0, 6, len(commands), len(body), 0, 0) + body


def tag(data):
    return linkage.platform_tag(linkage.read(data))


class Tags(unittest.TestCase):
    def test_glibc(self):
        for versions, expected in (
            (("GLIBC_2.2.5",), "manylinux_2_17"),
            (("GLIBC_2.17", "GLIBC_2.4"), "manylinux_2_17"),
            (("GLIBC_2.9", "GLIBC_2.18"), "manylinux_2_18"),
            (("GLIBC_2.34", "GLIBC_2.4"), "manylinux_2_34"),
            (("GLIBC_2.17", "GLIBC_ABI_DT_RELR"), "manylinux_2_36"),
            (("GLIBC_2.17", "GLIBCXX_3.4.19", "CXXABI_1.3", "GCC_3.0"), "manylinux_2_17"),
            (("GLIBC_2.17", "GLIBCXX_3.4.20"), "manylinux_2_24"),
            (("GLIBC_2.17", "GLIBCXX_3.4.9"), "manylinux_2_17"),
            (("GLIBC_2.28", "GLIBCXX_3.4.29"), "manylinux_2_34"),
            (("GLIBC_2.36", "GLIBCXX_3.4.29", "CXXABI_1.3.11"), "manylinux_2_36"),
            (("GLIBC_2.17", "GCC_7.0.0"), "manylinux_2_27"),
            (("GLIBC_2.17", "CXXABI_1.3.15"), "manylinux_2_39"),
        ):
            with self.subTest(versions=versions):
                self.assertEqual(tag(elf(versions=versions)), (expected + "_x86_64", None))
        self.assertEqual(tag(elf(machine=183)), ("manylinux_2_17_aarch64", None))

    def test_what_other_machines_may_lack(self):
        for needed, versions, why in (
            ((*RUNTIME, "libduckdb.so"), (), "it needs libduckdb.so"),
            ((*RUNTIME, "libz.so.1", "libssl.so.3"), (), "it needs libssl.so.3, libz.so.1"),
            (RUNTIME, ("GLIBCXX_3.4.99",), "it needs GLIBCXX_3.4.99"),
            (RUNTIME, ("GLIBC_PRIVATE",), "it needs GLIBC_PRIVATE"),
            (RUNTIME, ("OPENSSL_3.0.0",), "it needs OPENSSL_3.0.0"),
        ):
            with self.subTest(why=why):
                self.assertEqual(tag(elf(needed, versions)), ("linux_x86_64", why))

    def test_macos(self):
        for library, expected in (
            (mach((11, 0)), "macosx_11_0_arm64"),
            (mach((11, 3)), "macosx_12_0_arm64"),
            (mach((14, 0), 0x01000007), "macosx_14_0_x86_64"),
            (mach((10, 15), 0x01000007, old=True), "macosx_10_15_x86_64"),
        ):
            self.assertEqual(tag(library), (expected, None))

    def test_what_is_linked_to_its_host(self):
        for library, expected in (
            (elf((*RUNTIME, "libduckdb.so")), True),
            (elf((*RUNTIME, "/venv/lib/_duckdb.cpython-311-x86_64-linux-gnu.so")), True),
            (elf(), False),
            (mach((11, 0), needed=("@rpath/libduckdb.dylib",)), True),
            (mach((11, 0)), False),
        ):
            self.assertEqual(linkage.read(library).host_linked(), expected)

    def test_refuses_what_it_cannot_read(self):
        whole = elf()
        for data in (b"", b"MZ", b"\x7fELF", whole[:40], whole[:150], whole[:200], elf(machine=8), b"\xcf\xfa\xed\xfe", mach((11, 0))[:40]):
            with self.assertRaises(ValueError):
                linkage.read(data)

    @unittest.skipUnless(sys.platform == "linux", "other systems have no glibc")
    def test_the_tag_of_duckdb_itself(self):
        """Its wheel has been given tags by others: the library must earn one that says the same machine and is no newer."""
        library = next(Path(duckdb.__file__).resolve().parents[1].glob("_duckdb.*.so"))
        theirs = next(library.parent.glob("duckdb-*.dist-info")) / "WHEEL"
        given = re.findall(r"manylinux_2_(\d+)_(\w+)", theirs.read_text())
        mine, why = tag(library.read_bytes())
        self.assertIsNone(why)
        [(minor, machine)] = re.findall(r"manylinux_2_(\d+)_(\w+)", mine)
        self.assertEqual({machine}, {machine for _, machine in given})
        self.assertLessEqual(int(minor), max(int(minor) for minor, _ in given))


class Files(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name)

    def extension(self, name="pensieve", library=None, version="v0.1.0", duckdb_version="v2.0.1", platform="linux_amd64"):
        path = self.root / f"{name}.duckdb_extension"
        footer = packer.footer("CPP", version, duckdb_version, platform)
        path.write_bytes((elf(versions=("GLIBC_2.34",)) if library is None else library) + footer)
        return path


class Wheels(Files):
    def members(self, wheel):
        with zipfile.ZipFile(wheel) as archive:
            self.assertIsNone(archive.testzip())
            return {member.filename: archive.read(member) for member in archive.infolist()}

    def test_layout(self):
        extension = self.extension()
        wheel, why = make_wheel.make(extension, self.root / "out")
        self.assertIsNone(why)
        self.assertEqual(wheel.name, "duckdb_extension_pensieve-2.0.1.0.1.0-py3-none-manylinux_2_34_x86_64.whl")
        members = self.members(wheel)
        info = "duckdb_extension_pensieve-2.0.1.0.1.0.dist-info"
        self.assertEqual(
            list(members),
            [
                "duckdb_extension_pensieve/__init__.py",
                "duckdb_extension_pensieve/_built_for.py",
                "duckdb_extension_pensieve/extensions/v2.0.1/pensieve.duckdb_extension",
                f"{info}/METADATA",
                f"{info}/WHEEL",
                f"{info}/licenses/LICENSE",
                f"{info}/RECORD",
            ],
        )
        self.assertEqual(members["duckdb_extension_pensieve/extensions/v2.0.1/pensieve.duckdb_extension"], extension.read_bytes())
        built_for = {}
        exec(members["duckdb_extension_pensieve/_built_for.py"], built_for)  # noqa: S102
        self.assertEqual([built_for[name] for name in ("VERSION", "DUCKDB_VERSION", "PLATFORM")], ["0.1.0", "2.0.1", "linux_amd64"])

    def test_metadata(self):
        wheel, _ = make_wheel.make(self.extension(version="v0.2.0-beta.3", duckdb_version="v2.10.0"), self.root)
        self.assertEqual(wheel.name, "duckdb_extension_pensieve-2.10.0.0.2.0b3-py3-none-manylinux_2_34_x86_64.whl")
        members = self.members(wheel)
        info = "duckdb_extension_pensieve-2.10.0.0.2.0b3.dist-info"
        metadata = email.message_from_bytes(members[f"{info}/METADATA"])
        self.assertEqual((metadata["Name"], metadata["Version"]), ("duckdb_extension_pensieve", "2.10.0.0.2.0b3"))
        self.assertEqual(metadata.get_all("Requires-Dist"), ["duckdb==2.10.0"])
        self.assertIn("import duckdb_extension_pensieve", metadata.get_payload())
        described = email.message_from_bytes(members[f"{info}/WHEEL"])
        self.assertEqual(described.get_all("Tag"), ["py3-none-manylinux_2_34_x86_64"])
        self.assertEqual((described["Wheel-Version"], described["Root-Is-Purelib"]), ("1.0", "false"))
        self.assertEqual(members[f"{info}/licenses/LICENSE"], (ROOT / "LICENSE").read_bytes())

    def test_record(self):
        """Every member with its hash and size, but for the record itself: pip verifies neither, installers that do refuse the wheel."""
        members = self.members(make_wheel.make(self.extension(), self.root)[0])
        record = next(name for name in members if name.endswith("/RECORD"))
        listed = list(csv.reader(io.StringIO(members[record].decode())))
        self.assertEqual([line[0] for line in listed], list(members))
        for name, digest, size in listed:
            if name == record:
                self.assertEqual((digest, size), ("", ""))
                continue
            algorithm, _, value = digest.partition("=")
            expected = hashlib.sha256(members[name]).digest()
            self.assertEqual((algorithm, base64.urlsafe_b64decode(value + "=")), ("sha256", expected))
            self.assertEqual(int(size), len(members[name]))

    def test_same_bytes(self):
        one, _ = make_wheel.make(self.extension(), self.root / "one")
        with mock.patch("time.time", return_value=2e9):
            two, _ = make_wheel.make(self.extension(), self.root / "two")
        self.assertEqual(one.read_bytes(), two.read_bytes())

    def test_macos(self):
        extension = self.extension(library=mach((11, 0)), platform="osx_arm64")
        wheel, _ = make_wheel.make(extension, self.root)
        self.assertEqual(wheel.name, "duckdb_extension_pensieve-2.0.1.0.1.0-py3-none-macosx_11_0_arm64.whl")

    def test_what_is_linked_to_its_host_is_not_shipped(self):
        extension = self.extension(library=elf((*RUNTIME, "libduckdb.so")))
        for make in (make_wheel.make, lambda extension, output: make_repository.add(output, extension)):
            with self.assertRaisesRegex(ValueError, "loads nowhere else; `make dist` builds the one to ship"):
                make(extension, self.root / "out")
        self.assertFalse((self.root / "out").exists())
        wheel, why = make_wheel.make(extension, self.root, host_linked=True)
        self.assertTrue(wheel.name.endswith("-py3-none-linux_x86_64.whl"))
        self.assertEqual(why, "it needs libduckdb.so")

    def test_refusals(self):
        bare = self.root / "bare.duckdb_extension"
        bare.write_bytes(elf())
        for extension, message in (
            (bare, "has no footer"),
            (self.extension("text", library=b"text"), "neither an ELF nor"),
            (self.extension("arm", platform="linux_arm64"), "the footer says linux_arm64, the library is for linux_amd64"),
            (self.extension("dirty", version="v0.1.0+dirty"), "has no counterpart in Python"),
            (self.extension("commit", version="026e041"), "has no counterpart in Python"),
        ):
            with self.subTest(message=message), self.assertRaisesRegex(ValueError, message):
                make_wheel.make(extension, self.root)

    def test_versions_of_python(self):
        for cargo, expected in (("v0.1.0", "0.1.0"), ("1.2.3-alpha.1", "1.2.3a1"), ("1.2.3-rc2", "1.2.3rc2"), ("0.2.0-beta.01", "0.2.0b1")):
            self.assertEqual(make_wheel.python_version(cargo), expected)
        with self.assertRaises(ValueError):
            make_wheel.python_version("1.2.3-nightly")


class Repositories(Files):
    def test_layout(self):
        folder = self.root / "repository"
        for duckdb_version, platform, library in (("v2.0.0", "linux_amd64", elf()), ("v2.0.1", "osx_arm64", mach((11, 0)))):
            extension = self.extension(library=library, duckdb_version=duckdb_version, platform=platform)
            place = make_repository.add(folder, extension)
            self.assertEqual(place, folder / duckdb_version / platform / "pensieve.duckdb_extension.gz")
            self.assertEqual(gzip.decompress(place.read_bytes()), extension.read_bytes())
        self.assertEqual(len([path for path in folder.rglob("*") if path.is_file()]), 2)

    def test_keys_stay(self):
        pem = "-----BEGIN PUBLIC KEY-----\n{}\nAQAB\n-----END PUBLIC KEY-----\n"
        path = make_repository.describe(self.root, pem.format("MIIB"), "https://example.org/duckdb")
        make_repository.describe(self.root, pem.format("MIIC"))
        make_repository.describe(self.root, pem.format("MIIB"))
        self.assertEqual(path, self.root / ".well-known" / "duckdb-extension-repo.json")
        self.assertEqual(
            json.loads(path.read_text()),
            {"version": 1, "repository_url": "https://example.org/duckdb", "signature_keys": ["MIIBAQAB", "MIICAQAB"]},
        )


class Signatures(Files):
    def test_what_is_signed(self):
        """A hash of the hashes of each MiB of all but the last 256 bytes."""
        for size in (0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 5 << 19):
            body = bytes(range(251)) * (size // 251 + 1)
            body = body[:size]
            pieces = [hashlib.sha256(body[start : start + (1 << 20)]).digest() for start in range(0, size, 1 << 20)]
            self.assertEqual(sign_extension.signed_hash(body + bytes(256)), hashlib.sha256(b"".join(pieces)).digest())

    @unittest.skipUnless(shutil.which("openssl"), "the command openssl is not installed")
    def test_signs_and_verifies(self):
        key = self.root / "key.pem"
        sign_extension.openssl("genrsa", "-out", key, 2048)
        extension = self.extension()
        plain = extension.read_bytes()
        command = [sys.executable, ROOT / "scripts" / "sign_extension.py", extension, "--private-key", key]
        subprocess.run([str(part) for part in command], check=True, capture_output=True)
        signed = extension.read_bytes()
        self.assertEqual((signed[:-256], len(signed)), (plain[:-256], len(plain)))
        self.assertEqual(packer.read_footer(signed), packer.read_footer(plain))
        public = sign_extension.public_key(key)
        self.assertTrue(sign_extension.is_signed_by(signed, public))
        self.assertFalse(sign_extension.is_signed_by(plain, public))
        self.assertFalse(sign_extension.is_signed_by(b"\x7f" + b"F" + signed[2:], public))
        self.assertEqual(sign_extension.sign(signed, key), signed)

    @unittest.skipUnless(shutil.which("openssl"), "the command openssl is not installed")
    def test_refuses_keys_that_duckdb_does_not_take(self):
        key = self.root / "key.pem"
        sign_extension.openssl("genrsa", "-out", key, 3072)
        with self.assertRaisesRegex(ValueError, "384 bytes; DuckDB takes those of RSA keys of 2048 bits"):
            sign_extension.sign(self.extension().read_bytes(), key)
        with self.assertRaisesRegex(ValueError, "has no footer"):
            sign_extension.sign(elf(), key)
        with self.assertRaisesRegex(ValueError, "openssl pkeyutl: "):
            sign_extension.sign(self.extension().read_bytes(), self.root / "missing.pem")

    def test_says_that_openssl_is_missing(self):
        with mock.patch.dict("os.environ", {"PATH": str(self.root)}), self.assertRaisesRegex(ValueError, "needs the command openssl"):
            sign_extension.sign(self.extension().read_bytes(), self.root / "key.pem")


if __name__ == "__main__":
    unittest.main()
