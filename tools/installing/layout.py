# SPDX-License-Identifier: Apache-2.0
"""What stands where below the prefix. Pure: reads sources and built files, writes nothing."""

import pathlib
import re
from typing import NamedTuple, Optional

PROGRAMS = ("tools/cli/troupe", "tools/keeper/troupe_keeper", "actors/worker/troupe_worker")
LIBRARY = "tools/installing/libtroupe.so"
# What users include; the headers that these include come with them.
PUBLIC_HEADERS = ("runtime/troupe.h", "runtime/testing/simulation.h", "actors/reward/row_scoring.h")
# Folders whose headers are Troupe's own; all others are of system libraries.
_OWN = ("runtime/", "scheduler/", "actors/", "troupe/")

_TEMPLATES = pathlib.Path(__file__).resolve().parent
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)


class Unbuilt(Exception):
    """A file that should have been built is not there."""


class Entry(NamedTuple):
    """One installed file, or a link in the place of one."""

    path: str  # Relative to the prefix.
    mode: int = 0o644
    source: Optional[pathlib.Path] = None  # Its content; or
    text: str = ""
    link: str = ""  # What it points to, relative.

    def content(self):
        return self.source.read_bytes() if self.source else self.text.encode()


def entries(roots):
    """Every installed file. `roots`: the folders in which the repository's files and the built ones are looked for."""
    version = _version(_find(roots, "tools/cli/version.h"))
    abi = ".".join(version.split(".")[:2])
    found = [Entry(f"bin/{name.rpartition('/')[2]}", 0o755, _find(roots, name)) for name in PROGRAMS]
    found.append(Entry(f"lib/libtroupe.so.{version}", 0o644, _find(roots, LIBRARY)))
    found.append(Entry(f"lib/libtroupe.so.{abi}", link=f"libtroupe.so.{version}"))
    found.append(Entry("lib/libtroupe.so", link=f"libtroupe.so.{abi}"))
    for name, path in sorted(_headers(roots).items()):
        found.append(Entry(f"include/troupe/{name}", 0o644, path))
    for name, folder in (
        ("TroupeConfig.cmake", "lib/cmake/Troupe"),
        ("TroupeConfigVersion.cmake", "lib/cmake/Troupe"),
        ("troupe.pc", "lib/pkgconfig"),
    ):
        text = (_TEMPLATES / f"{name}.in").read_text(encoding="utf-8")
        found.append(Entry(f"{folder}/{name}", text=text.replace("@VERSION@", version).replace("@ABI@", abi)))
    return found


def _find(roots, name):
    for root in roots:
        for path in (root / name, root / "proto" / name):
            if path.is_file():
                return path
    raise Unbuilt(f"{name} is not built: it is not in {' or '.join(map(str, roots))}")


def _version(header):
    return re.search(r'kVersion\[\] = "(\d+\.\d+\.\d+)"', header.read_text(encoding="utf-8")).group(1)


def _headers(roots):
    """{name as included: path} of the public headers and all of Troupe's that they include."""
    found = {}
    todo = list(PUBLIC_HEADERS)
    while todo:
        name = todo.pop()
        if name in found or not name.startswith(_OWN):
            continue
        found[name] = _find(roots, name)
        todo += _INCLUDE.findall(found[name].read_text(encoding="utf-8"))
    return found
