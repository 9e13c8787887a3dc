#!/usr/bin/env python3
"""check_rules.py [ROOT]: the house rules that a script can hold. Exit code 1 names every breach as file:line.

Each rule is a function of (path relative to the root, text) that yields (line number, why).
"""
import pathlib
import re
import shutil
import subprocess
import sys

MAX_CC_LINES = 500
MAX_CONTRIBUTING_LINES = 150
# Files that state the forbidden words in order to forbid them.
SELF = ("scripts/check_rules.py", "scripts/check_rules_test.py")
# Data, not prose: checked by nothing here.
DATA = ("tests/golden/", "tests/fuzz/corpus/")
TEXT = (".h", ".cc", ".inc", ".py", ".sh", ".md", ".txt", ".json", ".cmake", "")


def without_comments(text):
    """C++ text with comments and literals blanked, lines kept."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)

    def blank(match):
        return re.sub(r"[^\n]", " ", match[0])

    # Digit separators (1'000) are no character literals.
    return pattern.sub(blank, re.sub(r"(?<=[0-9a-fA-F])'(?=[0-9a-fA-F])", "_", text))


def is_cpp(path):
    return path.endswith((".h", ".cc", ".inc"))


def is_test(path):
    return path.endswith("_test.cc") or path.startswith("tests/")


def matches(pattern, text):
    for number, line in enumerate(text.splitlines(), 1):
        for match in re.finditer(pattern, line):
            yield number, match[0].strip()


def silent_below_tools(path, text):
    """Below tools/ nothing prints, exits or reads the environment (a failed check does)."""
    if not (path.startswith("src/") and is_cpp(path)) or is_test(path) or path == "src/base/check.cc":
        return
    pattern = (r"std::(cout|cerr|clog)\b|\b(v?f?printf|f?puts|perror|putchar)\s*\(|fmt::print\b|std::print(ln)?\b"
               r"|\b(_?exit|quick_exit|abort|terminate)\s*\(|\b(secure_)?getenv\b|\benviron\b")
    for number, what in matches(pattern, without_comments(text)):
        yield number, f"`{what}`: only tools/ prints, exits or reads the environment"


def printing_does_not_throw(path, text):
    """Where a stream is closed or its terminal gone, an exception would be the second error."""
    if path.startswith("tools/") and is_cpp(path) and not is_test(path):
        for number, what in matches(r"fmt::print\b|std::print(ln)?\b", without_comments(text)):
            yield number, f"`{what}` throws: tools/standard_io.h writes without"


def file_length(path, text):
    count = text.count("\n")
    if path.endswith(".cc") and count > MAX_CC_LINES:
        yield count, f"{count} lines, at most {MAX_CC_LINES}"


def no_instruction_set_flags(path, text):
    """Instruction sets live in target regions: shared code is baseline code."""
    if not path.endswith(("CMakeLists.txt", "CMakePresets.json", ".cmake")):
        return
    text = re.sub(r"#.*", "", text)
    for number, what in matches(r"(?<![\w-])-m[a-z][\w.=-]*|-ffast-math|-Ofast|-funsafe-math\S*", text):
        yield number, f"`{what}`: no such flags for the whole program"


def pragma_once(path, text):
    if path.endswith(".h"):
        code = [line for line in without_comments(text).splitlines() if line.strip()]
        if not code or code[0].strip() != "#pragma once":
            yield 1, "a header starts with #pragma once"


def nothing_left_for_later(path, text):
    for number, what in matches(r"\b(TODO|FIXME|XXX|HACK)\b", text):
        yield number, f"`{what}`: do it or file it, the code is finished"


def stands_alone(path, text):
    """The project names nothing that a reader of it does not have."""
    pattern = (r"/work/|\bshared/|\bspec/\w|\bspec(ification)?,? (section|sec\.)|\(spec[ :]|\bdesign\.md|\bdesign section"
               r"|\b[Ii]ssues? #?\d|\bissues show|\b[Hh]elper [A-H]\b|\bTEAM\.md|\b[Ss]ub-?agents?\b|\bClaude\b"
               r"|\bthis workplace\b|\bCEO\b")
    for number, what in matches(pattern, text):
        yield number, f"`{what}`: names something outside the project"


def contributing_is_short(path, text):
    if path == "CONTRIBUTING.md" and text.count("\n") > MAX_CONTRIBUTING_LINES:
        yield MAX_CONTRIBUTING_LINES + 1, f"at most {MAX_CONTRIBUTING_LINES} lines"


def intrinsics_in_their_place(path, text):
    if not is_cpp(path) or path.startswith("src/kernels/cpu/"):
        return
    pattern = r"[<\"](\w*mmintrin|immintrin|x86intrin|arm_neon|arm_sve)\.h[>\"]|\b_mm\d*_\w+|\b__m(128|256|512)\w*\b"
    for number, what in matches(pattern, text):
        yield number, f"`{what}`: intrinsics live in src/kernels/cpu"


def verbs_show_an_example(path, text):
    if path.startswith("tools/") and path.endswith(".cc") and "CLI::App& app, Selected*" in text:
        if "footer(" not in text:
            yield 1, "a subcommand's help shows an example (footer)"


def tests_run(path, text):
    if is_cpp(path):
        for number, what in matches(r"\bGTEST_SKIP\b|\bDISABLED_\w+", text):
            yield number, f"`{what}`: a test runs or is not there"


def file_names(path, text):
    if is_cpp(path) and not re.fullmatch(r"([a-z0-9_]+/)*[a-z0-9_]+(-inl)?\.(h|cc|inc)", path):
        yield 1, "files are named in snake_case"


RULES = (silent_below_tools, printing_does_not_throw, file_length, no_instruction_set_flags, pragma_once,
         nothing_left_for_later, stands_alone, contributing_is_short, intrinsics_in_their_place, verbs_show_an_example,
         tests_run, file_names)


def files_of(root):
    """What git tracks or would track; without git or outside its folders, all but what is built."""
    if shutil.which("git"):
        listed = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                                capture_output=True, check=False)
        if listed.returncode == 0:
            return sorted(set(filter(None, listed.stdout.decode().split("\0"))))
    paths = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
    return sorted(str(path) for path in paths if path.parts[0] not in (".git", "build", "models"))


def check(root):
    found = []
    for path in files_of(root):
        file = root / path
        if path in SELF or path.startswith(DATA) or file.suffix not in TEXT or not file.is_file():
            continue
        try:
            text = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            found.append(f"{path}:1: not UTF-8")
            continue
        for rule in RULES:
            found.extend(f"{path}:{number}: {why}" for number, why in rule(path, text))
    return found


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent
    found = check(root)
    print("\n".join(found) if found else f"rules: {len(RULES)} hold")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
