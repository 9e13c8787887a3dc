#!/usr/bin/env python3
"""check_isa.py BUILD [OBJDUMP]: shared code is baseline x86-64, proved on the object files of a build folder.

Instructions beyond SSE2 may stand only in the anonymous namespace of dsv4::kernels::cpu, in the objects of
src/kernels/cpu/: a function with a name that the linker sees could replace its baseline twin anywhere.
Exit code 1 names every function with such an instruction.
"""
import pathlib
import platform
import re
import subprocess
import sys

PRIVATE = "dsv4::kernels::cpu::(anonymous namespace)::"
# VEX and EVEX forms start with v. tzcnt is how objdump shows `rep bsf`, which every processor runs as bsf.
BEYOND = re.compile(
    r"v(?!err|erw|m[a-z]*(?:call|launch|resume|read|write)\b)[a-z0-9]+"
    r"|k(?:mov|and|or|xor|xnor|not|add|test|ortest|shift|unpck)[a-z]+"
    r"|andn|bextr|bls(?:i|r|msk)|bzhi|mulx|pdep|pext|rorx|sarx|shlx|shrx|lzcnt|popcnt|movbe|crc32[bwlq]?|adc?ox"
    r"|addsubp[sd]|haddp[sd]|hsubp[sd]|lddqu|movddup|movs[hl]dup|fisttp[a-z]*"
    r"|pshufb|ph(?:add|sub)[a-z]+|palignr|pmaddubsw|pmulhrsw|psign[bwd]|pabs[bwd]"
    r"|(?:p?blend)[a-z]+|dpp[sd]|extractps|insertps|mpsadbw|packusdw|pcmp(?:eqq|gtq|[ei]str[im])|p(?:extr|insr)[bdq]"
    r"|pm(?:ax|in)(?:sb|sd|ud|uw)|pmov[sz]x[a-z]+|pmuldq|pmulld|ptest|round[ps][sd]|phminposuw|movntdqa"
    r"|aes[a-z]+|pclmul[a-z]+|sha(?:1|256)[a-z0-9]+|gf2p8[a-z]+|tdp[a-z0-9]+|tile[a-z0-9]+|ldtilecfg|sttilecfg")
FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")
INSTRUCTION = re.compile(r"^\s+[0-9a-f]+:\s+(?:(?:rep|repz|repnz|lock|bnd|notrack|data16|cs|ds|es|gs|fs|\{[a-z0-9]+\}) )*([a-z][a-z0-9]*)")


def breaches(disassembly, is_isa):
    """(function, instruction) of every function that may not hold what it holds, the first instruction of each."""
    function = ""
    for line in disassembly.splitlines():
        start = FUNCTION.match(line)
        if start:
            function = start[1]
            continue
        match = INSTRUCTION.match(line)
        if not match or function is None or not BEYOND.fullmatch(match[1]):
            continue
        if not (is_isa and PRIVATE in function):
            yield function, match[1]
            function = None


def objects(build):
    for path in sorted(build.rglob("*.o")):
        text = path.as_posix()
        if ("/src/" in text or "/tools/" in text) and not text.endswith("_test.cc.o"):
            yield path


def check(build, objdump):
    found, seen, private = [], 0, 0
    for path in objects(build):
        is_isa = "/src/kernels/cpu/" in path.as_posix()
        text = subprocess.run([objdump, "-d", "-C", "-w", "--no-show-raw-insn", str(path)], capture_output=True,
                              text=True, check=True).stdout
        seen += 1
        private += is_isa
        found += [f"{path.relative_to(build)}: `{what}` in {name}" for name, what in breaches(text, is_isa)]
    if not seen:
        found.append(f"{build}: no object files of src/ or tools/")
    return found, f"isa: {seen} objects are baseline code, {private} of them outside their target regions"


def main():
    if platform.machine() not in ("x86_64", "AMD64"):
        print("isa: not x86-64, nothing to check")
        return 0
    build = pathlib.Path(sys.argv[1])
    found, summary = check(build, sys.argv[2] if len(sys.argv) > 2 else "objdump")
    print("\n".join(found) if found else summary)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
