// SPDX-License-Identifier: Apache-2.0
// The reference of the job file, made from the table of keys: docs/job-file.md is this text.
#pragma once

#include <string>

namespace troupe {

// Markdown: every key with its default and meaning.
std::string JobReferenceMarkdown();

}  // namespace troupe
