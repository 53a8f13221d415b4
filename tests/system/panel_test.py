# SPDX-License-Identifier: Apache-2.0
"""The live panel on a terminal (a pty): it draws, Ctrl-C says what it does, and the terminal is left as it was."""

import fcntl
import os
import pty
import re
import struct
import termios
import threading
import unittest

from harness import SystemTest


class Terminal:
    """A terminal with a program on it; `text` is all that was written so far."""

    def __init__(self, rows, columns):
        self.ours, self.program = pty.openpty()
        fcntl.ioctl(self.program, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.before = termios.tcgetattr(self.program)
        self.text = ""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        try:
            while data := os.read(self.ours, 1 << 16):
                self.text += data.decode(errors="replace")
        except OSError:
            pass

    def frames(self):
        """What stood on the terminal after each time that it was drawn anew."""
        return re.split("\r\x1b\\[\\d+A\x1b\\[J", self.text)


class PanelTest(SystemTest):
    def start(self, rows, columns, *overrides):
        terminal = Terminal(rows, columns)
        self.home.environment["TERM"] = "xterm"
        job = self.home.copy_example("even_digits")
        process = self.home.troupe("run", job, f"trainer.output_dir={self.home.work}/out", *overrides,
                                   stdin=terminal.program, stderr=terminal.program, stdout=terminal.program,
                                   preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        return terminal, process

    def visible(self, frame):
        return re.sub("\x1b\\[[0-9;]*m", "", frame)

    def finish(self, terminal, process, status):
        process.wait(timeout=55)
        self.wait_for("the last line is read", lambda: re.search("everything of it is in .*\r\n", terminal.text))
        self.assertEqual(process.returncode, status, terminal.text)

    def assert_clean(self, terminal):
        self.assertEqual(termios.tcgetattr(terminal.program), terminal.before)
        self.assertNotIn("\x1b[?", terminal.text, "a mode, such as a hidden cursor")
        self.assertEqual(terminal.text.count("\x1b[1m"), terminal.text.count("\x1b[0m"))
        self.assertTrue(terminal.text.endswith("\r\n"))

    def test_it_shows_what_happens_and_fits_the_terminal(self):
        for rows, columns in ((24, 80), (50, 200), (6, 30)):
            terminal, process = self.start(rows, columns, "trainer.total_steps=40", "trainer.resume=never")
            self.finish(terminal, process, 0)
            frames = [self.visible(frame) for frame in terminal.frames()]
            for frame in frames[1:-1]:  # the first has where it runs above it, the last is the summary
                lines = frame.split("\r\n")
                self.assertLessEqual(len(lines), rows)
                self.assertLess(max(map(len, lines)), columns)
            if rows > 20:
                training = [frame for frame in frames if "reward " in frame]
                for piece in ("/40 ", "█", " left", "length ", " s a step", "tokens/s", "staleness", "actor/0", "rollout/0",
                              "reward/0", "waits for"):
                    self.assertTrue(any(piece in frame for frame in training), f"{piece!r} in none of {frames[-4:]}")
            self.assertIn("even_digits succeeded after", frames[-1])
            self.assert_clean(terminal)
            os.rename(f"{self.home.work}/out", f"{self.home.work}/out-{columns}")

    def test_ctrl_c_says_what_it_does_and_leaves_the_terminal_clean(self):
        terminal, process = self.start(24, 80, "trainer.total_steps=100000")
        self.wait_for("steps", lambda: "tokens/s" in terminal.text, 40)
        os.write(terminal.ours, b"\x03")
        self.finish(terminal, process, 130)
        shown = self.visible(terminal.text)
        self.assertIn("\x1b[Jstopping at a safe point with a checkpoint; Ctrl-C again ends it now\r\n", shown)
        self.assertIn(f"go on with: troupe resume {self.home.work}/out\r\n", shown)
        self.assert_clean(terminal)
        self.assert_nothing_left()


if __name__ == "__main__":
    unittest.main(verbosity=2)
