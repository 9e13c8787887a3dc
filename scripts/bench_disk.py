#!/usr/bin/env python3
"""bench_disk.py --model DIR --memory BYTES [--gen N] [--rounds N] [--dsv4 PROGRAM]: a model larger than memory.

Decodes under a memory limit (a control group of its own; needs root) with `dsv4 bench`, then reads experts of the same
files by themselves, under the same limit and in the two ways that are fastest: large direct reads by several threads,
and read-ahead of mapped pages; by turns. Prints how much a step read from disk and which share of its time reading as
much by itself takes. Each begins with none of the files in memory. docs/performance.md has the figures.
"""
import argparse
import contextlib
import ctypes
import json
import mmap
import os
import pathlib
import random
import struct
import subprocess
import sys
import threading
import time

PIECE = 4 << 20
AHEAD = 128 << 10
READ_THREADS = 4
MADV_RANDOM, MADV_WILLNEED, MADV_POPULATE_READ = 1, 3, 22


class Group:
    """A control group below this process's own, with a limit of memory; removed at the end."""

    def __init__(self, limit):
        old, unified = None, None
        for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "":
                unified = pathlib.Path("/sys/fs/cgroup" + path)
            elif "memory" in controllers.split(","):
                old = pathlib.Path("/sys/fs/cgroup/memory" + path)
        parent, name = (old, "memory.limit_in_bytes") if old else (unified, "memory.max")
        self.folder = parent / f"dsv4_bench_disk.{os.getpid()}"
        self.folder.mkdir()
        try:
            (self.folder / name).write_text(str(limit))
        except OSError:
            self.folder.rmdir()
            raise

    def enter(self):
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def remove(self):
        self.folder.rmdir()


def weight_files(model):
    return sorted(pathlib.Path(model).glob("*.safetensors"))


def forget(model):
    """Drops the files from the page cache."""
    for path in weight_files(model):
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def experts_of(model):
    """(file, begin, end) of each routed expert of the main layers: its tensors lie side by side."""
    ranges = {}
    for path in weight_files(model):
        with open(path, "rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length))
        for name, tensor in header.items():
            before, found, after = name.partition(".experts.")
            if not found or "mtp" in before:
                continue
            key = (path, before, after.split(".")[0])
            begin, end = (8 + length + offset for offset in tensor["data_offsets"])
            first, last = ranges.get(key, (begin, end))
            ranges[key] = (min(first, begin), max(last, end))
    return [(key[0], *span) for key, span in ranges.items()]


def read_direct(experts):
    pieces = []
    for path, begin, end in experts:
        begin = begin // mmap.PAGESIZE * mmap.PAGESIZE
        pieces += [(path, at, min(PIECE, end - at)) for at in range(begin, end, PIECE)]
    take, lock = iter(pieces), threading.Lock()

    def work():
        files = {path: os.open(path, os.O_RDONLY | os.O_DIRECT) for path, _, _ in experts}
        buffer = mmap.mmap(-1, PIECE)
        while True:
            with lock:
                piece = next(take, None)
            if piece is None:
                break
            path, at, size = piece
            size = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
            os.preadv(files[path], [memoryview(buffer)[:size]], at)
        for fd in files.values():
            os.close(fd)

    threads = [threading.Thread(target=work) for _ in range(READ_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def read_ahead(experts):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    maps = {}
    for path in {path for path, _, _ in experts}:
        fd = os.open(path, os.O_RDONLY)
        size = os.path.getsize(path)
        maps[path] = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
        libc.madvise(maps[path], size, MADV_RANDOM)
        os.close(fd)

    def pages(path, begin, end):
        first = begin // mmap.PAGESIZE * mmap.PAGESIZE
        return maps[path] + first, -(-(end - first) // mmap.PAGESIZE) * mmap.PAGESIZE

    def ask(expert):
        address, size = pages(*expert)
        for at in range(0, size, AHEAD):
            libc.madvise(address + at, min(AHEAD, size - at), MADV_WILLNEED)

    # Two experts ahead of the one that is waited for.
    for i, expert in enumerate(experts):
        for later in experts[i:i + 3] if i == 0 else experts[i + 2:i + 3]:
            ask(later)
        libc.madvise(*pages(*expert), MADV_POPULATE_READ)


def read_alone(model, amount):
    """Bytes a second at which random experts are read."""
    experts = experts_of(model)
    random.Random(1).shuffle(experts)
    rates = {}
    for name, read in (("direct", read_direct), ("ahead", read_ahead)):
        forget(model)
        chosen, size = [], 0
        for expert in experts:
            if size >= amount:
                break
            chosen.append(expert)
            size += expert[2] - expert[1]
        start = time.monotonic()
        read(chosen)
        rates[name] = size / (time.monotonic() - start)
    return rates


def in_group(limit, work):
    """What work() returns in a process of its own under the limit."""
    group = Group(limit)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        with contextlib.suppress(BrokenPipeError), os.fdopen(writer, "w") as out:
            group.enter()
            out.write(json.dumps(work()))
        os._exit(0)
    os.close(writer)
    try:
        with os.fdopen(reader) as answer:
            text = answer.read()
        os.waitpid(child, 0)
    finally:
        group.remove()
    if not text:
        sys.exit("bench_disk.py: the measurement failed")
    return json.loads(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="folder of a model larger than the limit")
    parser.add_argument("--memory", required=True, type=int, help="limit in bytes")
    parser.add_argument("--gen", default=20, type=int, help="tokens to decode in a round")
    parser.add_argument("--batch", default=1, type=int, help="sequences that are decoded together")
    parser.add_argument("--rounds", default=3, type=int, help="of reading alone and decoding, by turns")
    parser.add_argument("--dsv4", default="build/release/tools/dsv4")
    options = parser.parse_args()
    command = [options.dsv4, "bench", "--model", options.model, "--prompt", "0", "--context", "128", "--gen",
               str(options.gen), "--batch", str(options.batch), "--repeats", "1", "--quiet", "--json"]

    def bench():
        return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)

    def alone():
        return read_alone(options.model, 2 << 30)

    total = sum(path.stat().st_size for path in weight_files(options.model))
    print(f"weights {total / 1e6:.0f} MB, limit {options.memory / 1e6:.0f} MB", flush=True)
    shares = []
    before = in_group(options.memory, alone)
    for _ in range(options.rounds):
        forget(options.model)
        report = in_group(options.memory, bench)
        after = in_group(options.memory, alone)
        read = report["decode"]["disk_bytes_per_token"] * options.batch
        step = report["decode"]["ms_per_step"] / 1e3
        if not read:
            sys.exit("bench_disk.py: nothing was read from disk: the limit is too high")
        # The better way; disks of virtual machines change their speed by the minute.
        rate = max((before[way] + after[way]) / 2 for way in before)
        shares.append(read / rate / step)
        print(f"{report['kernels']}, {report['threads']} threads: a step reads {read / 1e6:.1f} MB of its "
              f"{report['decode']['bytes_per_token'] * options.batch / 1e6:.1f} MB from disk in {step * 1e3:.1f} ms; experts alone "
              + ", ".join(f"{way} {before[way] / 1e6:.0f} and {after[way] / 1e6:.0f} MB/s" for way in before)
              + f", so much in {read / rate * 1e3:.1f} ms: {shares[-1]:.1%} of the step", flush=True)
        before = after
    print(f"median {sorted(shares)[len(shares) // 2]:.1%}")


if __name__ == "__main__":
    main()
