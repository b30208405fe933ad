"""Byte-level tests of the extension footer."""

import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import package_extension as packer  # noqa: E402

ARGUMENTS = ("CPP", "v0.1.0", "v2.0.0", "linux_amd64")


class Footer(unittest.TestCase):
    def test_every_byte(self):
        footer = packer.footer(*ARGUMENTS)
        expected = bytes.fromhex("00 9304 10") + b"duckdb_signature" + bytes.fromhex("8004")
        for text in (b"", b"", b"", b"CPP", b"v0.1.0", b"v2.0.0", b"linux_amd64", b"4"):
            expected += text + bytes(32 - len(text))
        expected += bytes(256)
        self.assertEqual(len(footer), 534)
        self.assertEqual(footer, expected)

    def test_loader_view(self):
        """The loader takes the last 512 bytes and reads the fields from the back."""
        tail = packer.footer(*ARGUMENTS)[-512:-256]
        fields = [tail[i : i + 32].rstrip(b"\0").decode() for i in range(0, 256, 32)][::-1]
        self.assertEqual(fields, ["4", "linux_amd64", "v2.0.0", "v0.1.0", "CPP", "", "", ""])

    def test_refuses_what_the_loader_would_misread(self):
        for arguments in (
            ("cpp", "v0.1.0", "v2.0.0", "linux_amd64"),
            ("CPP", "v0.1.0", "2.0.0", "linux_amd64"),
            ("CPP", "v0.1.0", "v2.0.0", ""),
            ("CPP", "v" + "1" * 32, "v2.0.0", "linux_amd64"),
            ("CPP", "v0\x00", "v2.0.0", "linux_amd64"),
        ):
            with self.subTest(arguments=arguments), self.assertRaises(ValueError):
                packer.footer(*arguments)

    def test_leb128(self):
        self.assertEqual([packer.leb128(n).hex() for n in (0, 127, 128, 512, 531)], ["00", "7f", "8001", "8004", "9304"])


class Package(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.root = Path(self.directory.name)
        self.library = self.root / "libx.so"
        self.library.write_bytes(b"\x7fELF" + bytes(range(256)) * 9)

    def test_appends_to_a_copy(self):
        output = self.root / "deep" / "x.duckdb_extension"
        packer.package(self.library, output, *ARGUMENTS)
        self.assertEqual(output.read_bytes(), self.library.read_bytes() + packer.footer(*ARGUMENTS))
        self.assertEqual([path.name for path in output.parent.iterdir()], [output.name])
        self.assertEqual(
            packer.read_footer(output.read_bytes()),
            {"abi": "CPP", "extension_version": "v0.1.0", "duckdb_version": "v2.0.0", "platform": "linux_amd64"},
        )

    def test_a_failure_leaves_the_old_file(self):
        output = self.root / "x.duckdb_extension"
        output.write_bytes(b"old")
        with self.assertRaises(ValueError):
            packer.package(self.library, output, "CPP", "v0.1.0", "nonsense", "linux_amd64")
        self.assertEqual(output.read_bytes(), b"old")
        self.assertEqual(sorted(path.name for path in self.root.iterdir()), ["libx.so", "x.duckdb_extension"])

    def test_refuses_a_second_footer(self):
        output = self.root / "x.duckdb_extension"
        packer.package(self.library, output, *ARGUMENTS)
        with self.assertRaisesRegex(ValueError, "already has a footer"):
            packer.package(output, self.root / "y", *ARGUMENTS)

    def test_version_comes_from_the_manifest(self):
        self.assertRegex(packer.crate_version(), r"^v\d+\.\d+\.\d+")


if __name__ == "__main__":
    unittest.main()
