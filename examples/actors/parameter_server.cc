// SPDX-License-Identifier: Apache-2.0
// A parameter server: workers fetch the parameters, compute a gradient, and send it back. Shows structs as arguments,
// tasks that await, one-way messages, and groups.
#include <iostream>
#include <numeric>

#include "runtime/troupe.h"

// [struct]
struct Gradient {
  int64_t worker = 0;
  std::vector<double> values;
};
TROUPE_STRUCT(Gradient, worker, values);
// [/struct]

class Server : public troupe::Actor {
 public:
  explicit Server(int64_t size) : parameters_(static_cast<size_t>(size), 1.0) {}

  std::vector<double> Parameters() const { return parameters_; }
  void Apply(const Gradient& gradient) {
    for (size_t i = 0; i < parameters_.size(); ++i) parameters_[i] -= 0.1 * gradient.values[i];
  }

 private:
  std::vector<double> parameters_;
};
TROUPE_ACTOR(Server, TROUPE_METHODS(Parameters, Apply), TROUPE_INIT(int64_t));

// [task]
class Worker : public troupe::Actor {
 public:
  Worker(int64_t id, troupe::Ref<Server> server) : id_(id), server_(std::move(server)) {}

  // The loss before the step. While it awaits, its thread does other work.
  troupe::Task<double> Step() {
    absl::StatusOr<std::vector<double>> parameters = co_await server_.Call<&Server::Parameters>();
    if (!parameters.ok()) co_return parameters.status();
    Gradient gradient{id_, *parameters};  // Of half the sum of squares.
    absl::Status sent = server_.Send<&Server::Apply>(gradient);
    if (!sent.ok()) co_return sent;
    double loss = 0;
    for (double value : *parameters) loss += 0.5 * value * value;
    co_return loss;
  }

 private:
  const int64_t id_;
  troupe::Ref<Server> server_;
};
TROUPE_ACTOR(Worker, TROUPE_METHODS(Step), TROUPE_INIT(int64_t, troupe::Ref<Server>));
// [/task]

int main() {
  troupe::Runtime runtime = troupe::Runtime::Local().value();
  troupe::Ref<Server> server = runtime.Spawn<Server>({.name = "server"}, 4).value();
  // [group]
  troupe::Group<Worker> workers = runtime.SpawnGroup<Worker>(3, {.name = "worker"}, 0, server).value();
  for (int step = 0; step < 5; ++step) {
    absl::StatusOr<double> loss = workers.Broadcast<&Worker::Step>().Reduce(std::plus<>());
    if (!loss.ok()) {
      std::cerr << loss.status().message() << "\n";  // "1 of 3 members failed, local/worker.2/0#4 first: ..."
      return 1;
    }
  }
  // [/group]
  double largest = 0;
  const std::vector<double> parameters = server.Call<&Server::Parameters>().Get().value();
  for (double value : parameters) largest = std::max(largest, value);
  std::cout << (largest < 0.5 ? "converges" : "does not converge") << "\n";
}
