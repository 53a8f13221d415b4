# SPDX-License-Identifier: Apache-2.0
"""tools/install, and what a user does with the result: examples/embed_cmake is built against it, in another place."""

import glob
import os
import re
import shutil
import subprocess
import tempfile
import unittest

from harness import SystemTest, surviving_steps


def run(*command, cwd=None, **variables):
    """(exit status, output of both kinds)."""
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "LANG": "C.UTF-8", **variables}
    done = subprocess.run(command, cwd=cwd, env=environment, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=150, check=False)
    return done.returncode, done.stdout


class InstallTest(unittest.TestCase):
    """The command itself; what is built is what Bazel laid beside this test."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="troupe-install-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.folder)
        self.prefix = os.path.join(self.folder, "prefix")

    def install(self, *arguments, **variables):
        return run("tools/install", *arguments, **variables)

    def files(self):
        """{path below the prefix: (inode, time of change)}."""
        found = {}
        for folder, _, names in os.walk(self.prefix):
            for name in names:
                path = os.path.join(folder, name)
                info = os.lstat(path)
                found[os.path.relpath(path, self.prefix)] = (info.st_ino, info.st_mtime_ns)
        return found

    def test_a_second_time_changes_nothing_and_mends_what_differs(self):
        status, output = self.install("--prefix", self.prefix, "--from", ".")
        self.assertEqual(status, 0, output)
        first = self.files()
        self.assertEqual({os.path.dirname(path).split("/")[0] for path in first}, {"bin", "include", "lib", "share"})
        self.assertEqual(self.install("--prefix", self.prefix, "--from", ".")[0], 0)
        self.assertEqual(self.files(), first)

        header = os.path.join(self.prefix, "include/troupe/runtime/troupe.h")
        with open(header, "a", encoding="utf-8") as file:
            file.write("// edited\n")
        os.unlink(os.path.join(self.prefix, "lib/libtroupe.so"))
        # A header of an older version that is none any more.
        stale = os.path.join(self.prefix, "include/troupe/runtime/old/stale.h")
        os.makedirs(os.path.dirname(stale))
        shutil.copy(header, stale)
        with open(os.path.join(self.prefix, "share/troupe/installed.txt"), "a", encoding="utf-8") as file:
            file.write("include/troupe/runtime/old/stale.h\n../outside.txt\n")
        outside = os.path.join(self.folder, "outside.txt")
        shutil.copy(header, outside)
        status, output = self.install("--prefix", self.prefix, "--from", ".")
        self.assertEqual(status, 0, output)
        self.assertEqual(set(self.files()), set(first))
        self.assertFalse(os.path.exists(os.path.dirname(stale)))
        self.assertTrue(os.path.exists(outside), "only files below the prefix are removed")
        self.assertNotIn("// edited", self.read("include/troupe/runtime/troupe.h"))

    def read(self, path):
        with open(os.path.join(self.prefix, path), encoding="utf-8") as file:
            return file.read()

    def test_headers_are_those_that_a_user_needs(self):
        self.assertEqual(self.install("--prefix", self.prefix, "--from", ".")[0], 0)
        cmake, pkg_config = self.read("lib/cmake/Troupe/TroupeConfig.cmake"), self.read("lib/pkgconfig/troupe.pc")
        include = os.path.join(self.prefix, "include/troupe")
        headers = {os.path.relpath(path, include) for path in glob.glob(f"{include}/**/*.h", recursive=True)}
        self.assertIn("runtime/troupe.h", headers)
        self.assertIn("troupe/v1/actor.pb.h", headers)
        self.assertFalse([name for name in headers if re.match("scheduler|kernels|tools|tests|actors/(?!reward/)", name)])
        for name in headers:
            for library, rest in re.findall(r'#\s*include\s*[<"](\w+)/([^">]+)', self.read(f"include/troupe/{name}")):
                if library == "absl":
                    part = os.path.basename(rest)[:-2]
                    part = {"thread_annotations": "core_headers"}.get(part, part)
                    self.assertIn(f"absl::{part};", cmake, f"{name} includes {rest}")
                    self.assertIn(f" absl_{part} ", pkg_config, f"{name} includes {rest}")
                else:
                    self.assertIn(library, ("runtime", "actors", "troupe", "google", "sys"), f"{name} includes it")

    def test_below_destdir_as_packagers_do(self):
        status, output = self.install("--prefix", "/opt/none/troupe", "--from", ".", DESTDIR=self.folder)
        self.assertEqual(status, 0, output)
        self.assertTrue(os.path.exists(os.path.join(self.folder, "opt/none/troupe/bin/troupe")))
        self.assertFalse(os.path.exists("/opt/none"))

    def test_what_is_wrong_is_told(self):
        file = os.path.join(self.folder, "file")
        with open(file, "w", encoding="utf-8") as made:
            made.write("kept")
        empty = os.path.join(self.folder, "empty")
        os.mkdir(empty)
        for arguments, expected, sentence in (
            (("--prefix", f"{file}/x", "--from", "."), 1, f"{file} is not a folder. Choose another --prefix"),
            (("--prefix", "/proc/self/troupe", "--from", "."), 1, "/proc/self/troupe"),
            (("--prefix", self.prefix, "--from", empty), 1, "is not built"),
            ((), 2, "--prefix"),
            (("--prefix", ""), 2, "--prefix is empty"),
            (("--prefix", self.prefix, "rest"), 2, "rest"),
        ):
            with self.subTest(arguments):
                status, output = self.install(*arguments)
                self.assertEqual(status, expected, output)
                self.assertIn(sentence, output)
                self.assertNotIn("Traceback", output)
                self.assertFalse(os.path.exists(self.prefix))
        if os.getuid() != 0:  # Root may write everywhere.
            os.chmod(empty, 0o555)
            self.assertIn(f"{empty} is not writable", self.install("--prefix", f"{empty}/x", "--from", ".")[1])
        status, output = self.install("--help")
        self.assertEqual(status, 0)
        self.assertIn("find_package(Troupe)", output)


class EmbedTest(SystemTest):
    """The prefix is moved after the installation: nothing in it may remember where it was."""

    def setUp(self):
        super().setUp()
        made = os.path.join(self.home.root, "made")
        status, output = run("tools/install", "--prefix", made, "--from", ".")
        self.assertEqual(status, 0, output)
        self.prefix = os.path.join(self.home.root, "moved")
        os.rename(made, self.prefix)
        self.source = os.path.join(self.home.work, "embed_cmake")
        shutil.copytree("examples/embed_cmake", self.source)

    def must(self, *command, **options):
        status, output = run(*command, **options)
        self.assertEqual(status, 0, f"{command}\n{output}")
        return output

    def test_a_cmake_project_is_built_and_runs(self):
        build = os.path.join(self.home.work, "build")
        self.must("cmake", "-S", self.source, "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}")
        self.must("cmake", "--build", build, "--parallel", "2")
        self.assertEqual(self.must(f"{build}/hello"), "Hello, world!\n")
        # Processes of their own: the keeper is that of the prefix.
        self.assertEqual(self.must(f"{build}/primes", TMPDIR=self.home.root), "9592 primes\n3 processes\n")
        self.assertIn("100% tests passed", self.must("ctest", "--test-dir", build))
        self.assert_nothing_left()
        libraries = self.must("ldd", f"{build}/hello")
        self.assertIn(f"{self.prefix}/lib/libtroupe.so.", libraries)
        self.assertNotIn("torch", libraries)

        status, output = run("cmake", "-S", self.source, "-B", f"{build}-none")
        self.assertNotEqual(status, 0)
        self.assertIn("TroupeConfig.cmake", output)
        project = os.path.join(self.source, "CMakeLists.txt")
        with open(project, encoding="utf-8") as file:
            text = file.read()
        with open(project, "w", encoding="utf-8") as file:
            file.write(text.replace("find_package(Troupe 0.1", "find_package(Troupe 0.2"))
        status, output = run("cmake", "-S", self.source, "-B", f"{build}-later", f"-DCMAKE_PREFIX_PATH={self.prefix}")
        self.assertNotEqual(status, 0)
        self.assertRegex(output, r'compatible\s+with\s+requested\s+version\s+"0.2"')

    def test_pkg_config_is_enough(self):
        pkg_config = {"PKG_CONFIG_PATH": f"{self.prefix}/lib/pkgconfig"}
        flags = self.must("pkg-config", "--cflags", "--libs", "troupe", **pkg_config).split()
        program = os.path.join(self.home.work, "hello")
        self.must("g++", "-std=c++20", f"{self.source}/hello.cc", *flags, "-o", program)
        self.assertEqual(self.must(program), "Hello, world!\n")
        version = self.must("pkg-config", "--modversion", "troupe", **pkg_config).strip()
        self.assertIn(version, self.must(f"{self.prefix}/bin/troupe", "--version"))
        library = os.path.join(self.prefix, "lib", f"libtroupe.so.{version}")
        soname = re.search(r"SONAME.*\[(.*)\]", self.must("readelf", "-d", library)).group(1)
        self.assertEqual(soname, f"libtroupe.so.{'.'.join(version.split('.')[:2])}", "soname in tools/installing")
        self.assertEqual(os.path.realpath(f"{self.prefix}/lib/{soname}"), library)

    def test_the_installed_troupe_runs_a_job_with_a_reward_class_that_cmake_built(self):
        self.home.bin = os.path.join(self.prefix, "bin")
        self.home.copy_example("even_digits")
        job = self.home.copy_example("custom_reward")
        build = os.path.join(os.path.dirname(job), "build")
        self.must("cmake", "-S", os.path.dirname(job), "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}")
        self.must("cmake", "--build", build)
        code, _, err = self.home.call("run", job, f"trainer.output_dir={self.home.work}/out",
                                      f"roles.reward.worker_binary={build}/custom_reward")
        self.assertEqual(code, 0, err)
        self.assertGreater(surviving_steps(f"{self.home.work}/out")[20]["critic/score/mean"], 0.8)
        self.assert_nothing_left()


if __name__ == "__main__":
    unittest.main()
