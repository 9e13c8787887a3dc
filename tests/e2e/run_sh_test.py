"""./run.sh as a newcomer uses it: from any folder, with and without a terminal, quick the second time."""
import pathlib
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def run(*args, stdin=""):
    """Runs run.sh from a folder of no meaning; returns (exit code, standard output, standard error)."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([ROOT / "run.sh", *args], input=stdin, cwd=folder, capture_output=True, text=True,
                              timeout=600, check=False)
    return done.returncode, done.stdout, done.stderr


class RunShTest(unittest.TestCase):
    def test_a_subcommand_gets_its_arguments_and_standard_output_holds_nothing_else(self):
        code, out, err = run("--version")
        self.assertEqual(code, 0, err)
        self.assertTrue(out.startswith("dsv4 "), out)

    def test_the_exit_code_is_that_of_the_program(self):
        code, out, _ = run("no-such-subcommand")
        self.assertEqual(code, 2)
        self.assertEqual(out, "")

    def test_it_chats_without_a_terminal_and_says_that_the_weights_are_random(self):
        code, out, err = run(stdin="hello\n")
        self.assertEqual(code, 0, err)
        self.assertNotEqual(out.strip(), "")
        self.assertIn("random weights", err)

    def test_the_second_run_starts_in_under_two_seconds(self):
        run("--version")
        seconds = []
        for _ in range(3):  # the best of three: other tests run at the same time
            start = time.monotonic()
            run("--version")
            seconds.append(time.monotonic() - start)
        self.assertLess(min(seconds), 2)


if __name__ == "__main__":
    unittest.main()
