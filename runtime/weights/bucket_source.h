// SPDX-License-Identifier: Apache-2.0
// BucketSource: where a WeightReceiver gets the buckets of a version from, and how a transfer that lost its reason is
// given up. PullSource of weight_source_client.h asks a publisher over gRPC; tests have their own.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "runtime/base/monotonic.h"
#include "runtime/base/mutex.h"
#include "troupe/v1/weights.pb.h"

namespace troupe {

// Pull from one thread at a time; Cancel from any.
class BucketSource {
 public:
  virtual ~BucketSource() = default;

  // Calls `take` for the buckets of the version from `first_bucket` on, in order, until the last, an error of `take`
  // (which it returns), an error of its own, or the deadline. UNAVAILABLE: broken, may be resumed. NOT_FOUND: not kept
  // any more. CANCELLED: by Cancel.
  virtual absl::Status Pull(const v1::WeightManifest& manifest, int64_t first_bucket, Monotonic deadline,
                            const std::function<absl::Status(const v1::WeightBucket&)>& take) = 0;

  // Ends the Pull that goes on and each later one.
  void Cancel();
  // Waits until then at most; whether Cancel was called.
  bool WaitCancelled(Monotonic until);

 protected:
  // Around a Pull: `end` (short, any thread) makes it end soon. False: Cancel was called, there is nothing to begin.
  bool BeginPull(std::function<void()> end);
  void EndPull();

 private:
  Mutex mutex_;
  ConditionVariable changed_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::function<void()> end_pull_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace troupe
