# SPDX-License-Identifier: Apache-2.0
"""`troupe generate`, `export` and `doctor`: what they promise, and what they say to wrong use."""

import json
import os
import shutil
import struct
import unittest

from harness import SystemTest

EXPORTED = ["config.json", "generation_config.json", "model.safetensors", "special_tokens_map.json", "tokenizer.json",
            "tokenizer_config.json"]


def read_safetensors(path):
    """{name: (type, shape, bytes)}"""
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        data = file.read()
    header.pop("__metadata__", None)
    return {name: (t["dtype"], t["shape"], data[slice(*t["data_offsets"])]) for name, t in header.items()}


def floats(dtype, data):
    if dtype == "BF16":
        return [struct.unpack("<f", b"\0\0" + data[i:i + 2])[0] for i in range(0, len(data), 2)]
    return [value for value, in struct.iter_unpack("<e" if dtype == "F16" else "<f", data)]


class ModelCommandsTest(SystemTest):
    def train(self):
        """A run of two steps; its folder."""
        job = self.home.copy_example("even_digits")
        code, _, err = self.home.call("run", job, "trainer.output_dir=run", "trainer.total_steps=2", "trainer.save_freq=1")
        self.assertEqual(code, 0, err)
        return os.path.join(self.home.work, "run")

    def refuse(self, status, expected, *arguments):
        code, out, err = self.home.call(*arguments)
        self.assertEqual((code, out), (status, ""), err)
        for piece in expected:
            self.assertIn(piece, err)

    def export(self, *arguments):
        code, _, err = self.home.call("export", *arguments)
        self.assertEqual(code, 0, err)

    def test_export_strips_training_state_and_casts(self):
        run = self.train()
        before = read_safetensors(os.path.join(run, "checkpoints/step_2/model.safetensors"))
        for option, name, bits in (("float32", "F32", 24), ("bfloat16", "BF16", 8), ("float16", "F16", 11)):
            self.export(os.path.join(run, "checkpoints/step_2"), "--to", option, "--dtype", option)
            folder = os.path.join(self.home.work, option)
            self.assertEqual(sorted(os.listdir(folder)), EXPORTED)
            after = read_safetensors(os.path.join(folder, "model.safetensors"))
            self.assertEqual({key: (name, value[1]) for key, value in before.items()},
                             {key: value[:2] for key, value in after.items()})
            for key in before:
                for was, now in zip(floats("F32", before[key][2]), floats(name, after[key][2])):
                    self.assertLessEqual(abs(was - now), abs(was) * 2.0 ** -bits + 2.0 ** -25, key)
            with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
                config = json.load(file)
            self.assertEqual(config["architectures"], ["LlamaForCausalLM"])
            self.assertEqual(config.get("dtype", config.get("torch_dtype")), option)
        # A run's folder means its newest checkpoint.
        self.export(run, "--to", "again")
        self.assertEqual(read_safetensors(os.path.join(self.home.work, "again/model.safetensors")), before)

    def test_every_end_id_and_the_chat_template_are_exported(self):
        model = os.path.join(self.train(), "checkpoints/step_2")
        checkpoint = shutil.copytree(model, os.path.join(self.home.work, "chatty"))
        os.remove(os.path.join(checkpoint, "MANIFEST.json"))  # else the change below is damage
        template = "{% for m in messages %}[{{ m.content }}]{% endfor %}"
        for name, change in (("generation_config.json", {"eos_token_id": [1, 5]}),
                             ("tokenizer_config.json", {"chat_template": template})):
            with open(os.path.join(checkpoint, name), "r+", encoding="utf-8") as file:
                content = json.load(file) | change
                file.seek(0)
                file.truncate()
                json.dump(content, file)
        self.export(checkpoint, "--to", "exported")
        for name, key, value in (("generation_config.json", "eos_token_id", [1, 5]),
                                 ("tokenizer_config.json", "chat_template", template)):
            with open(os.path.join(self.home.work, "exported", name), encoding="utf-8") as file:
                self.assertEqual(json.load(file)[key], value)

    def test_export_refuses_what_it_cannot_write_or_read(self):
        run = self.train()
        checkpoint = os.path.join(run, "checkpoints/step_2")
        self.refuse(2, ["--dtype", "float8", "bfloat16"], "export", checkpoint, "--to", "x", "--dtype", "float8")
        self.refuse(2, ["nowhere"], "export", "nowhere", "--to", "x")
        self.refuse(2, ["even_digits", "config.json"], "export", "even_digits", "--to", "x")
        self.refuse(2, ["step_2", "there already"], "export", checkpoint, "--to", checkpoint)
        self.refuse(2, ["--to"], "export", checkpoint)
        with open(os.path.join(checkpoint, "model.safetensors"), "r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"\x55")
        self.refuse(1, ["step_2", "model.safetensors", "checksum"], "export", checkpoint, "--to", "x")
        with open(os.path.join(checkpoint, "model.safetensors"), "r+b") as file:
            file.truncate(100_000)
        os.remove(os.path.join(checkpoint, "MANIFEST.json"))
        self.refuse(2, ["model.safetensors"], "export", checkpoint, "--to", "x")
        self.assertFalse([name for name in os.listdir(self.home.work) if name.startswith("x")])
        # The newest checkpoint is broken: a run's folder means the newest whole one.
        code, _, err = self.home.call("export", run, "--to", "x")
        self.assertEqual(code, 0, err)
        self.assertIn("step_1", err)

    def test_generate_answers_and_repeats_itself(self):
        run = self.train()
        arguments = ("generate", run, "q7ocbji4", "--raw", "--max-tokens", "5")
        code, greedy, err = self.home.call(*arguments)
        self.assertEqual(code, 0, err)
        self.assertLessEqual(len(greedy.strip()), 5)
        sampled = {seed: [self.home.call(*arguments, "--temperature", "1", "--seed", seed)[1] for _ in range(2)]
                   for seed in (1, 2, 3)}
        self.assertTrue(all(first == second for first, second in sampled.values()), sampled)
        self.assertGreater(len({first for first, _ in sampled.values()}), 1, "the seed changes nothing")

    def test_generate_says_what_is_wrong(self):
        run = self.train()
        self.refuse(2, ["no chat template", "--raw"], "generate", run, "hello")
        self.refuse(2, ["nowhere"], "generate", "nowhere", "hello")
        self.refuse(2, ["PROMPT"], "generate", run)
        self.refuse(2, ["--max-tokens", "at least 1", "'0'"], "generate", run, "a", "--raw", "--max-tokens", "0")
        self.refuse(2, ["did you mean '--max-tokens'?"], "generate", run, "a", "--max-token", "3")
        self.refuse(2, ["--raw excludes --chat"], "generate", run, "a", "--raw", "--chat")
        broken = self.home.write("broken.gguf", "GGML")
        self.refuse(2, ["broken.gguf", "GGUF"], "generate", broken, "a")

    def test_doctor_grades_and_advises(self):
        code, out, err = self.home.call("doctor")
        self.assertEqual(code, 0, out + err)
        for piece in ("processors", "memory", "open files", "free", "ports", "devices", "clock", "troupe 0.", "token",
                      "troupe_worker", "troupe_keeper", "tools/setup fetches it"):
            self.assertIn(piece, out)
        token = os.path.join(self.home.environment["HOME"], ".config/troupe/token")
        os.makedirs(os.path.dirname(token))
        with open(token, "w", encoding="utf-8") as file:
            file.write("0" * 64)
        os.chmod(token, 0o644)
        code, out, _ = self.home.call("doctor")
        self.assertEqual(code, 1)
        self.assertIn(f"chmod 600 {token}", out)
        os.chmod(token, 0o600)
        os.remove(os.path.join(self.home.bin, "troupe_worker"))
        code, out, _ = self.home.call("doctor")
        self.assertEqual(code, 1)
        self.assertIn("tools/build", out)
        self.refuse(2, ["troupe_worker", "tools/build"], "generate", "model", "hello")


if __name__ == "__main__":
    unittest.main(verbosity=2)
