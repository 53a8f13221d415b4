// SPDX-License-Identifier: Apache-2.0
// Commands on models that need LibTorch or the model code; the command line runs them in this binary.
//
//   generate MODEL PROMPT [...], export CHECKPOINT --to DIR [...]: model_options.h
//   make-model CONFIG.json|even_digits --to DIR [--seed S]
#pragma once

namespace troupe {

// argv[1] is the command. Exit status: 0 done, 1 failed, 2 wrong use or a bad file.
int RunModelCommand(int argc, char** argv);

}  // namespace troupe
