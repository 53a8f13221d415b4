// SPDX-License-Identifier: Apache-2.0
#include "scheduler/server/decision_loop.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <future>

#include "runtime/env/clock.h"

namespace troupe::scheduler {
namespace {

// A store that commits when the test lets it, on a thread of the test's, and at its end.
class HeldStore final : public RecordStore {
 public:
  ~HeldStore() override { Release(absl::OkStatus()); }
  absl::StatusOr<Contents> Load() override { return Contents{}; }
  void Append(std::vector<v1::Record> batch, Done done) override {
    MutexLock lock(mutex_);
    if (open_) return done(absl::OkStatus());
    held_.push_back({std::move(batch), std::move(done)});
    held_by_ = std::this_thread::get_id();
  }
  void Write(Writer writer) override {
    if (writer == Writer::kCaller && by_callers_) Release(absl::OkStatus());
  }
  // Until it is held again.
  void WriteByCallers() { by_callers_ = true; }
  void Snapshot(v1::ClusterSnapshot, Done done) override { Append({}, std::move(done)); }

  void Hold() {
    MutexLock lock(mutex_);
    open_ = by_callers_ = false;
  }
  size_t held() {
    MutexLock lock(mutex_);
    return held_.size();
  }
  // The last one, by the calling thread.
  bool held_here() {
    MutexLock lock(mutex_);
    return !held_.empty() && held_by_ == std::this_thread::get_id();
  }
  void Release(const absl::Status& status) {
    std::deque<std::pair<std::vector<v1::Record>, Done>> held;
    {
      MutexLock lock(mutex_);
      held.swap(held_);
    }
    for (auto& [batch, done] : held) done(status);
  }

 private:
  Mutex mutex_;
  bool open_ = true;
  std::thread::id held_by_;
  std::atomic<bool> by_callers_{false};
  std::deque<std::pair<std::vector<v1::Record>, Done>> held_;
};

SubmitJob Submit(CallId call) {
  SubmitJob event{call, {}, 1};
  event.request.mutable_spec()->set_name("job");
  event.request.mutable_spec()->set_output_dir("/tmp/job");
  v1::RoleSpec* role = event.request.mutable_spec()->add_roles();
  role->set_role("rollout");
  role->set_actor_class("Rollout");
  role->set_replicas(1);
  return event;
}

struct Fixture {
  explicit Fixture(absl::Duration commit_timeout = absl::Seconds(30)) {
    auto owned = std::make_unique<HeldStore>();
    store = owned.get();
    LoopOptions options;
    options.commit_timeout = commit_timeout;
    options.deliver = [this](Action action) { answers += std::holds_alternative<Answer>(action); };
    options.on_fatal = [this](const absl::Status& status) { fatal.set_value(status); };
    loop = DecisionLoop::Start(std::move(options), std::move(owned)).value();
    store->Hold();
  }
  bool WaitHeld(size_t count) {
    for (int i = 0; i < 500 && store->held() < count; ++i) PauseFor(absl::Milliseconds(10));
    return store->held() >= count;
  }
  HeldStore* store;
  std::atomic<int> answers{0};
  std::promise<absl::Status> fatal;
  std::unique_ptr<DecisionLoop> loop;
};

TEST_CASE("DecisionLoop: steps run ahead of the disk, answers leave when it has committed", "[loop]") {
  Fixture f;
  CHECK(f.loop->Post(Submit(1)));
  CHECK(f.loop->Post(Submit(2)));
  REQUIRE(f.WaitHeld(2));
  CHECK(f.answers == 0);
  f.store->Release(absl::OkStatus());
  f.loop->Stop();
  CHECK(f.answers == 2);
}

TEST_CASE("DecisionLoop: when nothing is under way a caller decides, writes and delivers itself", "[loop]") {
  Fixture f;
  f.store->Release(absl::OkStatus());
  f.store->WriteByCallers();
  // Again until the loop's thread has done what came with its start.
  CallId call = 0;
  bool here = false;
  for (int i = 0; !here && i < 500; ++i, PauseFor(absl::Milliseconds(10))) {
    f.store->Release(absl::OkStatus());
    if (f.answers < static_cast<int>(call)) continue;  // Something is under way.
    CHECK(f.loop->Decide(Submit(++call)));
    here = f.answers == static_cast<int>(call);  // What is left to the loop's thread is held until it is released.
  }
  CHECK(here);
  const int answered = f.answers;
  f.store->Hold();
  CHECK(f.loop->Decide(Submit(++call)));  // As when the store's thread writes: it does not wait for that.
  CHECK(f.loop->Decide(Submit(++call)));
  REQUIRE(f.WaitHeld(2));
  CHECK(f.answers == answered);
  f.store->Release(absl::OkStatus());
  f.loop->Stop();
  CHECK(f.answers == answered + 2);
}

TEST_CASE("DecisionLoop: a caller that must not block decides, and leaves the disk to the store's thread", "[loop]") {
  Fixture f;
  CallId call = 0;
  bool here = false;
  for (int i = 0; !here && i < 500; ++i, PauseFor(absl::Milliseconds(10))) {
    f.store->Release(absl::OkStatus());
    if (f.answers < static_cast<int>(call)) continue;  // Something is under way.
    CHECK(f.loop->Decide(Submit(++call), RecordStore::Writer::kStore));
    here = f.store->held_here();
    CHECK(f.answers == static_cast<int>(call) - 1);
  }
  CHECK(here);
  f.store->Release(absl::OkStatus());
  f.loop->Stop();
  CHECK(f.answers == static_cast<int>(call));
}

TEST_CASE("DecisionLoop: what became durable before its end is delivered at the end", "[loop]") {
  Fixture f;
  CHECK(f.loop->Post(Submit(1)));
  REQUIRE(f.WaitHeld(1));
  f.loop->Stop();
  CHECK(f.answers == 1);
}

TEST_CASE("DecisionLoop: a failed commit ends it and no later action leaves", "[loop]") {
  Fixture f;
  CHECK(f.loop->Post(Submit(1)));
  REQUIRE(f.WaitHeld(1));
  f.store->Release(absl::ResourceExhaustedError("disk full"));
  CHECK(f.fatal.get_future().get().code() == absl::StatusCode::kResourceExhausted);
  CHECK(f.answers == 0);
  CHECK(!f.loop->Post(Submit(2)));
  CHECK(f.loop->status().code() == absl::StatusCode::kResourceExhausted);
}

TEST_CASE("DecisionLoop: a commit that takes too long ends it, and what it would have answered is never sent",
          "[loop]") {
  Fixture f(absl::Milliseconds(100));
  CHECK(f.loop->Post(Submit(1)));
  CHECK(f.fatal.get_future().get().code() == absl::StatusCode::kDeadlineExceeded);
  f.loop = nullptr;  // Waits for no disk.
  REQUIRE(f.store->held() == 1);
  f.store->Release(absl::OkStatus());
  CHECK(f.answers == 0);
}

TEST_CASE("DecisionLoop: it does not start on a disk that does not answer", "[loop]") {
  auto owned = std::make_unique<HeldStore>();
  HeldStore* store = owned.get();
  store->Hold();
  absl::Status status = DecisionLoop::Start({.commit_timeout = absl::Milliseconds(50)}, std::move(owned)).status();
  CHECK(status.code() == absl::StatusCode::kDeadlineExceeded);
  store->Release(absl::OkStatus());  // A late answer does no harm: what it is for was kept.
}

}  // namespace
}  // namespace troupe::scheduler
