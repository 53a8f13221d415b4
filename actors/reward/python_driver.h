// SPDX-License-Identifier: Apache-2.0
// The program around a Python reward function: `python3 -c kPythonRewardDriver FILE FUNCTION`.
#pragma once

namespace troupe {

// Takes verl's compute_score(data_source, solution_str, ground_truth, extra_info), which scores one row, and TRL's
// fn(prompts, completions, **columns), which scores a list: the rows that have come in meanwhile. What the function
// prints goes to stderr. A function that cannot be loaded ends the program with a reason on stderr.
inline constexpr char kPythonRewardDriver[] = R"py(
import importlib.util, inspect, json, math, os, select, sys
out = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)
sys.stdout = sys.stderr
path, name = sys.argv[1], sys.argv[2]
sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
spec = importlib.util.spec_from_file_location("troupe_reward", path)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
function = getattr(module, name, None)
if function is None:
    sys.exit("%s has no function %s" % (path, name))
parameters = inspect.signature(function).parameters
any_keyword = any(p.kind == p.VAR_KEYWORD for p in parameters.values())
OWN = {"id", "row_id", "prompt", "response", "response_ids", "answer"}

def reply(row, score, more=None):
    answer = dict(more or {})
    answer["id"] = row["id"]
    if score is None or isinstance(score, (str, bytes)) or not math.isfinite(float(score)):
        answer["exception"] = "the score is %r" % (score,)
    else:
        answer["score"] = float(score)
    out.write(json.dumps(answer) + "\n")

def one(row):
    extra = row.get("extra_info") or {}
    values = {"data_source": row.get("data_source"), "solution_str": row["response"], "ground_truth": row["answer"],
              "extra_info": extra}
    result = function(**{k: v for k, v in values.items() if any_keyword or k in parameters})
    if isinstance(result, dict):
        more = {k: v for k, v in result.items() if isinstance(v, (int, float)) and k != "score" and math.isfinite(v)}
        reply(row, result.get("score"), more)
    else:
        reply(row, result)

def many(rows):
    values = {"prompts": [r["prompt"] for r in rows], "completions": [r["response"] for r in rows],
              "completion_ids": [r["response_ids"] for r in rows], "answer": [r["answer"] for r in rows]}
    for key in set().union(*rows) - OWN:
        values.setdefault(key, [r.get(key) for r in rows])
    scores = function(**{k: v for k, v in values.items() if any_keyword or k in parameters})
    if len(scores) != len(rows):
        raise ValueError("%d scores for %d completions" % (len(scores), len(rows)))
    for row, score in zip(rows, scores):
        reply(row, score)

def guarded(call, rows):
    try:
        call(rows)
    except Exception as error:
        if isinstance(rows, list) and len(rows) > 1:
            for row in rows:
                guarded(many, [row])
            return
        row = rows[0] if isinstance(rows, list) else rows
        out.write(json.dumps({"id": row["id"], "exception": "%s: %s" % (type(error).__name__, error)}) + "\n")

pending = b""
while True:
    chunk = os.read(0, 1 << 20)
    if not chunk:
        break
    pending += chunk
    while select.select([0], [], [], 0)[0]:
        chunk = os.read(0, 1 << 20)
        if not chunk:
            break
        pending += chunk
    *lines, pending = pending.split(b"\n")
    rows = [json.loads(line) for line in lines if line]
    if "solution_str" in parameters:
        for row in rows:
            guarded(one, row)
    elif rows:
        guarded(many, rows)
)py";

}  // namespace troupe
