// SPDX-License-Identifier: Apache-2.0

#include "kernels/paged_attention/paged_attention.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "catch2/catch.hpp"

namespace troupe::kernels {
namespace {

// Float32 against double sums over up to some hundred positions.
constexpr float kTolerance = 2e-6f;

struct Problem {
  AttentionShape shape;
  std::vector<std::vector<int32_t>> tables;
  std::vector<SequenceRows> sequences;
  std::vector<float> q, keys, values;
  int64_t rows = 0;
};

// Sequences of {position, rows}, with pages in random order; what no sequence wrote is NaN.
Problem Make(AttentionShape shape, const std::vector<std::pair<int64_t, int64_t>>& sequences, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Problem problem{.shape = shape};
  const PageShape& pages = shape.pages;
  int64_t num_pages = 0;
  for (const auto& [position, rows] : sequences)
    num_pages += (position + rows + pages.page_tokens - 1) / pages.page_tokens;
  std::vector<int32_t> order(num_pages);
  for (int64_t i = 0; i < num_pages; ++i) order[i] = static_cast<int32_t>(i);
  std::shuffle(order.begin(), order.end(), random);
  problem.keys.assign(num_pages * pages.page_floats(), std::numeric_limits<float>::quiet_NaN());
  problem.values = problem.keys;

  size_t next = 0;
  for (const auto& [position, rows] : sequences) {
    std::vector<int32_t> table;
    for (int64_t p = 0; p < position + rows; p += pages.page_tokens) table.push_back(order[next++]);
    problem.tables.push_back(table);
  }
  for (size_t s = 0; s < sequences.size(); ++s) {
    const auto [position, rows] = sequences[s];
    const int64_t width = pages.kv_heads * pages.head_dim;
    std::vector<float> k((position + rows) * width), v(k.size());
    for (float& x : k) x = normal(random);
    for (float& x : v) x = normal(random);
    const SequenceRows all{problem.tables[s].data(), 0, position + rows, 0};
    StoreKeysAndValues(k.data(), v.data(), width, &all, 1, pages, problem.keys.data(), problem.values.data());
    problem.sequences.push_back({problem.tables[s].data(), problem.rows, rows, position});
    problem.rows += rows;
  }
  problem.q.resize(problem.rows * shape.query_stride);
  for (float& x : problem.q) x = normal(random);
  return problem;
}

std::vector<float> Run(const Problem& problem) {
  std::vector<float> out(problem.rows * problem.shape.out_stride, 0.0f);
  PagedAttention(problem.q.data(), problem.keys.data(), problem.values.data(), problem.sequences.data(),
                 problem.sequences.size(), problem.shape, out.data());
  return out;
}

AttentionShape Shape(int64_t heads, int64_t kv_heads, int64_t head_dim, int64_t page_tokens) {
  return {.pages = {kv_heads, head_dim, page_tokens},
          .heads = heads,
          .query_stride = (heads + 2 * kv_heads) * head_dim,
          .out_stride = heads * head_dim,
          .scale = 1.0f / std::sqrt(static_cast<float>(head_dim))};
}

}  // namespace

TEST_CASE("PagedAttention: equals the reference for decoding and prefill, any heads and pages", "[paged_attention]") {
  const std::vector<AttentionShape> shapes = {Shape(9, 3, 64, 16), Shape(4, 2, 8, 8),    Shape(4, 1, 16, 16),
                                              Shape(2, 2, 24, 32), Shape(8, 1, 128, 64), Shape(3, 3, 12, 16),
                                              Shape(5, 1, 8, 12)};
  for (const AttentionShape& shape : shapes) {
    const Problem problem = Make(shape, {{0, 1}, {0, 37}, {19, 1}, {64, 3}, {63, 1}, {130, 70}, {15, 2}}, 1);
    std::vector<float> expected(problem.rows * shape.out_stride);
    PagedAttentionReference(problem.q.data(), problem.keys.data(), problem.values.data(), problem.sequences.data(),
                            problem.sequences.size(), shape, expected.data());
    const std::vector<float> got = Run(problem);
    REQUIRE(got.size() == expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      if (!(std::abs(got[i] - expected[i]) < kTolerance))
        FAIL("element " << i << ": " << got[i] << ", not " << expected[i]);
    }
  }
}

TEST_CASE("PagedAttention: a row has the same bits however its prompt is cut", "[paged_attention]") {
  const Problem whole = Make(Shape(9, 3, 64, 16), {{0, 150}}, 2);
  const std::vector<float> expected = Run(whole);
  for (int64_t cut : {1, 5, 64, 100, 149}) {
    Problem parts = whole;
    parts.sequences = {{whole.tables[0].data(), 0, cut, 0}, {whole.tables[0].data(), cut, 150 - cut, cut}};
    CHECK(Run(parts) == expected);
  }
}

TEST_CASE("PagedAttention: large scores do not overflow", "[paged_attention]") {
  Problem problem = Make(Shape(4, 2, 16, 8), {{30, 5}}, 3);
  for (float& x : problem.q) x *= 1000.0f;
  for (float x : Run(problem)) REQUIRE(std::isfinite(x));
}

}  // namespace troupe::kernels
