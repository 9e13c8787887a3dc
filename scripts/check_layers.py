#!/usr/bin/env python3
"""check_layers.py [ROOT]: who may include whom (docs/architecture.md, "Layers"). Exit code 1 names every breach."""
import pathlib
import re
import sys

# folder: the folders it may include besides itself. Arrows point down only.
MAY_INCLUDE = {
    "base": "",
    "numeric": "base",
    "platform": "base",
    "tensor": "numeric platform base",
    "kernels": "tensor numeric platform base",
    "ops": "kernels tensor platform numeric base",
    "comm": "tensor base",
    "checkpoint": "tensor platform numeric base",
    "model": "ops comm checkpoint tensor numeric base",
    "engine": "model comm tensor platform base",
    "text": "base",
    "service": "engine text base",
    "server": "service base",
    "train": "numeric checkpoint tensor text base",
}

# What folders above may include of a folder; all of it where it is not listed.
DOORS = {
    "kernels": "kernels.h dispatch.h",
    "ops": "ops.h cpu_ops.h",
    "comm": "communicator.h local.h mpi.h",
    "checkpoint": "safetensors.h names.h shard.h",
    "model": "model.h config.h batch.h kv_cache.h",
    "engine": "engine.h request.h",
    "service": "generation.h",
    "server": "server.h",
    "train": "trainer.h",
}

# (folder, included folder): the only pairs (file, included file) allowed; None stands for any.
ONLY = {
    ("kernels", "platform"): [("dispatch.cc", "cpu_features.h")],
    ("kernels", "tensor"): [(None, "view.h"), (None, "dtype.h"), (None, "kv_row.h")],
    ("model", "checkpoint"): [("weights.cc", None)],
}

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')


def breach(folder, name, target):
    """Why src/folder/name may not include target ("model/model.h"); None where it may."""
    top, _, rest = target.partition("/")
    if not rest:
        return f'"{target}" does not name its folder'
    if top in ("tools", "tests"):
        return f"src may not include {top}"
    if top == folder or top not in MAY_INCLUDE:
        return None
    if top not in MAY_INCLUDE[folder].split():
        return f"{folder} may not include {top}"
    if (folder, top) in ONLY:
        for file, included in ONLY[folder, top]:
            if file in (None, name) and included in (None, rest):
                return None
        allowed = ", ".join(f"{a or 'any file'} → {b or 'any header'}" for a, b in ONLY[folder, top])
        return f"{folder} may include {top} only as {allowed}"
    if top in DOORS and rest not in DOORS[top].split():
        return f"{target} is inside {top}; its doors are {DOORS[top]}"
    return None


def check(root):
    """Every breach under root/src, as "file:line: why". Unit tests (*_test.cc) may include anything."""
    found = []
    for path in sorted((root / "src").rglob("*")):
        if path.suffix not in (".h", ".cc", ".inc") or path.name.endswith("_test.cc"):
            continue
        where = path.relative_to(root)
        folder = where.parts[1] if len(where.parts) > 2 else ""
        if folder not in MAY_INCLUDE:
            found.append(f"{where}:1: the layer table does not know this folder")
            continue
        name = "/".join(where.parts[2:])
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            match = INCLUDE.match(line)
            if not match or ("<" in line and "/" not in match[1]):
                continue
            why = breach(folder, name, match[1])
            if why:
                found.append(f"{where}:{number}: {why}")
    return found


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent
    found = check(root)
    print("\n".join(found) if found else "layers: every include points down")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
