#!/usr/bin/env python3
"""Run the SQL examples of the README, the tutorial, docs/pruning.md and docs/functions/: every statement must succeed, in the order of the page.

Each page gets a fresh database and an empty working directory.
"""

import argparse
import os
import re
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from support import ROOT, add_extension_argument, connect  # noqa: E402

BLOCK = re.compile(r"^```sql\n(.*?)^```", re.M | re.S)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_extension_argument(parser)
    arguments = parser.parse_args()
    extension = Path(arguments.extension).resolve()
    passed = failed = 0
    fixed = [ROOT / "README.md", ROOT / "docs" / "tutorial.md", ROOT / "docs" / "pruning.md"]
    for page in [*fixed, *sorted((ROOT / "docs" / "functions").glob("*.md"))]:
        blocks = BLOCK.findall(page.read_text())
        if not blocks:
            print(f"FAIL {page.relative_to(ROOT)}: no example")
            failed += 1
        with tempfile.TemporaryDirectory(prefix="pensieve-docs-") as directory:
            os.chdir(directory)
            connection = connect(extension)
            for block in blocks:
                for statement in connection.extract_statements(block):
                    try:
                        connection.execute(statement).fetchall()
                        passed += 1
                    except Exception as error:
                        failed += 1
                        print(f"FAIL {page.relative_to(ROOT)}\n  {statement.query.strip()}\n  {error}")
            connection.close()
            os.chdir(ROOT)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
