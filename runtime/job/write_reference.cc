// SPDX-License-Identifier: Apache-2.0
// Prints the reference of the job file: bazel run //runtime/job:write_reference > docs/job-file.md
#include <cstdio>

#include "runtime/job/job_reference.h"

int main() { std::fputs(troupe::JobReferenceMarkdown().c_str(), stdout); }
