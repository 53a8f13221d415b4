// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/device_watch.h"

#include <thread>
#include <utility>

#include "runtime/base/mutex.h"
#include "runtime/env/clock.h"
#include "runtime/env/thread.h"

namespace troupe::device {

struct DeviceWatch::Shared {
  NodeDevices devices;  // Of the thread.
  absl::Duration interval, patience;

  Mutex mutex;
  ConditionVariable changed;
  Sink sink ABSL_GUARDED_BY(mutex);  // Null: nothing is told any more.
  bool stopping ABSL_GUARDED_BY(mutex) = false;
  bool ended ABSL_GUARDED_BY(mutex) = true;
  bool given_up ABSL_GUARDED_BY(mutex) = false;
  Monotonic look_began ABSL_GUARDED_BY(mutex) = Monotonic::Infinite();  // Infinite: none is under way.
  std::vector<v1::DeviceHealth> last ABSL_GUARDED_BY(mutex);

  void SetEnded(bool now) {
    MutexLock lock(mutex);
    ended = now;
    changed.NotifyAll();
  }
  void Tell(const std::vector<v1::DeviceHealth>& now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    for (size_t i = 0; i < now.size() && i < last.size(); ++i) {
      if (now[i].state() == last[i].state() && now[i].reason() == last[i].reason()) continue;
      last[i] = now[i];
      if (sink) sink(static_cast<int>(i), now[i]);
    }
  }
};

DeviceWatch::DeviceWatch(NodeDevices devices, Sink sink, absl::Duration interval, absl::Duration patience)
    : shared_(std::make_shared<Shared>()) {
  const bool any = !devices.empty();
  {
    MutexLock lock(shared_->mutex);
    for (const OfferedDevice& device : devices.devices()) shared_->last.push_back(device.found.device.health());
    shared_->sink = std::move(sink);
  }
  shared_->devices = std::move(devices);
  shared_->interval = interval;
  shared_->patience = patience;
  if (!any) return;
  // Without a thread nothing is looked at; that is no reason not to run.
  shared_->SetEnded(false);
  absl::StatusOr<std::thread> thread = StartThread([shared = shared_] { Look(shared); });
  if (thread.ok()) {
    thread->detach();
  } else {
    shared_->SetEnded(true);
    status_ = thread.status();
  }
}

DeviceWatch::~DeviceWatch() {
  MutexLock lock(shared_->mutex);
  shared_->stopping = true;
  shared_->sink = nullptr;
  shared_->changed.NotifyAll();
  Shared& shared = *shared_;
  shared_->changed.WaitUntil(lock, MonotonicNow() + kEndPatience, [&] { return shared.ended; });
}

void DeviceWatch::Look(const std::shared_ptr<Shared>& shared) {
  Shared& s = *shared;
  while (true) {
    {
      MutexLock lock(s.mutex);
      s.changed.WaitUntil(lock, MonotonicNow() + s.interval, [&] { return s.stopping; });
      if (s.stopping) break;
      s.look_began = MonotonicNow();
    }
    const std::vector<v1::DeviceHealth> now = s.devices.Health();
    MutexLock lock(s.mutex);
    s.look_began = Monotonic::Infinite();
    if (s.stopping) break;
    if (!s.given_up) s.Tell(now);
  }
  s.SetEnded(true);
}

void DeviceWatch::CheckLate(Monotonic now) {
  MutexLock lock(shared_->mutex);
  Shared& s = *shared_;
  if (s.look_began.infinite() || s.given_up || now < s.look_began + s.patience) return;
  s.given_up = true;
  s.Tell(std::vector<v1::DeviceHealth>(s.last.size(),
                                       Failed("the driver has not answered for " + absl::FormatDuration(s.patience))));
}

}  // namespace troupe::device
