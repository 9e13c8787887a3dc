#!/usr/bin/env python3
"""Measures `dsv4 tokenize` against the PyPI package `tokenizers` on the same text, one thread each, in turns.

usage: bench_tokenizer.py [--dsv4 build/release/tools/dsv4] [--tokenizer models/tokenizer/tokenizer.json]
                          [--mebibytes 4] [--seed 1] [--rounds 5] [--at-least RATIO]

Prints MB/s of each (the median of the rounds; loading not counted) and their ratio. Fails where the ids
differ, or the ratio is below --at-least. Installs `tokenizers` into build/tokenizers-venv.
"""
import argparse, array, hashlib, os, pathlib, re, statistics, subprocess, sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = "tokenizers==0.23.3"
# Size in MiB and seed → SHA-256 of the ids as little-endian uint32.
KNOWN_IDS = {
    (1, 1): "7dae819f5a48fe9e19954d3d86f9e6b6c18e3042aacdd2f1ca112c2f0ce32beb",
    (4, 1): "3a985ab95e8b70fff9640ec8c26e3fead121c2d3970a4315ca748b6ef43d6ded",
    (4, 2): "d085b1a899b70750a3ed9ba90f15147faea8e8fe77243779de733e47c09ee228",
}
# Encodes the whole file at each line of standard input, and says how long it took.
REFERENCE = """
import array, hashlib, sys, time
from tokenizers import Tokenizer
tokenizer = Tokenizer.from_file(sys.argv[1])
text = open(sys.argv[2], encoding="utf-8", newline="").read()
for _ in sys.stdin:
    begin = time.perf_counter()
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    seconds = time.perf_counter() - begin
    words = array.array("I", ids)
    if sys.byteorder == "big": words.byteswap()
    print(seconds, hashlib.sha256(words.tobytes()).hexdigest(), flush=True)
"""


def reference_python():
    venv = ROOT / "build/tokenizers-venv"
    python = venv / "bin/python"
    if subprocess.run([python, "-c", "import tokenizers"], capture_output=True).returncode if python.exists() else 1:
        print(f"installing {PACKAGE} into {venv}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", PACKAGE], check=True)
    return python


def run_ours(dsv4, tokenizer, corpus):
    with open(corpus, "rb") as text:
        done = subprocess.run([dsv4, "tokenize", "--tokenizer", tokenizer, "--stats"], stdin=text,
                              capture_output=True, check=True, text=True)
    words = array.array("I", map(int, done.stdout.split()))
    if sys.byteorder == "big":
        words.byteswap()
    return float(re.search(r"([\d.]+) s,", done.stderr)[1]), hashlib.sha256(words.tobytes()).hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--dsv4", default=ROOT / "build/release/tools/dsv4")
    parser.add_argument("--tokenizer", default=ROOT / "models/tokenizer/tokenizer.json")
    parser.add_argument("--mebibytes", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--at-least", type=float, default=0, metavar="RATIO")
    options = parser.parse_args()

    python = reference_python()
    corpus = ROOT / f"build/corpus-{options.mebibytes}-{options.seed}.txt"
    subprocess.run([sys.executable, ROOT / "scripts/make_corpus.py", str(options.mebibytes),
                    str(options.seed), corpus], check=True)
    one_thread = dict(os.environ, RAYON_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")
    reference = subprocess.Popen([python, "-c", REFERENCE, options.tokenizer, corpus], env=one_thread,
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    times = {"dsv4": [], "tokenizers": []}
    hashes = set()
    for _ in range(options.rounds):
        reference.stdin.write("\n")
        reference.stdin.flush()
        seconds, digest = reference.stdout.readline().split()
        times["tokenizers"].append(float(seconds))
        hashes.add(digest)
        seconds, digest = run_ours(options.dsv4, options.tokenizer, corpus)
        times["dsv4"].append(seconds)
        hashes.add(digest)
    reference.stdin.close()
    reference.wait()

    hashes.add(KNOWN_IDS.get((options.mebibytes, options.seed), digest))
    if len(hashes) != 1:
        sys.exit(f"the ids differ: SHA-256 {sorted(hashes)}")
    megabytes = corpus.stat().st_size / 1e6
    rate = {name: megabytes / statistics.median(seconds) for name, seconds in times.items()}
    ratio = rate["dsv4"] / rate["tokenizers"]
    for name, value in rate.items():
        print(f"{name:10} {value:7.2f} MB/s")
    print(f"ratio      {ratio:7.2f}   ({megabytes:.1f} MB, {options.rounds} rounds in turns, same ids)")
    if ratio < options.at_least:
        sys.exit(f"expected a ratio of at least {options.at_least}")


main()
