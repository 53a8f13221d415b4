// SPDX-License-Identifier: Apache-2.0
// The program around a Python reward function: `python3 -u -c kPythonRewardDriver FILE FUNCTION`, which needs
// nothing but the standard library. It speaks what docs/rewards.md says of programs ("A program"): rows on stdin,
// answers on stdout, a JSON object a line each; it ends when stdin is closed.
#pragma once

namespace troupe {

// Takes verl's compute_score(data_source, solution_str, ground_truth, extra_info), which scores one row, and TRL's
// fn(prompts, completions, **columns), which scores a list: the rows that have come in meanwhile. Which of the two it
// is, the parameter `solution_str` says. What the function prints goes to stderr. One thread: the function is never
// called twice at a time in one process; roles.reward.workers processes run side by side.
//
// An exception of the function is a fault of its row (of each row that fails alone too). What no row is to blame for
// ends the program with {"fatal": why}: a file that cannot be imported, a function that is not there, that asks for a
// column that is not there, or that gives another number of scores than it was given completions.
inline constexpr char kPythonRewardDriver[] = R"py(
import importlib.util, inspect, json, math, os, select, sys, traceback
out = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)
sys.stdout = sys.stderr
path, name = sys.argv[1], sys.argv[2]
file = os.path.basename(path)
sys.path.insert(0, os.path.dirname(os.path.abspath(path)))

def fatal(why):
    out.write(json.dumps({"fatal": "%s: %s" % (file, plain(why))}) + "\n")
    out.flush()
    sys.exit(1)

def plain(text):
    return text.encode("utf-8", "replace").decode()

def load():
    spec = importlib.util.spec_from_file_location("troupe_reward", path)
    if spec is None:
        fatal("is no Python file (its name must end in .py)")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        traceback.print_exc()
        fatal("cannot be imported: %s: %s" % (type(error).__name__, error))
    function = getattr(module, name, None)
    if not callable(function):
        there = [k for k, v in vars(module).items() if inspect.isfunction(v) and v.__module__ == "troupe_reward"]
        fatal("has no function %s; there are: %s" % (name, ", ".join(there) or "none"))
    try:
        return function, inspect.signature(function).parameters
    except ValueError:
        fatal("the parameters of %s cannot be told" % name)

function, parameters = load()
any_keyword = any(p.kind == p.VAR_KEYWORD for p in parameters.values())
OWN = {"id", "row_id", "prompt", "response", "response_ids", "answer"}

def arguments(values):
    for p in parameters.values():
        if p.name in values or p.default is not p.empty or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            continue
        fatal("%s() asks for '%s', which is none of: %s" % (name, p.name, ", ".join(sorted(values))))
    return {k: v for k, v in values.items() if any_keyword or k in parameters}

def answer(row, score, more=None):
    reply = dict(more or {})
    reply["id"] = row["id"]
    if score is None or isinstance(score, (str, bytes)) or not math.isfinite(float(score)):
        reply["exception"] = plain("the score is %r" % (score,))[:1000]
    else:
        reply["score"] = float(score)
    return reply

def one(rows):
    row = rows[0]
    result = function(**arguments({
        "data_source": row.get("data_source"), "solution_str": row["response"], "ground_truth": row["answer"],
        "extra_info": row.get("extra_info") or {}}))
    if not isinstance(result, dict):
        return [answer(row, result)]
    more = {k: v for k, v in result.items() if isinstance(v, (int, float)) and k != "score" and math.isfinite(v)}
    if isinstance(result.get("pred"), str):
        more["pred"] = plain(result["pred"])
    return [answer(row, result.get("score"), more)]

def many(rows):
    values = {"prompts": [r["prompt"] for r in rows], "completions": [r["response"] for r in rows],
              "completion_ids": [r["response_ids"] for r in rows], "answer": [r["answer"] for r in rows]}
    for key in set().union(*rows) - OWN:
        values.setdefault(key, [r.get(key) for r in rows])
    scores = function(**arguments(values))
    if not hasattr(scores, "__len__") or isinstance(scores, (str, bytes, dict)):
        fatal("%s() returned %s, not a list of scores" % (name, type(scores).__name__))
    if len(scores) != len(rows):
        fatal("%s() returned %d scores for %d completions" % (name, len(scores), len(rows)))
    return [answer(row, score) for row, score in zip(rows, scores)]

def answer_all(call, rows):
    try:
        replies = call(rows)
    except Exception as error:
        if len(rows) > 1:
            for row in rows:
                answer_all(call, [row])
            return
        text = plain("%s: %s" % (type(error).__name__, error))[:1000]
        replies = [{"id": rows[0]["id"], "exception": text}]
    for reply in replies:
        out.write(json.dumps(reply) + "\n")

def ready():
    return select.select([0], [], [], 0)[0]

pending = bytearray()
while True:
    chunk = os.read(0, 1 << 20)
    if not chunk:
        break
    pending += chunk
    while b"\n" in chunk and ready():
        more = os.read(0, 1 << 20)
        if not more:
            break
        pending += more
    if b"\n" not in chunk:
        continue
    *lines, pending = pending.split(b"\n")
    rows = [json.loads(line) for line in lines if line]
    if "solution_str" in parameters:
        for row in rows:
            answer_all(one, [row])
    elif rows:
        answer_all(many, rows)
)py";

}  // namespace troupe
