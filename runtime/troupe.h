// SPDX-License-Identifier: Apache-2.0
// The public header of the runtime: write actors, hold refs to them, and host them in a program of one's own
// (runtime/embed/runtime.h; docs/actors.md is the guide) or in a worker process.
//
// A worker program of one's own is a main that calls RunWorker and links the classes it hosts:
//
//   class Hello : public troupe::Actor { ... };
//   TROUPE_ACTOR(Hello, TROUPE_METHODS(Greet), TROUPE_INIT(int64_t));
//   int main(int argc, char** argv) { return troupe::RunWorker(argc, argv); }
//
// and in the job file: `roles: {hello: {class: Hello, args: [3], worker_binary: bin/hello, replicas: 2}}`.
#pragma once

#include "runtime/actor/actor.h"
#include "runtime/actor/actor_context.h"
#include "runtime/actor/call_error.h"
#include "runtime/actor/future.h"
#include "runtime/actor/group.h"
#include "runtime/actor/object_ref.h"
#include "runtime/actor/ref.h"
#include "runtime/actor/stream.h"
#include "runtime/actor/task.h"
#include "runtime/actor/wait.h"
#include "runtime/embed/runtime.h"
#include "runtime/worker/actor_directory.h"
#include "runtime/worker/worker_main.h"
