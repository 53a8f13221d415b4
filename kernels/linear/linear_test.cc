// SPDX-License-Identifier: Apache-2.0

#include "kernels/linear/linear.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <thread>
#include <vector>

#include "catch2/catch.hpp"

namespace troupe::kernels {
namespace {

std::vector<float> Normal(int64_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(size);
  for (float& value : values) value = normal(random);
  return values;
}

}  // namespace

TEST_CASE("Linear: equals the reference at any size, with and without a bias", "[linear]") {
  for (int64_t rows : {1, 2, 3, 7, 100}) {
    for (int64_t in : {1, 8, 12, 65, 576}) {
      for (int64_t out : {1, 3, 4, 30}) {
        const std::vector<float> x = Normal(rows * in, 1), w = Normal(out * in, 2), bias = Normal(out, 3);
        for (const float* b : {static_cast<const float*>(nullptr), bias.data()}) {
          std::vector<float> y(rows * out), expected(rows * out);
          Linear(x.data(), w.data(), b, y.data(), {rows, in, out});
          LinearReference(x.data(), w.data(), b, expected.data(), {rows, in, out});
          // Float32 sums of `in` products of about 1.
          for (size_t i = 0; i < y.size(); ++i) REQUIRE(std::abs(y[i] - expected[i]) < 2e-6f * std::sqrt(in) * 4);
        }
      }
    }
  }
}

TEST_CASE("Linear: a row has the same bits alone, in a batch and on several threads", "[linear]") {
  constexpr int64_t kRows = 101, kIn = 576, kOut = 1001;
  const std::vector<float> x = Normal(kRows * kIn, 1), w = Normal(kOut * kIn, 2);
  std::vector<float> batch(kRows * kOut), threaded(kRows * kOut), alone(kOut);
  Linear(x.data(), w.data(), nullptr, batch.data(), {kRows, kIn, kOut});
  const auto run = [](void*, int64_t tasks, Parallel::Task task, void* state) {
    std::vector<std::thread> threads;
    for (int64_t i = 0; i < tasks; ++i) threads.emplace_back([=] { task(state, i); });
    for (std::thread& thread : threads) thread.join();
  };
  Linear(x.data(), w.data(), nullptr, threaded.data(), {kRows, kIn, kOut}, Parallel(2, run, nullptr));
  CHECK(threaded == batch);
  for (int64_t row : {0, 1, 50, 100}) {
    Linear(x.data() + row * kIn, w.data(), nullptr, alone.data(), {1, kIn, kOut});
    CHECK(std::equal(alone.begin(), alone.end(), batch.begin() + row * kOut));
  }
}

}  // namespace troupe::kernels
