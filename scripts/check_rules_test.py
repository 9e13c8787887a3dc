"""Each house rule reports a planted breach and nothing where there is none."""
import pathlib
import tempfile
import unittest

import check_rules

HEADER = "// What it is.\n#pragma once\n"


class CheckRulesTest(unittest.TestCase):
    def found(self, path, text):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            return check_rules.check(pathlib.Path(folder))

    def assert_breach(self, path, text, why):
        found = self.found(path, text)
        self.assertEqual(len(found), 1, found)
        self.assertIn(why, found[0])

    def assert_fine(self, path, text):
        self.assertEqual(self.found(path, text), [])

    def test_below_tools_nothing_prints_exits_or_reads_the_environment(self):
        for line in ('std::cout << 1;', 'printf("x");', 'std::fprintf(stderr, "x");', 'fmt::print("x");',
                     'std::exit(1);', 'exit (1);', 'std::getenv("HOME");', 'std::abort();', 'puts("x");'):
            self.assert_breach("src/base/a.cc", line + "\n", "only tools/ prints")
            if "fmt::print" not in line:
                self.assert_fine("tools/a.cc", line + "\n")
            self.assert_fine("src/base/a_test.cc", line + "\n")
        self.assert_fine("src/base/check.cc", "std::abort();\n")

    def test_tools_print_without_exceptions(self):
        self.assert_breach("tools/a.cc", 'fmt::print(stderr, "x");\n', "throws")
        self.assert_breach("tools/a.h", "#pragma once\nstd::println();\n", "throws")
        self.assert_fine("tools/a.cc", 'auto text = fmt::format("x");  // not fmt::print\n')
        self.assert_fine("tools/a_test.cc", 'fmt::print("x");\n')

    def test_words_in_comments_strings_and_other_names_are_no_breach(self):
        self.assert_fine("src/base/a.cc", "// never exit(1)\n/* getenv\n */ auto s = \"printf(\"; snprintf(b, n, f);\n"
                         "OnExit(3); int x = 1'000; char c = '\"'; Print(f); auto r = R\"(exit(1))\";\n")
        self.assert_breach("src/base/a.cc", "char c = '\"'; exit(1); char d = '\"';\n", "only tools/")

    def test_a_source_file_has_an_end(self):
        self.assert_fine("src/base/a.cc", "\n" * 500)
        self.assert_breach("src/base/a.cc", "\n" * 501, "501 lines, at most 500")

    def test_no_flags_for_instruction_sets(self):
        for flag in ("-mavx2", "-march=native", "-ffast-math", "-mtune=generic"):
            self.assert_breach("CMakeLists.txt", f"add_compile_options({flag})\n", "no such flags")
        self.assert_fine("CMakeLists.txt", "# No -m flags anywhere\ntarget_link_libraries(dsv4-main lib-mine)\n")

    def test_headers_have_pragma_once(self):
        self.assert_fine("src/base/a.h", HEADER)
        self.assert_breach("src/base/a.h", "int a();\n", "#pragma once")

    def test_nothing_is_left_for_later(self):
        self.assert_breach("src/base/a.cc", "// TODO: more\n", "`TODO`")
        self.assert_breach("docs/a.md", "FIXME\n", "`FIXME`")

    def test_the_project_names_nothing_outside_it(self):
        for text in ("see /work/x", "shared/golden", "spec/model.md", "(spec: encoding)", "design.md", "issue 3"):
            self.assert_breach("src/base/a.cc", f"// {text}\n", "outside the project")
        self.assert_fine("src/base/a.cc", "// std::shared_ptr, the specification's names, an issue with a file\n")

    def test_contributing_is_short(self):
        self.assert_fine("CONTRIBUTING.md", "x\n" * 150)
        self.assert_breach("CONTRIBUTING.md", "x\n" * 151, "at most 150 lines")

    def test_intrinsics_live_in_one_folder(self):
        self.assert_breach("src/model/a.cc", "#include <immintrin.h>\n", "intrinsics live in")
        self.assert_breach("src/model/a.cc", "auto x = _mm256_add_ps(a, b);\n", "intrinsics live in")
        self.assert_fine("src/kernels/cpu/vec_avx2.h", HEADER + "#include <immintrin.h>\n")

    def test_every_verb_shows_an_example(self):
        verb = "void AddX(CLI::App& app, Selected* selected) {\n"
        self.assert_breach("tools/x.cc", verb, "shows an example")
        self.assert_fine("tools/x.cc", verb + 'sub->footer("Example: dsv4 x");\n')

    def test_no_test_is_switched_off(self):
        self.assert_breach("src/base/a_test.cc", "GTEST_SKIP();\n", "a test runs")
        self.assert_breach("src/base/a_test.cc", "TEST(A, DISABLED_B)\n", "a test runs")

    def test_files_are_in_snake_case(self):
        self.assert_breach("src/base/Json.cc", "\n", "snake_case")
        self.assert_fine("src/kernels/cpu/gemm-inl.h", HEADER)

    def test_data_is_not_prose(self):
        self.assert_fine("tests/golden/a.json", "TODO /work/\n")


if __name__ == "__main__":
    unittest.main()
