// SPDX-License-Identifier: Apache-2.0
#include "actors/model/packed/lm_head.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "actors/model/intra_op.h"
#include "actors/model/packed/gemm.h"
#include "actors/model/packed/vector_math.h"

namespace troupe::packed {
namespace {

constexpr int64_t kElementsPerTask = 16384;  // less is not worth a thread
constexpr int64_t kBlock = 512;              // sums of this many floats are added up in double

int64_t ChunkRows(const LmHead& head) {
  return std::max<int64_t>(1, kLogitsBytesMax / (head.vocab_size * static_cast<int64_t>(sizeof(float))));
}

int64_t RowsPerTask(const LmHead& head) { return std::max<int64_t>(1, kElementsPerTask / head.vocab_size); }

struct RowSums {
  float highest = 0;
  double exp_sum = 0;    // sum exp(z - highest)
  double exp_sum_z = 0;  // sum exp(z - highest) (z - highest)
};

// z = logits / temperature, in place.
TROUPE_VECTORISED RowSums SumRow(float* z, int64_t count, float inverse_temperature) {
  float highest = -INFINITY;
#pragma omp simd reduction(max : highest)
  for (int64_t i = 0; i < count; ++i) {
    z[i] *= inverse_temperature;
    highest = z[i] > highest ? z[i] : highest;
  }
  RowSums sums{.highest = highest};
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t end = std::min(count, begin + kBlock);
    float sum = 0;
    float sum_z = 0;
#pragma omp simd reduction(+ : sum, sum_z)
    for (int64_t i = begin; i < end; ++i) {
      const float below = z[i] - highest;
      const float e = FastExp(below);
      sum += e;
      sum_z += e * below;
    }
    sums.exp_sum += sum;
    sums.exp_sum_z += sum_z;
  }
  return sums;
}

// z becomes d loss / d logits but for the targets: -(a + b (log p + H)) p, over the temperature.
TROUPE_VECTORISED void GradientRow(float* z, int64_t count, float lse, float a, float b, float entropy,
                                   float inverse_temperature) {
  const float constant = -(a + b * entropy) * inverse_temperature;
  const float slope = -b * inverse_temperature;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float log_p = z[i] - lse;
    z[i] = (constant + slope * log_p) * FastExp(log_p);
  }
}

// As above for logits that were not yet divided by the temperature.
TROUPE_VECTORISED void ScaleRow(float* z, int64_t count, float factor) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) z[i] *= factor;
}

void GradientOfRow(const LmHead& head, const PackedLayout& layout, const LmHeadState& state, int64_t index, float* z,
                   bool scaled, absl::Span<const float> d_logprobs, absl::Span<const float> d_entropy) {
  const ScoredRow& row = layout.scored[static_cast<size_t>(index)];
  float a = 0;
  float b = 0;
  for (int64_t k = row.targets_begin; k < row.targets_end; ++k) {
    const auto output = static_cast<size_t>(layout.targets[static_cast<size_t>(k)].output);
    a += d_logprobs[output];
    if (!d_entropy.empty()) b += d_entropy[output];
  }
  if (!scaled && head.inverse_temperature != 1.0f) ScaleRow(z, head.vocab_size, head.inverse_temperature);
  const float entropy = b != 0 ? state.entropy[static_cast<size_t>(index)] : 0.0f;
  GradientRow(z, head.vocab_size, state.lse[static_cast<size_t>(index)], a, b, entropy, head.inverse_temperature);
  for (int64_t k = row.targets_begin; k < row.targets_end; ++k) {
    const Target& target = layout.targets[static_cast<size_t>(k)];
    z[target.token] += d_logprobs[static_cast<size_t>(target.output)] * head.inverse_temperature;
  }
}

}  // namespace

LmHeadState LmHeadForward(const LmHead& head, const PackedLayout& layout, const float* hidden, float* logprobs,
                          float* entropy, std::vector<float>& scratch) {
  const int64_t rows = static_cast<int64_t>(layout.scored.size());
  const int64_t chunk = ChunkRows(head);
  LmHeadState state;
  state.lse.resize(static_cast<size_t>(rows));
  if (entropy != nullptr) state.entropy.resize(static_cast<size_t>(rows));
  scratch.resize(std::max(scratch.size(), static_cast<size_t>(std::min(rows, chunk) * head.vocab_size)));
  for (int64_t begin = 0; begin < rows; begin += chunk) {
    const int64_t count = std::min(chunk, rows - begin);
    Linear(hidden + begin * head.width, head.weight, nullptr, scratch.data(), count, head.width, head.vocab_size);
    IntraOpFor(count, RowsPerTask(head), [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        float* z = scratch.data() + i * head.vocab_size;
        const RowSums sums = SumRow(z, head.vocab_size, head.inverse_temperature);
        const double log_sum = std::log(sums.exp_sum);
        const auto index = static_cast<size_t>(begin + i);
        const ScoredRow& row = layout.scored[index];
        state.lse[index] = static_cast<float>(sums.highest + log_sum);
        const double row_entropy = log_sum - sums.exp_sum_z / sums.exp_sum;
        if (entropy != nullptr) state.entropy[index] = static_cast<float>(row_entropy);
        for (int64_t k = row.targets_begin; k < row.targets_end; ++k) {
          const Target& target = layout.targets[static_cast<size_t>(k)];
          logprobs[target.output] = static_cast<float>((z[target.token] - sums.highest) - log_sum);
          if (entropy != nullptr) entropy[target.output] = state.entropy[index];
        }
      }
    });
  }
  state.logits_kept = rows <= chunk;
  return state;
}

void LmHeadBackward(const LmHead& head, const PackedLayout& layout, const LmHeadState& state, const float* hidden,
                    absl::Span<const float> d_logprobs, absl::Span<const float> d_entropy, float* dhidden,
                    float* dweight, bool accumulate, std::vector<float>& scratch) {
  const int64_t rows = static_cast<int64_t>(layout.scored.size());
  const int64_t chunk = ChunkRows(head);
  scratch.resize(std::max(scratch.size(), static_cast<size_t>(std::min(rows, chunk) * head.vocab_size)));
  if (rows == 0 && !accumulate) {
    std::memset(dweight, 0, static_cast<size_t>(head.vocab_size * head.width) * sizeof(float));
  }
  for (int64_t begin = 0; begin < rows; begin += chunk) {
    const int64_t count = std::min(chunk, rows - begin);
    const float* x = hidden + begin * head.width;
    if (!state.logits_kept) Linear(x, head.weight, nullptr, scratch.data(), count, head.width, head.vocab_size);
    IntraOpFor(count, RowsPerTask(head), [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        GradientOfRow(head, layout, state, begin + i, scratch.data() + i * head.vocab_size, state.logits_kept,
                      d_logprobs, d_entropy);
      }
    });
    LinearGradInput(scratch.data(), head.weight, dhidden + begin * head.width, count, head.width, head.vocab_size,
                    /*accumulate=*/false);
    LinearGradWeight(scratch.data(), x, dweight, nullptr, count, head.width, head.vocab_size, accumulate || begin > 0);
  }
}

}  // namespace troupe::packed
