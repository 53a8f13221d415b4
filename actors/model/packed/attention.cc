// SPDX-License-Identifier: Apache-2.0
#include "actors/model/packed/attention.h"

#include <algorithm>
#include <cmath>

#include "actors/model/intra_op.h"
#include "actors/model/packed/vector_math.h"

namespace troupe::packed {
namespace {

constexpr double kProductsPerTask = 1e5;  // less is not worth a thread

// One key/value head of one segment: rows [begin, begin + length) as queries; keys are the prefix and then those rows.
struct Task {
  Segment prefix;  // the prompt, empty for the prompt itself
  Segment own;
};

// Pointers of one key/value head at row 0.
struct HeadView {
  int64_t stride = 0;  // of q, k, v rows
  int64_t dim = 0;
  float scale = 1;
  const float* q = nullptr;  // of the first query head that uses this key/value head
  const float* k = nullptr;
  const float* v = nullptr;
};

HeadView ViewOf(const AttentionShape& shape, const float* qkv, int64_t kv_head) {
  const int64_t per_kv = shape.heads / shape.kv_heads;
  HeadView view;
  view.stride = shape.row_width();
  view.dim = shape.head_dim;
  view.scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim));
  view.q = qkv + kv_head * per_kv * shape.head_dim;
  view.k = qkv + (shape.heads + kv_head) * shape.head_dim;
  view.v = qkv + (shape.heads + shape.kv_heads + kv_head) * shape.head_dim;
  return view;
}

TROUPE_INLINE void Dots(const float* a, const float* rows, int64_t stride, int64_t count, int64_t dim, float scale,
                        float* out) {
  int64_t j = 0;
  for (; j + 4 <= count; j += 4) {  // four sums at once hide the latency of the additions
    const float* b0 = rows + j * stride;
    const float* b1 = b0 + stride;
    const float* b2 = b1 + stride;
    const float* b3 = b2 + stride;
    float s0 = 0, s1 = 0, s2 = 0, s3 = 0;
#pragma omp simd reduction(+ : s0, s1, s2, s3)
    for (int64_t c = 0; c < dim; ++c) {
      s0 += a[c] * b0[c];
      s1 += a[c] * b1[c];
      s2 += a[c] * b2[c];
      s3 += a[c] * b3[c];
    }
    out[j] = s0 * scale;
    out[j + 1] = s1 * scale;
    out[j + 2] = s2 * scale;
    out[j + 3] = s3 * scale;
  }
  for (; j < count; ++j) out[j] = Dot(a, rows + j * stride, dim) * scale;
}

// out += sum_j weights[j] rows[j]
TROUPE_INLINE void WeightedSum(const float* weights, const float* rows, int64_t stride, int64_t count, int64_t dim,
                               float* out) {
  int64_t j = 0;
  for (; j + 4 <= count; j += 4) {
    const float* b0 = rows + j * stride;
    const float* b1 = b0 + stride;
    const float* b2 = b1 + stride;
    const float* b3 = b2 + stride;
    const float w0 = weights[j], w1 = weights[j + 1], w2 = weights[j + 2], w3 = weights[j + 3];
#pragma omp simd
    for (int64_t c = 0; c < dim; ++c) out[c] += w0 * b0[c] + w1 * b1[c] + w2 * b2[c] + w3 * b3[c];
  }
  for (; j < count; ++j) Axpy(weights[j], rows + j * stride, out, dim);
}

// rows[j] += weights[j] a
TROUPE_INLINE void OuterAdd(const float* weights, const float* a, int64_t count, int64_t dim, int64_t stride,
                            float* rows) {
  for (int64_t j = 0; j < count; ++j) Axpy(weights[j], a, rows + j * stride, dim);
}

// Queries [first, last) of the segment, for `per_kv` heads.
TROUPE_VECTORISED void ForwardRows(const HeadView& view, const Task& task, int64_t per_kv, int64_t first, int64_t last,
                                   float* scores, float* out, int64_t out_stride, float* lse, int64_t lse_stride) {
  const int64_t dim = view.dim;
  for (int64_t t = first; t < last; ++t) {
    const int64_t row = task.own.begin + t;
    const int64_t keys = task.prefix.length + t + 1;
    for (int64_t head = 0; head < per_kv; ++head) {
      const float* q = view.q + row * view.stride + head * dim;
      Dots(q, view.k + task.prefix.begin * view.stride, view.stride, task.prefix.length, dim, view.scale, scores);
      Dots(q, view.k + task.own.begin * view.stride, view.stride, t + 1, dim, view.scale, scores + task.prefix.length);
      float highest = scores[0];
      for (int64_t j = 1; j < keys; ++j) highest = scores[j] > highest ? scores[j] : highest;
      float sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t j = 0; j < keys; ++j) {
        scores[j] = FastExp(scores[j] - highest);
        sum += scores[j];
      }
      float* o = out + row * out_stride + head * dim;
      for (int64_t c = 0; c < dim; ++c) o[c] = 0;
      WeightedSum(scores, view.v + task.prefix.begin * view.stride, view.stride, task.prefix.length, dim, o);
      WeightedSum(scores + task.prefix.length, view.v + task.own.begin * view.stride, view.stride, t + 1, dim, o);
      const float inverse = 1.0f / sum;
      for (int64_t c = 0; c < dim; ++c) o[c] *= inverse;
      lse[row * lse_stride + head] = highest + std::log(sum);
    }
  }
}

struct BackwardRows {
  const float* out = nullptr;  // of the first query head, row 0; likewise dout
  const float* dout = nullptr;
  const float* lse = nullptr;
  int64_t out_stride = 0;
  int64_t lse_stride = 0;
  float* dq = nullptr;  // laid out as HeadView's
  float* dk = nullptr;
  float* dv = nullptr;
};

// scores, dscores: scratch of as many floats as there are keys.
TROUPE_VECTORISED void BackwardSegment(const HeadView& view, const Task& task, int64_t per_kv, const BackwardRows& b,
                                       float* scores, float* dscores) {
  const int64_t dim = view.dim;
  const int64_t stride = view.stride;
  const int64_t prefix = task.prefix.length;
  const int64_t prefix_at = task.prefix.begin * stride;
  const int64_t own_at = task.own.begin * stride;
  for (int64_t t = 0; t < task.own.length; ++t) {
    const int64_t row = task.own.begin + t;
    const int64_t own = t + 1;
    for (int64_t head = 0; head < per_kv; ++head) {
      const float* q = view.q + row * stride + head * dim;
      const float* g = b.dout + row * b.out_stride + head * dim;
      Dots(q, view.k + prefix_at, stride, prefix, dim, view.scale, scores);
      Dots(q, view.k + own_at, stride, own, dim, view.scale, scores + prefix);
      Dots(g, view.v + prefix_at, stride, prefix, dim, 1.0f, dscores);
      Dots(g, view.v + own_at, stride, own, dim, 1.0f, dscores + prefix);
      const float lse = b.lse[row * b.lse_stride + head];
      const float delta = Dot(g, b.out + row * b.out_stride + head * dim, dim);
#pragma omp simd
      for (int64_t j = 0; j < prefix + own; ++j) {
        scores[j] = FastExp(scores[j] - lse);
        dscores[j] = scores[j] * (dscores[j] - delta) * view.scale;
      }
      float* dq = b.dq + row * stride + head * dim;
      for (int64_t c = 0; c < dim; ++c) dq[c] = 0;
      WeightedSum(dscores, view.k + prefix_at, stride, prefix, dim, dq);
      WeightedSum(dscores + prefix, view.k + own_at, stride, own, dim, dq);
      OuterAdd(dscores, q, prefix, dim, stride, b.dk + prefix_at);
      OuterAdd(dscores + prefix, q, own, dim, stride, b.dk + own_at);
      OuterAdd(scores, g, prefix, dim, stride, b.dv + prefix_at);
      OuterAdd(scores + prefix, g, own, dim, stride, b.dv + own_at);
    }
  }
}

int64_t MostKeys(const std::vector<GroupRows>& groups) {
  int64_t most = 0;
  for (const GroupRows& group : groups) {
    most = std::max(most, group.prompt.length);
    for (const Segment& response : group.responses) most = std::max(most, group.prompt.length + response.length);
  }
  return most;
}

// Tasks that make up enough work, given how many there are.
int64_t TasksPerThread(const std::vector<GroupRows>& groups, const AttentionShape& shape, int64_t tasks) {
  double pairs = 0;  // of a query and a key
  for (const GroupRows& group : groups) {
    const double prompt = static_cast<double>(group.prompt.length);
    pairs += prompt * prompt / 2;
    for (const Segment& response : group.responses) {
      const double length = static_cast<double>(response.length);
      pairs += length * (prompt + length / 2);
    }
  }
  const double products = pairs * static_cast<double>(2 * shape.heads * shape.head_dim);
  return std::max<int64_t>(1, static_cast<int64_t>(kProductsPerTask * static_cast<double>(tasks) / (products + 1)));
}

void ZeroKeysAndValues(const Segment& segment, const AttentionShape& shape, float* dk, float* dv) {
  for (int64_t row = segment.begin; row < segment.begin + segment.length; ++row) {
    std::fill_n(dk + row * shape.row_width(), shape.head_dim, 0.0f);
    std::fill_n(dv + row * shape.row_width(), shape.head_dim, 0.0f);
  }
}

}  // namespace

void Attention(const std::vector<GroupRows>& groups, const AttentionShape& shape, const float* qkv, float* out,
               float* lse) {
  std::vector<Task> tasks;
  for (const GroupRows& group : groups) {
    tasks.push_back({.prefix = {}, .own = group.prompt});
    for (const Segment& response : group.responses) tasks.push_back({.prefix = group.prompt, .own = response});
  }
  const int64_t per_kv = shape.heads / shape.kv_heads;
  const int64_t most_keys = MostKeys(groups);
  const int64_t count = static_cast<int64_t>(tasks.size()) * shape.kv_heads;
  IntraOpFor(count, TasksPerThread(groups, shape, count), [&](int64_t begin, int64_t end) {
    std::vector<float> scores(static_cast<size_t>(most_keys));
    for (int64_t i = begin; i < end; ++i) {
      const Task& task = tasks[static_cast<size_t>(i / shape.kv_heads)];
      const int64_t kv_head = i % shape.kv_heads;
      ForwardRows(ViewOf(shape, qkv, kv_head), task, per_kv, 0, task.own.length, scores.data(),
                  out + kv_head * per_kv * shape.head_dim, shape.query_width(), lse + kv_head * per_kv, shape.heads);
    }
  });
}

void AttentionBackward(const std::vector<GroupRows>& groups, const AttentionShape& shape, const float* qkv,
                       const float* out, const float* lse, const float* dout, float* dqkv) {
  const int64_t per_kv = shape.heads / shape.kv_heads;
  const int64_t most_keys = MostKeys(groups);
  // A task owns one key/value head of a whole group, so every gradient has one writer and one order of additions.
  const int64_t count = static_cast<int64_t>(groups.size()) * shape.kv_heads;
  IntraOpFor(count, TasksPerThread(groups, shape, count), [&](int64_t begin, int64_t end) {
    std::vector<float> scratch(static_cast<size_t>(2 * most_keys));
    for (int64_t i = begin; i < end; ++i) {
      const GroupRows& group = groups[static_cast<size_t>(i / shape.kv_heads)];
      const int64_t kv_head = i % shape.kv_heads;
      const int64_t query_at = kv_head * per_kv * shape.head_dim;
      BackwardRows b{.out = out + query_at,
                     .dout = dout + query_at,
                     .lse = lse + kv_head * per_kv,
                     .out_stride = shape.query_width(),
                     .lse_stride = shape.heads,
                     .dq = dqkv + query_at,
                     .dk = dqkv + (shape.heads + kv_head) * shape.head_dim,
                     .dv = dqkv + (shape.heads + shape.kv_heads + kv_head) * shape.head_dim};
      const HeadView view = ViewOf(shape, qkv, kv_head);
      ZeroKeysAndValues(group.prompt, shape, b.dk, b.dv);
      BackwardSegment(view, {.prefix = {}, .own = group.prompt}, per_kv, b, scratch.data(), scratch.data() + most_keys);
      for (const Segment& response : group.responses) {
        ZeroKeysAndValues(response, shape, b.dk, b.dv);
        BackwardSegment(view, {.prefix = group.prompt, .own = response}, per_kv, b, scratch.data(),
                        scratch.data() + most_keys);
      }
    }
  });
}

}  // namespace troupe::packed
