// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/bench_reader.h"

#include "runtime/actor/actor_context.h"
#include "runtime/base/status.h"
#include "runtime/env/clock.h"

namespace troupe::bench {
namespace {

constexpr size_t kPageBytes = 4096;

}  // namespace

absl::Status BenchReader::OnStart(ActorContext& context) {
  context_ = &context;
  return absl::OkStatus();
}

absl::StatusOr<double> BenchReader::GetUs(const ObjectRef<ObjectBytes>& ref) const {
  Monotonic begin = MonotonicNow();
  absl::StatusOr<ObjectBytes> bytes = context_->Get(ref);
  absl::Duration took = MonotonicNow() - begin;
  if (!bytes.ok()) return bytes.status();
  return absl::ToDoubleMicroseconds(took);
}

absl::StatusOr<int64_t> BenchReader::Look(const ObjectRef<ObjectBytes>& ref) const {
  TROUPE_ASSIGN_OR_RETURN(ObjectBytes bytes, context_->Get(ref));
  int64_t sum = 0;
  for (size_t i = 0; i < bytes.size(); i += kPageBytes) sum += static_cast<int64_t>(bytes.span()[i]);
  if (sum == 0) return absl::DataLossError("the object's bytes are not those that were put");
  return static_cast<int64_t>(bytes.size());
}

TROUPE_ACTOR_REGISTER(BenchReader, TROUPE_INIT());

}  // namespace troupe::bench
