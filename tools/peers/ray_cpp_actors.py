# SPDX-License-Identifier: Apache-2.0
"""Compiles and runs ray_cpp_actors.cc against PyPI's ray-cpp.

  V/bin/python tools/peers/ray_cpp_actors.py
"""
import os
import shutil
import subprocess
import sys
import tempfile

import figures

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    try:
        import ray
    except ImportError as error:
        figures.cannot(f"{error}; tools/peers/setup ray installs it")
    package = os.path.join(os.path.dirname(ray.__file__), "cpp")
    if not os.path.exists(os.path.join(package, "include/ray/api.h")):
        figures.cannot("PyPI's ray-cpp is not there; tools/peers/setup ray installs it")
    folder = tempfile.mkdtemp(prefix="ray-cpp-", dir="/tmp")
    try:
        program, library = os.path.join(folder, "program"), os.path.join(folder, "lib/libpeer.so")
        os.makedirs(os.path.dirname(library))
        flags = ["g++", "-std=c++17", "-O2", "-w", "-D_GLIBCXX_USE_CXX11_ABI=0", "-fPIC", "-I",
                 os.path.join(package, "include"), os.path.join(HERE, "ray_cpp_actors.cc"), "-L",
                 os.path.join(package, "lib"), f"-Wl,-rpath,{os.path.join(package, 'lib')}", "-lray_api", "-pthread"]
        for output in (["-o", program], ["-shared", "-o", library]):
            compiled = subprocess.run(flags + output, capture_output=True, text=True, check=False)
            if compiled.returncode != 0:
                figures.cannot("ray_cpp_actors.cc does not compile with this ray-cpp:\n" + compiled.stderr[-3000:])
        environment = dict(os.environ, RAY_CPP_LIBRARIES=os.path.dirname(library),
                           PATH=os.path.dirname(sys.executable) + ":" + os.environ["PATH"])
        result = subprocess.run([program], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=False)
        print("\n".join(line for line in result.stdout.splitlines() if line.startswith('{"')))
        raise SystemExit(result.returncode)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
