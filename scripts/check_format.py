#!/usr/bin/env python3
"""check_format.py [--fix]: every source file is formatted as .clang-format says (clang-format 14)."""
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def main():
    program = shutil.which("clang-format-14") or shutil.which("clang-format")
    if not program:
        print("check_format: no clang-format; scripts/install_deps.sh installs it")
        return 1
    files = sorted(p for top in ("src", "tools", "tests") for p in (ROOT / top).rglob("*") if p.suffix in (".h", ".cc"))
    mode = ["-i"] if "--fix" in sys.argv[1:] else ["--dry-run", "-Werror", "--ferror-limit=1"]
    failed = 0
    for start in range(0, len(files), 50):
        failed |= subprocess.run([program, "--style=file", *mode, *files[start:start + 50]], check=False).returncode
    print(f"format: {len(files)} files " + ("need scripts/check_format.py --fix" if failed else "as they should be"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
