#!/usr/bin/env python3
"""plot_context.py --model DIR [--out SVG] [--contexts N …] [--dsv4 PROGRAM]: what a token costs after a context.

Runs `dsv4 bench` once for each length of context, with a prompt of 512 tokens and a few steps after it, and draws
milliseconds of a decoded token and of a token of the prompt by kind of operation. Prints the figures as a table, with the
share of its own roof that choosing entries by index reaches: its bytes at the read bandwidth or its multiply-adds at the
peak, whichever takes longer. Needs python3-matplotlib (scripts/install_deps.sh --dev). docs/performance.md has the figures.
"""
import argparse
import json
import subprocess

PROMPT = 512
# What grows with the context, then what does not.
KINDS = {"choosing entries (index_select)": ["index_select"], "attention": ["attention"]}
REST = "all else"
UNITS = {"decode": "ms a decoded token", "prefill": f"ms a token of a prompt of {PROMPT}"}


def milliseconds(ops, num_tokens):
    """By kind, for one token."""
    total = {kind: sum(op["ms"] for op in ops if op["op"] in names) / num_tokens for kind, names in KINDS.items()}
    total[REST] = sum(op["ms"] for op in ops) / num_tokens - sum(total.values())
    return total


def roof_share(ops, limits):
    op = next((op for op in ops if op["op"] == "index_select"), None)
    if op is None:
        return 0.0
    return max((op["bytes_per_s"] or 0) / limits["read_bytes_per_s"], (op["flops"] or 0) / limits["flops"])


def measure(options, context):
    command = [options.dsv4, "bench", "--model", options.model, "--context", str(context), "--prompt", str(PROMPT),
               "--gen", str(options.gen), "--repeats", "1", "--quiet", "--json"]
    report = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return {
        "context": context,
        "kernels": report["kernels"],
        "threads": report["threads"],
        "decode": milliseconds(report["ops"], 1),
        "prefill": milliseconds(report["prefill"]["ops"], PROMPT),
        "roof": {"decode": roof_share(report["ops"], report["limits"]),
                 "prefill": roof_share(report["prefill"]["ops"], report["limits"])},
        "kv_bytes": report["memory"]["kv_bytes"],
    }


def draw(rows, path):
    import matplotlib
    matplotlib.use("svg")
    # Text as text, and the same file for the same figures.
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "dsv4"})
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4.5))
    for axis, (part, unit) in zip(axes, UNITS.items()):
        for kind in rows[0][part]:
            axis.plot([row["context"] for row in rows], [row[part][kind] for row in rows], marker="o", label=kind)
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_xlabel("tokens of context")
        axis.set_ylabel(unit)
        axis.grid(True, which="both", alpha=0.3)
        axis.legend()
    figure.suptitle(f"{rows[0]['kernels']}, {rows[0]['threads']} threads")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--out", help="SVG file to draw")
    parser.add_argument("--contexts", type=int, nargs="+", default=[1 << 10, 1 << 13, 1 << 16, 1 << 18, (1 << 20) - 1024])
    parser.add_argument("--gen", type=int, default=8, help="tokens to decode")
    parser.add_argument("--dsv4", default="build/release/tools/dsv4")
    options = parser.parse_args()

    rows = []
    for context in options.contexts:
        row = measure(options, context)
        rows.append(row)
        for part in UNITS:
            costs = ", ".join(f"{kind} {ms:.3f}" for kind, ms in row[part].items())
            print(f"context {context}, {UNITS[part]}: {costs}; index_select at {row['roof'][part]:.0%} of its roof",
                  flush=True)
        print(f"context {context}: KV cache {row['kv_bytes'] / 1e6:.1f} MB", flush=True)
    if options.out:
        draw(rows, options.out)


if __name__ == "__main__":
    main()
