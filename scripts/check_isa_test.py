import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import check_isa  # noqa: E402

PRIVATE = "dsv4::kernels::cpu::(anonymous namespace)::Product(dsv4::kernels::ProductArgs const&)"


def code(name, *instructions):
    lines = [f"0000000000000000 <{name}>:"]
    lines += [f"   {16 * i:x}:\t{text}" for i, text in enumerate(instructions)]
    return "\n".join(lines)


class BreachesTest(unittest.TestCase):
    def test_baseline_passes(self):
        text = code("f", "movups (%rax),%xmm0", "addps %xmm1,%xmm0", "rep bsf %eax,%ebx", "tzcnt %eax,%ebx", "verr %ax",
                    "cvttss2si %xmm0,%eax", "pextrw $0x0,%xmm0,%eax", "pmaxub %xmm0,%xmm1", "lock cmpxchg %ecx,(%rdi)")
        self.assertEqual(list(check_isa.breaches(text, False)), [])

    def test_what_lies_beyond_is_named(self):
        for instruction in ("vmovups (%rax),%ymm0", "vfmadd231ps %zmm0,%zmm1,%zmm2", "{vex} vpdpbusd %ymm0,%ymm1,%ymm2",
                            "kmovd %eax,%k1", "popcnt %eax,%eax", "pshufb %xmm0,%xmm1", "shlx %eax,%ebx,%ecx",
                            "roundss $0x9,%xmm0,%xmm0", "pmovzxbw (%rdi),%xmm0", "tileloadd (%rax,%rbx,1),%tmm0"):
            found = list(check_isa.breaches(code("f", "ret", instruction), False))
            self.assertEqual([name for name, _ in found], ["f"], instruction)

    def test_target_regions_may_and_their_neighbours_may_not(self):
        text = code(PRIVATE, "vzeroupper") + "\n" + code("dsv4::ToBf16(float)", "vmovd %xmm0,%eax", "vzeroupper")
        self.assertEqual(list(check_isa.breaches(text, True)), [("dsv4::ToBf16(float)", "vmovd")])
        self.assertEqual([name for name, _ in check_isa.breaches(text, False)], [PRIVATE, "dsv4::ToBf16(float)"])

    def test_a_folder_without_objects_fails(self):
        with tempfile.TemporaryDirectory() as folder:
            found, _ = check_isa.check(pathlib.Path(folder), "objdump")
        self.assertEqual(len(found), 1)


if __name__ == "__main__":
    unittest.main()
