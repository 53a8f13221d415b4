// SPDX-License-Identifier: Apache-2.0
// Runtime: actors in a program of one's own.
//
//   troupe::Runtime runtime = troupe::Runtime::Local().value();
//   troupe::Ref<Counter> counter = runtime.Spawn<Counter>({.name = "counter"}, 10).value();
//   absl::StatusOr<int64_t> sum = counter.Call<&Counter::Add>(5).Get();  // 15
//
// Actors live in this process, on a pool of threads as large as the machine has cores (threads that wait for futures
// are not counted). One whose options ask for resources gets a process of its own, placed by a head: of a cluster
// (Connect), or started within this process at the first such actor (Local; the program links
// //scheduler/server:embedded). That process runs this very program, which becomes a worker inside Local or Connect and
// does not return from it: call one of them early in main. Destroying the runtime stops all actors, children with their
// parents, and waits for that; calls through refs that are left fail. Safe to use from any thread.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/actor/actor.h"
#include "runtime/actor/actor_context.h"
#include "runtime/actor/group.h"
#include "runtime/actor/object_ref.h"
#include "runtime/actor/ref.h"
#include "runtime/actor/spawn.h"
#include "runtime/actor/spawn_actor.h"
#include "runtime/rpc/security.h"

namespace troupe {

struct RuntimeOptions {
  std::string name = "local";  // The namespace of the actors' names; the first part of what they are called in errors.
  int threads = 0;             // 0: as many as the machine has cores.
  int64_t object_bytes_max = 0;  // Of objects made here that are not small; 0: half of the machine's memory.
  std::string keeper_program;    // Of Local, for actors with processes; "": troupe_keeper beside this program.
};

class Runtime {
 public:
  // INVALID_ARGUMENT: no name. Others: the system gives no folder or no socket for processes to call by.
  static absl::StatusOr<Runtime> Local(RuntimeOptions options = {});
  // `head_target`: "host:port". Actors in processes run on the nodes of that head; those of other machines cannot call
  // the actors of this process. UNAVAILABLE or DEADLINE_EXCEEDED: no head answers there; UNAUTHENTICATED: it does not
  // take the token. Within seconds.
  static absl::StatusOr<Runtime> Connect(const std::string& head_target, RpcSecurity security,
                                         RuntimeOptions options = {});
  Runtime(Runtime&&) noexcept;
  Runtime& operator=(Runtime&&) = delete;
  ~Runtime();

  // Constructs the actor with `args` and returns when its OnStart has ended. Errors as of ActorSpawner::Spawn.
  template <typename T, typename... Args>
  absl::StatusOr<Ref<T>> Spawn(const SpawnOptions& options, Args&&... args) {
    return internal::SpawnActor<T>(spawner(), router(), options, nullptr, std::forward<Args>(args)...);
  }

  // `size` actors with the same options and arguments; the name of member i is "name.i". If one fails to start, none
  // stays. Members with processes of their own are placed all or none, and end together: when one is stopped, or has
  // failed once more than its policy allows.
  template <typename T, typename... Args>
  absl::StatusOr<Group<T>> SpawnGroup(size_t size, const SpawnOptions& options, const Args&... args) {
    std::vector<Ref<T>> members;
    if (options.NeedsProcess() && size > 0) {
      absl::StatusOr<std::vector<ActorAddress>> addresses =
          SpawnProcesses(internal::ClassName<T>(), internal::EncodeInit<T>(args...), options, size);
      if (!addresses.ok()) return addresses.status();
      for (ActorAddress& address : *addresses) members.emplace_back(std::move(address), router());
      return Group<T>(std::move(members));
    }
    for (size_t i = 0; i < size; ++i) {
      SpawnOptions own = options;
      if (!own.name.empty()) own.name += "." + std::to_string(i);
      absl::StatusOr<Ref<T>> member = Spawn<T>(own, args...);
      if (!member.ok()) {
        for (const Ref<T>& started : members) (void)Stop(started, "its group could not be started");
        return member.status();
      }
      members.push_back(*std::move(member));
    }
    return Group<T>(std::move(members));
  }

  // The newest life of the actor of that name, whatever its class is (a call of another class's method answers
  // UNIMPLEMENTED). NOT_FOUND: there is none.
  template <typename T>
  absl::StatusOr<Ref<T>> Find(const std::string& name) const {
    return internal::FindActor<T>(spawner(), router(), name);
  }
  // The newest life of the actor that a ref names. NOT_FOUND: it has ended for good, or is no actor of this runtime.
  template <typename T>
  absl::StatusOr<Ref<T>> Latest(const Ref<T>& ref) const {
    absl::StatusOr<Ref<T>> latest = Find<T>(ref.life().path.role);
    if (!latest.ok() || latest->life().path.job == ref.life().path.job) return latest;
    return absl::NotFoundError(ref.life().ToString() + " has ended for good; " + latest->life().ToString() +
                               " has its name now");
  }
  // Those that live, or are between two lives; here and in processes.
  std::vector<ActorInfo> List() const { return spawner().List(); }

  // Ends the actor and its children: OnStop, destructors; OK when that is over. A life that has ended is OK too.
  // DEADLINE_EXCEEDED: a handler has not come to its end; the stop goes on. One of a group of processes: all of them.
  template <typename T>
  absl::Status Stop(const Ref<T>& ref, const std::string& reason, absl::Duration grace = absl::Seconds(30)) {
    return spawner().Stop(ref.life(), reason, grace);
  }

  // Objects (runtime/actor/object_ref.h): Put copies into one, Get gives bytes and tensors without a copy. What it gave
  // stays good when the runtime has ended.
  template <typename T>
  auto Put(const T& value) const {
    return objects().Put(value);
  }
  template <typename T>
  absl::StatusOr<T> Get(const ObjectRef<T>& ref, absl::Duration timeout = kGetTimeoutDefault) const {
    return objects().Get(ref, timeout);
  }
  Objects objects() const { return Objects(router()->objects()); }

  // How this process reaches others, and others it; and why not by rings, where it does not.
  std::vector<Connection> connections() const { return router()->Connections(); }

  // For code that spawns, or makes refs, without knowing the runtime. The spawner is the runtime's.
  ActorSpawner& spawner() const;
  const std::shared_ptr<CallRouter>& router() const;

 private:
  class Parts;
  absl::StatusOr<std::vector<ActorAddress>> SpawnProcesses(const std::string& actor_class, const std::string& arguments,
                                                           const SpawnOptions& options, size_t size);
  explicit Runtime(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace troupe
