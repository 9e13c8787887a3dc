#!/usr/bin/env python3
"""Measures dsv4 beside other software in turns; bench_peers.sh prepares what it needs and runs it.

usage: bench_peers.sh [--threads N] [--rounds N] [--only NAME …] [--json]

Names: dsv4, llama.cpp, transformers, torch, tokenizers. Each round runs every engine once; what is printed are
medians over the rounds and, for each engine, the ratio of dsv4's figure to it.
"""
import argparse, json, os, pathlib, statistics, subprocess, sys, time

ROOT = pathlib.Path(__file__).resolve().parent.parent
NAMES = ["dsv4", "llama.cpp", "transformers", "torch", "tokenizers"]
PROMPT = "The quick brown fox jumps over the lazy dog and then"  # 16 tokens with what goes round a message

TRANSFORMERS = """
import json, sys, time
import torch
from transformers import AutoModelForCausalLM
torch.set_num_threads(int(sys.argv[2]))
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.bfloat16).eval()
tokens = torch.randint(0, model.config.vocab_size, (1, 512), generator=torch.Generator().manual_seed(7))
with torch.inference_mode():
    out = model(tokens[:, :16], use_cache=True, logits_to_keep=1)
    assert torch.isfinite(out.logits).all()
    first = time.time()
    times = []
    for i in range(10):
        begin = time.perf_counter()
        out = model(tokens[:, 16 + i:17 + i], past_key_values=out.past_key_values, use_cache=True)
        times.append(time.perf_counter() - begin)
    begin = time.perf_counter()
    model(tokens, use_cache=True, logits_to_keep=1)
    prefill = time.perf_counter() - begin
print(json.dumps({"decode": 1 / sorted(times[2:])[4], "prefill": 512 / prefill, "first_at": first}))
"""
TORCH = """
import json, sys, time
import torch
torch.set_num_threads(int(sys.argv[1]))
rows = {}
for dtype in (torch.float32, torch.bfloat16):
    weights = [torch.randn(4096, 4096).to(dtype) for _ in range(8)]  # beyond the caches
    for count in (1, 512):
        x = torch.randn(count, 4096).to(dtype)
        times = []
        for i in range(24):
            begin = time.perf_counter()
            torch.nn.functional.linear(x, weights[i % 8])
            times.append(time.perf_counter() - begin)
        seconds = sorted(times[4:])[10]
        name = f"{str(dtype)[6:]} {count} x 4096 x 4096"
        rows[name] = {"GB/s": weights[0].numel() * weights[0].element_size() / seconds / 1e9,
                      "GFLOP/s": 2 * count * 4096 * 4096 / seconds / 1e9}
print(json.dumps(rows))
"""


def run(command, **more):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **more)
    if done.returncode != 0:
        sys.exit(f"{command[0]}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def first_byte(command, text=None):
    """Seconds from the start of the process to the first byte of its output."""
    begin = time.perf_counter()
    process = subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL)
    process.stdin.write((text or "").encode())
    process.stdin.close()
    found = process.stdout.read(1)
    seconds = time.perf_counter() - begin
    process.stdout.read()
    if process.wait() != 0 or not found:
        sys.exit(f"{command[0]}: exit code {process.returncode}, first byte {found!r}")
    return seconds


class Bench:
    def __init__(self, options):
        self.options = options
        self.slice = options.peers / "slice"
        self.gguf = options.peers / "slice.gguf"
        self.dsv4 = ROOT / "build/release/tools/dsv4"
        self.llama = options.peers / "llama.cpp/build/bin"

    def run_dsv4(self):
        bench = [self.dsv4, "bench", "--model", self.slice, "--threads", self.options.threads, "--repeats", 1, "--json"]
        decode = json.loads(run(bench + ["--prompt", 0, "--context", 16, "--gen", 16]))
        prefill = json.loads(run(bench + ["--prompt", 512, "--gen", 1]))
        first = first_byte([self.dsv4, "generate", "--model", self.slice, "--threads", self.options.threads, "--context",
                            512, "--input-file", "-", "--max-new-tokens", 1, "--temperature", 0, "--jsonl"], PROMPT)
        return {"decode": decode["decode"]["tokens_per_s"], "prefill": prefill["prefill"]["tokens_per_s"],
                "first": first, "read": decode["limits"]["read_bytes_per_s"] / 1e9}

    def run_llama(self):
        text = run([self.llama / "llama-bench", "-m", self.gguf, "-t", self.options.threads, "-p", 512, "-n", 16, "-d", 16,
                    "-ub", 512, "-r", 1, "-o", "jsonl"])
        found = {}
        for line in text.splitlines():
            row = json.loads(line)
            found["decode" if row["n_gen"] else "prefill"] = row["avg_ts"]
        found["first"] = first_byte([self.llama / "llama-completion", "-m", self.gguf, "-t", self.options.threads, "-c", 512,
                                     "-p", PROMPT, "-n", 1, "--temp", 0, "--no-warmup", "-no-cnv", "--no-display-prompt"])
        return found

    def run_transformers(self):
        begin = time.time()
        found = json.loads(run([sys.executable, "-c", TRANSFORMERS, self.slice, self.options.threads]).splitlines()[-1])
        return {"decode": found["decode"], "prefill": found["prefill"], "first": found["first_at"] - begin}


def median_rows(rows):
    return {key: statistics.median(row[key] for row in rows) for key in rows[0]}


def main():
    parser = argparse.ArgumentParser(prog="bench_peers.sh", description=__doc__.split("\n")[0])
    parser.add_argument("--peers", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    options = parser.parse_args()
    bench = Bench(options)

    engines = {"dsv4": bench.run_dsv4, "llama.cpp": bench.run_llama, "transformers": bench.run_transformers}
    engines = {name: engine for name, engine in engines.items() if name in options.only}
    rows = {name: [] for name in engines}
    for round_number in range(options.rounds):
        for name, engine in engines.items():
            if name == "transformers" and round_number > 0:
                continue  # a minute of loading and 20 GB: once is enough
            print(f"round {round_number + 1} of {options.rounds}: {name}", file=sys.stderr)
            rows[name].append(engine())
    result = {"threads": options.threads, "engines": {name: median_rows(found) for name, found in rows.items()}}
    if "torch" in options.only:
        result["torch"] = json.loads(run([sys.executable, "-c", TORCH, options.threads]))
    if "tokenizers" in options.only:
        text = run([sys.executable, ROOT / "scripts/bench_tokenizer.py"])
        result["tokenizers"] = text.strip().splitlines()

    if options.json:
        print(json.dumps(result))
        return
    if result["engines"]:
        print(f"{'engine':14} {'decode tok/s':>13} {'prefill 512 tok/s':>18} {'first token s':>14}")
        for name, row in result["engines"].items():
            print(f"{name:14} {row['decode']:13.2f} {row['prefill']:18.1f} {row['first']:14.2f}")
        ours = result["engines"].get("dsv4")
        for name, row in result["engines"].items():
            if ours is None or name == "dsv4":
                continue
            print(f"dsv4 to {name}: decode {ours['decode'] / row['decode']:.2f} x, prefill "
                  f"{ours['prefill'] / row['prefill']:.2f} x, first token {ours['first'] / row['first']:.2f} of its time")
    for name, row in result.get("torch", {}).items():
        print(f"torch {name}: {row['GB/s']:.1f} GB/s of weights, {row['GFLOP/s']:.0f} GFLOP/s")
    for line in result.get("tokenizers", []):
        print(line)


if __name__ == "__main__":
    main()
