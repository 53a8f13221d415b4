// SPDX-License-Identifier: Apache-2.0
#include "runtime/embed/runtime.h"

#include "runtime/actor/actor_host.h"
#include "runtime/actor/executor.h"
#include "runtime/actor/local_actors.h"
#include "runtime/env/clock.h"
#include "runtime/transport/transport.h"

namespace troupe {

class Runtime::Parts {
 public:
  explicit Parts(const RuntimeOptions& options)
      : executor_(std::make_unique<ThreadPool>(ThreadPoolOptions{.threads = options.threads})) {
    TransportOptions transport_options;
    transport_options.process_name = options.name;
    transport_ = Transport::Create(std::move(transport_options), host_);
    router_ = transport_;
    ActorSetting setting;
    setting.self.path.job = JobId(options.name);
    actors_ = std::make_unique<LocalActors>(
        std::move(setting), host_, router_, *executor_,
        [transport = transport_.get()](const ActorLife& life, const v1::ExitCause& cause) {
          transport->MarkDead(life, cause);
        });
  }
  ~Parts() {
    actors_->Shutdown("the runtime ends", Monotonic::Infinite());
    executor_ = nullptr;  // Its last turns and timers use what goes below.
    transport_->Shutdown();
  }

  LocalActors& actors() { return *actors_; }
  const std::shared_ptr<CallRouter>& router() const { return router_; }

 private:
  ActorHost host_;
  std::unique_ptr<ThreadPool> executor_;
  std::shared_ptr<Transport> transport_;
  std::shared_ptr<CallRouter> router_;
  std::unique_ptr<LocalActors> actors_;
};

absl::StatusOr<Runtime> Runtime::Local(RuntimeOptions options) {
  if (options.name.empty()) return absl::InvalidArgumentError("a runtime has a name");
  return Runtime(std::make_unique<Parts>(options));
}

Runtime::Runtime(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Runtime::Runtime(Runtime&&) noexcept = default;
Runtime::~Runtime() = default;

ActorSpawner& Runtime::spawner() const { return parts_->actors(); }
const std::shared_ptr<CallRouter>& Runtime::router() const { return parts_->router(); }

}  // namespace troupe
