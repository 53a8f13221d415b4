// SPDX-License-Identifier: Apache-2.0
// An actor within this program.
#include <iostream>

#include "greeter.h"

int main() {
  troupe::Runtime runtime = troupe::Runtime::Local().value();
  troupe::Ref<Greeter> greeter = runtime.Spawn<Greeter>({.name = "greeter"}, "Hello").value();
  std::cout << greeter.Call<&Greeter::Greet>("world").Get().value() << "\n";  // Hello, world!
}
