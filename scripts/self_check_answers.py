#!/usr/bin/env python3
"""Prints src/kernels/self_check_answers.h: what every entry of the kernel table must answer to the
fixed inputs of src/kernels/self_check.cc. Written from docs/numerics.md in double precision, apart
from any kernel, so that the two can disagree.

Example: scripts/self_check_answers.py > src/kernels/self_check_answers.h
"""
import math
import struct

INF = math.inf


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0] if math.isfinite(x) else x


def f32_bits(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]


def bf16(x):
    bits = f32_bits(x)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def pow2_ceil(x):
    mantissa, exponent = math.frexp(x)
    return math.ldexp(1.0, exponent - 1 if mantissa == 0.5 else exponent)


E4M3 = [(m / 8 * 2.0**-6) if e == 0 else (1 + m / 8) * 2.0 ** (e - 7) for e in range(16) for m in range(8)][:127]
E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6]


def encode(x, table, sign_bit):
    magnitude = min(abs(x), table[-1])
    code = min(range(len(table)), key=lambda c: (abs(table[c] - magnitude), c & 1))
    return code | (sign_bit if math.copysign(1, x) < 0 else 0)


def e4m3(code):
    return (-1 if code & 128 else 1) * E4M3[code & 127]


def e2m1(code):
    return (-1 if code & 8 else 1) * E2M1[code & 7]


def wave(i, seed):
    return (((i * i * 7 + i * 37 + seed * 101) % 255) - 127) / 32


def waves(n, seed):
    return [wave(i, seed) for i in range(n)]


def raw(n, seed):  # bytes below 127: no code is NaN
    return [(i * 37 + i * i * 3 + seed) % 127 for i in range(n)]


def digest(values):
    return sum((1 + i % 7) * v for i, v in enumerate(values))


def act_quant(row, block, exact):
    codes, scales = [], []
    for b in range(0, len(row), block):
        part = row[b:b + block]
        scale = f32(max(1e-4, max(map(abs, part))) * f32(1 / 448))
        scale = scale if exact else pow2_ceil(scale)
        scales.append(scale)
        codes += [encode(f32(v / scale), E4M3, 128) for v in part]
    return codes, scales


def pack_index(row):
    codes, scales = [], []
    for b in range(0, len(row), 32):
        part = row[b:b + 32]
        scale = pow2_ceil(f32(max(6 * 2.0**-126, max(map(abs, part))) * f32(1 / 6)))
        scales.append(int(math.log2(scale)) + 127)
        c = [encode(v / scale, E2M1, 8) for v in part]
        codes += [c[i] | c[i + 1] << 4 for i in range(0, 32, 2)]
    return codes + scales


def raw_index_row(width, seed):  # packed bytes
    return raw(width // 2, seed) + [124 + i % 3 for i in range(width // 32)]


def unpack_index(row, width):
    return [e2m1(row[i // 2] >> (i % 2 * 4) & 15) * 2.0 ** (row[width // 2 + i // 32] - 127) for i in range(width)]


def raw_kv_row(width, rope, seed):
    """Codes, rotary values, scale bytes."""
    codes = width - rope
    return raw(codes, seed), [bf16(wave(i, seed)) for i in range(rope)], [120 + i % 3 for i in range(codes // 64)]


def unpack_kv(row):
    codes, rope, scales = row
    return [e4m3(c) * 2.0 ** (scales[i // 64] - 127) for i, c in enumerate(codes)] + rope


def check_quant():
    a = {}
    x = [[wave(r * 192 + i, 1) for i in range(192)] for r in range(2)]
    for entry in ("act_quant", "act_quant_in_place"):
        out = []
        for exact in (True, False):
            q = [act_quant(row, 128, exact) for row in x]
            if entry == "act_quant":
                out += [digest(sum((c for c, _ in q), [])), digest(sum((s for _, s in q), []))]
            else:
                out.append(digest([bf16(f32(e4m3(c) * s[i // 128])) for cs, s in q for i, c in enumerate(cs)]))
        a[entry] = (1e-7, out)
    rows = [[wave(r * 64 + i, 2) for i in range(64)] for r in range(2)]
    a["pack_index_rows"] = (0, [digest(pack_index(rows[0]) + pack_index(rows[1]))])
    a["unpack_index_rows"] = (0, [digest(sum((unpack_index(raw_index_row(64, 5 + r), 64) for r in range(2)), []))])
    packed, plain = [], []
    for r in range(2):
        row = [wave(r * 192 + i, 3) for i in range(192)]
        codes, scales = act_quant(row[:128], 64, False)
        rope = [b for v in row[128:] for b in struct.pack("<H", f32_bits(v) >> 16)]
        packed += codes + rope + [int(math.log2(s)) + 127 for s in scales] + [0] * 6
        plain += [bf16(e4m3(c) * scales[i // 64]) for i, c in enumerate(codes)] + row[128:]
    a["pack_kv_rows"] = (0, [digest(packed), digest(plain)])
    a["unpack_kv_rows"] = (0, [digest(unpack_kv(raw_kv_row(192, 64, 7)))])
    return a


def check_product():
    cols, rows, begin, end, m = 192, 20, 3, 17, 3
    x = [[wave(r * cols + i, 4) for i in range(cols)] for r in range(m)]
    codes8, codes4 = raw(rows * cols, 9), raw(rows * cols // 2, 10)
    plain = waves(rows * cols, 11)
    def w4(n, k):
        return e2m1(codes4[(n * cols + k) // 2] >> (k % 2 * 4) & 15)
    def s8(n, k):  # tiles of 8 x 64
        return 2.0 ** (118 + (n // 8 * 3 + k // 64) % 5 - 127)
    def s8_f32(n, k):
        return f32((1 + (n // 8 * 3 + k // 64)) / 1024)
    def s4(n, k):
        return 2.0 ** (124 + (n * 6 + k // 32) % 5 - 127)
    def quantized(weight, exact):
        out = []
        for row in x:
            c, s = act_quant(row, 128, exact)
            values = [e4m3(v) * s[i // 128] for i, v in enumerate(c)]
            out += [sum(values[k] * weight(n, k) for k in range(cols)) for n in range(begin, end)]
        return digest(out)
    def unquantized(weight):
        return digest([sum(row[k] * weight(n, k) for k in range(cols)) for row in x for n in range(begin, end)])
    return {"product": (2e-6, [
        quantized(lambda n, k: e4m3(codes8[n * cols + k]) * s8(n, k), False),
        quantized(lambda n, k: e4m3(codes8[n * cols + k]) * s8_f32(n, k), True),
        quantized(lambda n, k: w4(n, k) * s4(n, k), False),
        unquantized(lambda n, k: bf16(e4m3(codes8[n * cols + k]) * s8_f32(n, k))),
        unquantized(lambda n, k: plain[n * cols + k]),
        unquantized(lambda n, k: plain[n * cols + k] * (1 + 2.0**-12)),
    ])}


def check_norms():
    a = {}
    x = [[wave(r * 100 + i, 5) for i in range(100)] for r in range(2)]
    w = waves(100, 6)
    r = [1 / math.sqrt(sum(v * v for v in row) / 100 + 1e-6) for row in x]
    a["rms_factor"] = (1e-6, [digest(r)])
    a["rms_norm"] = (1e-4, [digest([bf16(v * r[i] * w[k]) for i, row in enumerate(x) for k, v in enumerate(row)]),
                            digest([bf16(v * r[i]) for i, row in enumerate(x) for v in row])])
    turns = [(0.6, 0.8), (-0.28, 0.96), (1.0, 0.0), (0.0, 1.0), (0.96, -0.28)]
    out = []
    for sign in (1, -1):
        y = []
        for row in range(2):
            for head in range(2):
                v = [wave((row * 2 + head) * 72 + i, 7) for i in range(72)]
                for i in range(32):
                    c, s = turns[(row + i) % 5]
                    re, im = v[2 * i], v[2 * i + 1]
                    v[2 * i], v[2 * i + 1] = bf16(re * c - im * s * sign), bf16(re * s * sign + im * c)
                y += v
        out.append(digest(y))
    a["rope"] = (1e-4, out)
    v = [waves(64, 8), waves(64, 9)]
    a["hadamard"] = (1e-4, [digest([bf16(sum(u[k] * (-1) ** bin(i & k).count("1") for k in range(64)) / 8)
                                    for u in v for i in range(64)])])
    return a


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def check_hyper_connections():
    a, scale, base, eps = {}, [0.5, 0.75, 1.25], waves(24, 12), 1e-6
    pre, post, comb = [], [], []
    for row in range(2):
        m = [wave(row * 24 + i, 13) for i in range(24)]
        pre += [sigmoid(m[j] * scale[0] + base[j]) + eps for j in range(4)]
        post += [2 * sigmoid(m[4 + j] * scale[1] + base[4 + j]) for j in range(4)]
        c = [[m[8 + 4 * j + k] * scale[2] + base[8 + 4 * j + k] for k in range(4)] for j in range(4)]
        c = [[math.exp(v - max(r)) / sum(math.exp(u - max(r)) for u in r) + eps for v in r] for r in c]
        for i in range(20):
            if i > 0:
                c = [[v / (sum(r) + eps) for v in r] for r in c]
            s = [sum(c[j][k] for j in range(4)) + eps for k in range(4)]
            c = [[c[j][k] / s[k] for k in range(4)] for j in range(4)]
        comb += sum(c, [])
    a["hc_split"] = (1e-5, [digest(pre), digest(post), digest(comb)])
    a["hc_head_pre"] = (1e-6, [digest([sigmoid(wave(i, 14) * 0.5 + base[i % 4]) + eps for i in range(8)])])
    h = [[[wave((r * 4 + j) * 70 + i, 15) for i in range(70)] for j in range(4)] for r in range(2)]
    p, q, g, x = waves(8, 16), waves(8, 17), waves(32, 18), waves(140, 19)
    a["hc_combine"] = (1e-4, [digest([bf16(sum(p[r * 4 + j] * h[r][j][i] for j in range(4)))
                                      for r in range(2) for i in range(70)])])
    a["hc_post"] = (1e-4, [digest([bf16(q[r * 4 + k] * x[r * 70 + i] +
                                        sum(g[r * 16 + j * 4 + k] * h[r][j][i] for j in range(4)))
                                   for r in range(2) for k in range(4) for i in range(70)])])
    return a


def attend(q, rows, sink, scale):
    out = []
    for head, query in enumerate(q):
        score = [sum(a * b for a, b in zip(query, row)) * scale for row in rows]
        top = -INF
        total, value = 0.0, [0.0] * len(query)
        for begin in range(0, len(rows), 64):
            tile = range(begin, min(begin + 64, len(rows)))
            new = max([top] + [score[j] for j in tile])
            factor = math.exp(top - new)
            p = [math.exp(score[j] - new) for j in tile]
            total = total * factor + sum(p)
            value = [v * factor + sum(bf16(p[j - begin]) * rows[j][c] for j in tile) for c, v in enumerate(value)]
            top = new
        total += math.exp(sink[head] - top)
        out += [bf16(v / total) for v in value]
    return out


def check_attention():
    a, heads, width = {}, 3, 128
    q = [[wave(h * width + i, 20) for i in range(width)] for h in range(heads)]
    sink = [3.0, -INF, 60.0]
    plain = [[wave(r * width + i, 21) / 4 for i in range(width)] for r in range(70)]
    packed = [unpack_kv(raw_kv_row(width, 64, 22 + r)) for r in range(70)]
    out = []
    for rows in (plain, packed):
        o = attend(q, rows, sink, 0.0625)
        out += [digest(o[h * width:(h + 1) * width]) for h in range(heads)]
    a["sparse_attention"] = (1e-3, out)
    heads, width = 3, 64
    q = [unpack_index(raw_index_row(width, 30 + h), width) for h in range(heads)]
    keys = [unpack_index(raw_index_row(width, 40 + i), width) for i in range(40)]
    w = [0.5, -0.25, 1.5]
    a["index_scores"] = (1e-5, [digest([sum(max(sum(a * b for a, b in zip(q[h], keys[i])), 0) * w[h]
                                            for h in range(heads)) for i in range(5, 39)])])
    scores = [wave(i, 23) if i % 4 else 1.0 for i in range(50)]
    order = sorted(range(50), key=lambda i: (-scores[i], i))
    a["top_k"] = (0, [digest(sorted(order[:k])) for k in (1, 17, 50)])
    kv = [[wave(r * 70 + i, 24) for i in range(70)] for r in range(9)]
    score = [[wave(r * 70 + i, 25) for i in range(70)] for r in range(9)]
    pooled = []
    for i in range(70):
        e = [math.exp(score[r][i]) for r in range(9)]
        pooled.append(bf16(sum(e[r] * kv[r][i] for r in range(9)) / sum(e)))
    a["pool"] = (1e-4, [digest(pooled)])
    return a


def check_moe():
    z, bias = waves(16, 26), [v / 4 for v in waves(16, 27)]
    functions = [
        [math.sqrt(math.log1p(math.exp(v))) for v in z],
        [sigmoid(v) for v in z],
        [math.exp(v) / sum(map(math.exp, z)) for v in z],
    ]
    out = []
    for number, score in enumerate(functions):
        chosen = sorted(range(16), key=lambda i: (-(score[i] + bias[i]), i))[:4]
        for experts in (chosen, [3, 0, 15, 8]):
            weight = [score[e] for e in experts]
            total = 1 if number == 2 else sum(weight)
            out += [digest(experts), digest([v / total * 2.5 for v in weight])]
        out.append(digest(score))
    a = {"route": (1e-6, out)}
    g, u, w = [v * 4 for v in waves(140, 28)], [v * 4 for v in waves(140, 29)], [0.5, 1.25]
    def swiglu(limit, weights):
        y = []
        for i in range(140):
            gate, up = min(g[i], limit), max(-limit, min(limit, u[i]))
            y.append(bf16(weights[i // 70] * gate * sigmoid(gate) * up))
        return digest(y)
    a["swiglu"] = (1e-4, [swiglu(10.0, w), swiglu(INF, [1.0, 1.0])])
    return a


def main():
    answers = {}
    for part in (check_quant, check_product, check_norms, check_hyper_connections, check_attention, check_moe):
        answers.update(part())
    print("// Written by scripts/self_check_answers.py from docs/numerics.md in double precision.\n#pragma once\n")
    print("#include <array>\n#include <string_view>\n\nnamespace dsv4::kernels {\n")
    print("// The digests that an entry must give, each within tolerance x max(1, |digest|).")
    print("struct Answer {\n  std::string_view entry;\n  double tolerance;\n  int num_digests;\n  std::array<double, 15> digests;\n};\n")
    print("inline constexpr Answer kAnswers[] = {")
    for entry, (tolerance, digests) in answers.items():
        numbers = ", ".join(repr(float(d)) for d in digests)
        print(f'    {{"{entry}", {float(tolerance)}, {len(digests)}, {{{numbers}}}}},')
    print("};\n\n}  // namespace dsv4::kernels")


main()
