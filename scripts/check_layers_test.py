"""Each rule of the layer table reports a planted breach and lets the allowed form pass."""
import pathlib
import tempfile
import unittest

import check_layers


class CheckLayersTest(unittest.TestCase):
    def found(self, file, *includes):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "src", file)
            path.parent.mkdir(parents=True)
            path.write_text("#pragma once\n" + "".join(f"#include {include}\n" for include in includes))
            return check_layers.check(pathlib.Path(folder))

    def assert_breach(self, file, include, why):
        found = self.found(file, include)
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith(f"src/{file}:2: "), found)
        self.assertIn(why, found[0])

    def assert_fine(self, file, *includes):
        self.assertEqual(self.found(file, *includes), [])

    def test_an_include_upwards_is_reported(self):
        self.assert_breach("base/json.cc", '"text/tokenizer.h"', "base may not include text")
        self.assert_breach("text/tokenizer.cc", '"engine/engine.h"', "text may not include engine")
        self.assert_breach("kernels/ref/gemm.cc", '"ops/ops.h"', "kernels may not include ops")
        self.assert_breach("server/routes.cc", '"engine/engine.h"', "server may not include engine")

    def test_includes_downwards_and_of_libraries_pass(self):
        self.assert_fine("ops/cpu_ops.cc", '"kernels/kernels.h"', '"ops/ops.h"', "<vector>", "<fmt/format.h>",
                         "<rapidjson/reader.h>")

    def test_angle_brackets_do_not_hide_an_include(self):
        self.assert_breach("base/json.cc", "<text/tokenizer.h>", "base may not include text")

    def test_only_the_doors_of_a_folder_may_be_included(self):
        self.assert_breach("engine/executor.cc", '"model/attention.h"', "its doors are model.h")
        self.assert_breach("service/generation.cc", '"engine/scheduler.h"', "its doors are engine.h")
        self.assert_fine("engine/executor.cc", '"model/model.h"', '"model/batch.h"')
        self.assert_fine("model/model.cc", '"model/attention.h"')

    def test_kernels_reach_the_processor_only_from_dispatch(self):
        self.assert_breach("kernels/ref/gemm.cc", '"platform/cpu_features.h"', "only as dispatch.cc")
        self.assert_breach("kernels/dispatch.cc", '"platform/thread_pool.h"', "only as dispatch.cc")
        self.assert_fine("kernels/dispatch.cc", '"platform/cpu_features.h"')

    def test_the_model_reaches_checkpoints_only_from_weights(self):
        self.assert_breach("model/model.cc", '"checkpoint/safetensors.h"', "only as weights.cc")
        self.assert_breach("model/weights.h", '"checkpoint/safetensors.h"', "only as weights.cc")
        self.assert_fine("model/weights.cc", '"checkpoint/safetensors.h"')

    def test_src_never_includes_tools_or_tests(self):
        self.assert_breach("service/generation.cc", '"tools/command.h"', "src may not include tools")
        self.assert_breach("base/json.cc", '"tests/support/compare.h"', "src may not include tests")

    def test_unit_tests_may_include_anything(self):
        self.assert_fine("base/json_test.cc", '"tests/support/compare.h"', '"engine/engine.h"')

    def test_a_header_is_named_with_its_folder(self):
        self.assert_breach("base/json.cc", '"json.h"', "does not name its folder")

    def test_an_unknown_folder_is_reported(self):
        found = self.found("helpers/thing.cc")
        self.assertEqual(found, ["src/helpers/thing.cc:1: the layer table does not know this folder"])

    def test_the_table_has_no_cycle(self):
        for folder, below in check_layers.MAY_INCLUDE.items():
            for other in below.split():
                self.assertNotIn(folder, check_layers.MAY_INCLUDE[other].split(), (folder, other))


if __name__ == "__main__":
    unittest.main()
