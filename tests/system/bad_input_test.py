# SPDX-License-Identifier: Apache-2.0
"""What a user can get wrong: one clear message, the right exit status, nothing left behind."""

import json
import os
import shutil
import time
import unittest

from harness import SystemTest, read_json_lines


class BadInputTest(SystemTest):
    def refuse(self, status, expected, *arguments):
        """Runs troupe; its exit status and every expected piece of text on stderr."""
        code, _, err = self.home.call(*arguments)
        self.assertEqual(code, status, err)
        for piece in expected:
            self.assertIn(piece, err)
        self.assertNotIn("check failed", err)
        self.assert_nothing_left()

    def job(self, *replacements):
        path = self.home.copy_example("even_digits")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for old, new in replacements:
            self.assertIn(old, text)
            text = text.replace(old, new)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def test_a_mistyped_key_names_file_line_and_the_right_one(self):
        job = self.job(("response_length", "response_lenght"))
        self.refuse(2, ["job.yaml:11", "rollout.response_lenght", "did you mean 'response_length'?"], "run", job)

    def test_a_mistyped_command_names_the_right_one(self):
        self.refuse(2, ["did you mean 'submit'?"], "submitt")

    def test_a_missing_job_file(self):
        self.refuse(2, ["nowhere.yaml"], "run", "nowhere.yaml")

    def test_a_missing_model(self):
        self.refuse(2, ["job.yaml:", "model.path", "nomodel", "did you mean 'model'?"], "run", self.job(("path: model", "path: nomodel")))

    def test_a_truncated_model(self):
        job = self.job(("path: model, init: random", "path: broken.gguf"))
        with open(os.path.join(os.path.dirname(job), "broken.gguf"), "wb") as file:
            file.write(b"GGUF\x03\x00\x00\x00\xff")
        self.refuse(2, ["broken.gguf"], "run", job)

    def test_a_missing_data_file(self):
        self.refuse(2, ["job.yaml:", "data.train", "nodata.jsonl"], "run", self.job(("train: train.jsonl", "train: nodata.jsonl")))

    def test_an_empty_data_set(self):
        job = self.job()
        open(os.path.join(os.path.dirname(job), "train.jsonl"), "w", encoding="utf-8").close()
        self.refuse(2, ["train.jsonl", "empty"], "run", job)

    def test_a_broken_data_line_is_named(self):
        job = self.job()
        with open(os.path.join(os.path.dirname(job), "train.jsonl"), "a", encoding="utf-8") as file:
            file.write("{broken\n")
        self.refuse(2, ["train.jsonl:257"], "run", job)

    def test_a_data_line_nested_without_end_is_named(self):
        job = self.job()
        with open(os.path.join(os.path.dirname(job), "train.jsonl"), "a", encoding="utf-8") as file:
            file.write('{"prompt": "abc", "x": ' + "[" * 200000 + "]" * 200000 + "}\n")
        self.refuse(2, ["train.jsonl:257", "nested deeper than 64"], "run", job)

    def test_data_without_end_is_refused(self):
        self.refuse(2, ["/dev/zero", "expected a file"], "run", self.job(("train: train.jsonl", "train: /dev/zero")))

    def test_a_column_that_is_not_there_is_named_with_the_nearest(self):
        self.refuse(2, ["train.jsonl:1", "no column 'promt'", "did you mean 'prompt'?"], "run", self.job(),
                    "data.prompt_key=promt")

    def test_a_reward_function_that_returns_too_few_scores_stops_the_job_with_the_reason(self):
        job = self.job(('python: "reward.py:even_digits"', 'python: "reward.py:short"'))
        with open(os.path.join(os.path.dirname(job), "reward.py"), "a", encoding="utf-8") as file:
            file.write("\n\ndef short(completions, **columns):\n    return [1.0]\n")
        self.refuse(2, ["reward.py: short() returned 1 scores for"], "run", job)

    def test_a_reward_command_runs_in_the_job_file_s_folder_and_its_last_word_is_told(self):
        command = self.job(('python: "reward.py:even_digits"', 'command: "./score.sh"'))
        score = os.path.join(os.path.dirname(command), "score.sh")
        with open(score, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\necho 'no such verifier' >&2\nexit 5\n")
        os.chmod(score, 0o755)
        self.refuse(1, ["reward/0", "exit status 5: no such verifier"], "run", command)

    def test_a_reward_program_that_crashes_stops_the_job_with_a_clear_error(self):
        job = self.job(('python: "reward.py:even_digits"', 'python: "reward.py:crashes"'))
        with open(os.path.join(os.path.dirname(job), "reward.py"), "a", encoding="utf-8") as file:
            file.write("\n\ndef crashes(prompts, completions, **columns):\n    import os\n    os._exit(7)\n")
        begin = time.monotonic()
        self.refuse(1, ["reward/0", "exit status 7", "10 times in a row", "roles.reward.max_crashes"], "run", job)
        self.assertLess(time.monotonic() - begin, 25)

    def test_a_reward_of_nan_stops_the_job_with_a_clear_error(self):
        job = self.job(('python: "reward.py:even_digits"', 'python: "reward.py:nan"'))
        with open(os.path.join(os.path.dirname(job), "reward.py"), "a", encoding="utf-8") as file:
            file.write("\n\ndef nan(prompts, completions, **columns):\n    return [float('nan')] * len(prompts)\n")
        self.refuse(1, ["reward"], "run", job)

    def test_a_prompt_longer_than_the_context_is_named_skipped_and_counted_or_refused(self):
        job = self.job()
        data = os.path.join(os.path.dirname(job), "train.jsonl")
        with open(data, encoding="utf-8") as file:
            lines = file.read().splitlines()
        lines[4] = json.dumps({"prompt": "a" * 5000})
        self.home.write("even_digits/train.jsonl", "\n".join(lines) + "\n")
        out = f"trainer.output_dir={self.home.work}/out"
        code, _, err = self.home.call("run", job, out, "trainer.total_steps=1", "data.filter_overlong_prompts=true")
        self.assertEqual(code, 0, err)
        told = [event["reason"] for event in read_json_lines(f"{self.home.work}/out/events.jsonl")
                if event.get("event") == "prompts_filtered"]
        self.assertEqual(len(told), 1)
        for piece in ("1 prompt", "line 5", data):
            self.assertIn(piece, told[0])
            self.assertIn(piece, err)
        self.refuse(2, [f"{data}:5", "5000 tokens", "filter_overlong_prompts"], "run", job,
                    "data.filter_overlong_prompts=false", "data.truncation=error")

    def pretrained(self):
        """A job that trains a whole model, with its tokenizer: what another run began with."""
        out = os.path.join(self.home.work, "out")
        code, _, err = self.home.call("run", self.job(), f"trainer.output_dir={out}", "trainer.total_steps=1")
        self.assertEqual(code, 0, err)
        job = self.job(("path: model, init: random", "path: model"))
        shutil.copytree(os.path.join(out, "initial_model"), os.path.join(os.path.dirname(job), "model"),
                        dirs_exist_ok=True)
        return job

    def test_a_corrupt_tokenizer_is_named(self):
        job = self.pretrained()
        path = os.path.join(os.path.dirname(job), "model/tokenizer.json")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for content in (text[:len(text) // 2], "", '{"model": {"type": "Unknown"}}'):
            self.home.write("even_digits/model/tokenizer.json", content)
            self.refuse(2, ["tokenizer.json"], "run", job)
        os.remove(path)
        self.refuse(2, ["tokenizer"], "run", job)

    def test_a_corrupt_safetensors_model_is_named(self):
        job = self.pretrained()
        weights = os.path.join(os.path.dirname(job), "model/model.safetensors")
        for content in (b"", b"\xff" * 64, b"\x10\0\0\0\0\0\0\0{\"a\": 1}        "):
            with open(weights, "wb") as file:
                file.write(content)
            self.refuse(2, ["model.safetensors"], "run", job)

    def test_data_that_is_no_json_lines_is_named(self):
        job = self.job(("train: train.jsonl", "train: train.jsonl.gz"))
        self.home.write("even_digits/train.jsonl.gz", "no gzip")
        self.refuse(2, ["train.jsonl.gz"], "run", job)
        self.home.write("even_digits/train.jsonl.gz", "")
        self.refuse(2, ["train.jsonl.gz", "empty"], "run", job)

    def test_a_second_run_in_a_held_folder_is_refused(self):
        job = self.job()
        out = f"trainer.output_dir={self.home.work}/out"
        first = self.home.troupe("run", job, out, "trainer.total_steps=100000", "trainer.resume=auto")
        self.wait_for("the first run starts", lambda: self.home.workers(), 30)
        code, _, err = self.home.call("run", job, out, "trainer.total_steps=100000", "trainer.resume=auto")
        self.assertEqual(code, 2, err)
        self.assertIn("another run (pid", err)
        self.home.kill_everything()
        first.wait(timeout=10)

    def test_a_job_that_can_never_fit_is_refused_with_the_nearest_fit(self):
        self.refuse(2, ["rollout", "999"], "run", self.job(("cpu: 1}", "cpu: 999}")))

    def test_a_head_that_is_not_there(self):
        os.makedirs(os.path.join(self.home.environment["HOME"], ".config/troupe"))
        with open(os.path.join(self.home.environment["HOME"], ".config/troupe/token"), "w", encoding="utf-8") as file:
            file.write("0" * 64)
        os.chmod(file.name, 0o600)
        self.refuse(3, ["127.0.0.1:1", "is it running"], "jobs", "--head", "127.0.0.1:1")

    def test_a_port_in_use_is_a_clear_failure(self):
        import socket
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            self.refuse(2, [str(port)], "head", "--listen", f"127.0.0.1:{port}")

    def test_explain_prints_every_value_with_its_source(self):
        code, out, err = self.home.call("explain", self.job(), "trainer.total_steps=3", "-o", "json")
        self.assertEqual(code, 0, err)
        values = {value["key"]: value for value in json.loads(out)}
        self.assertEqual(values["trainer.total_steps"]["source"], "command line")
        self.assertEqual(values["rollout.top_k"]["source"], "default")


if __name__ == "__main__":
    unittest.main(verbosity=2)
