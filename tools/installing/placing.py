# SPDX-License-Identifier: Apache-2.0
"""Puts entries below a folder, and takes away those of the installation before that are none any more."""

import os
import pathlib

# The list of what was installed, for the next time.
RECORD = "share/troupe/installed.txt"


class Refused(Exception):
    """The folder cannot be written; the text says why."""


def check(target):
    """Raises Refused if nothing can be installed below `target`. Makes nothing."""
    folder = target
    while not os.path.lexists(folder):
        folder = folder.parent
    if not folder.is_dir():
        raise Refused(f"{folder} is not a folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise Refused(f"{folder} is not writable for you")


def place(entries, target):
    """Installs the entries; what is there already stays untouched. Returns how many files changed, came or went."""
    changed = sum(_put(entry, target / entry.path) for entry in entries)
    record = target / RECORD
    now = sorted(entry.path for entry in entries)
    before = record.read_text(encoding="utf-8").splitlines() if record.is_file() else []
    gone = sorted(set(before) - set(now))
    for path in gone:
        _remove(target, path)
    if before != now:
        _write(record, 0o644, "".join(f"{path}\n" for path in now).encode())
    return changed + len(gone)


def _put(entry, path):
    if entry.link:
        if path.is_symlink() and os.readlink(path) == entry.link:
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = _aside(path)
        aside.unlink(missing_ok=True)
        aside.symlink_to(entry.link)
        os.replace(aside, path)
        return True
    content = entry.content()
    if path.is_file() and not path.is_symlink() and path.stat().st_mode & 0o777 == entry.mode and path.read_bytes() == content:
        return False
    _write(path, entry.mode, content)
    return True


def _write(path, mode, content):
    """A program that runs keeps its file: the new one takes its place by a rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = _aside(path)
    try:
        aside.write_bytes(content)
        aside.chmod(mode)
        os.replace(aside, path)
    except OSError:
        aside.unlink(missing_ok=True)
        raise


def _aside(path):
    return path.with_name(f".{path.name}.{os.getpid()}")


def _remove(target, name):
    """Removes a file of the record, and the folders that it leaves empty."""
    path = pathlib.Path(os.path.normpath(target / name))
    if target not in path.parents:
        return  # Not what we wrote.
    path.unlink(missing_ok=True)
    for folder in path.parents:
        if folder == target or any(folder.iterdir()):
            break
        folder.rmdir()
