# SPDX-License-Identifier: Apache-2.0
"""Reward of even_digits: the share of even digits in an answer of eight characters."""


def even_digits(prompts, completions, **columns):
    """TRL's shape: a list of completions in, a list of rewards out."""
    return [sum(character in "02468" for character in completion) / 8 for completion in completions]
