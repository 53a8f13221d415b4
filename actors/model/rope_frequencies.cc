// SPDX-License-Identifier: Apache-2.0
#include "actors/model/rope_frequencies.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace troupe {
namespace {

constexpr double kTwoPi = 2 * std::numbers::pi;

double OriginalLength(const ModelConfig& config) {
  const int64_t original = config.rope_scaling.original_max_position_embeddings;
  return static_cast<double>(original > 0 ? original : config.max_position_embeddings);
}

// `dynamic` raises the base with the length.
double Theta(const ModelConfig& config, int64_t length) {
  const double original = OriginalLength(config);
  const double tokens = static_cast<double>(length);
  if (config.rope_scaling.type != RopeType::kDynamic || tokens <= original) return config.rope_theta;
  const double factor = config.rope_scaling.factor;
  const double dim = static_cast<double>(config.head_dim);
  return config.rope_theta * std::pow(factor * tokens / original - (factor - 1), dim / (dim - 2));
}

// Long wavelengths are stretched, short ones kept, those between mixed.
void StretchLlama3(const ModelConfig& config, std::vector<float>& inv_freq) {
  const RopeScaling& scaling = config.rope_scaling;
  const double original = OriginalLength(config);
  const double low_wavelength = original / scaling.low_freq_factor;
  const double high_wavelength = original / scaling.high_freq_factor;
  for (float& frequency : inv_freq) {
    const double wavelength = kTwoPi / frequency;
    if (wavelength > low_wavelength) {
      frequency = static_cast<float>(frequency / scaling.factor);
    } else if (wavelength >= high_wavelength) {
      const double smooth =
          (original / wavelength - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
      frequency = static_cast<float>((1 - smooth) * frequency / scaling.factor + smooth * frequency);
    }
  }
}

// The dimension whose wavelength makes `rotations` turns over the original context.
double CorrectionDimension(const ModelConfig& config, double rotations) {
  return static_cast<double>(config.head_dim) * std::log(OriginalLength(config) / (rotations * kTwoPi)) /
         (2 * std::log(config.rope_theta));
}

void StretchYarn(const ModelConfig& config, std::vector<float>& inv_freq) {
  const RopeScaling& scaling = config.rope_scaling;
  double low = CorrectionDimension(config, scaling.beta_fast);
  double high = CorrectionDimension(config, scaling.beta_slow);
  if (scaling.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(config.head_dim - 1));
  if (low == high) high += 0.001;  // no division by zero
  for (size_t i = 0; i < inv_freq.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    inv_freq[i] = static_cast<float>(inv_freq[i] / scaling.factor * ramp + inv_freq[i] * (1 - ramp));
  }
}

double YarnMscale(double factor, double mscale) { return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0; }

double YarnAttentionScaling(const RopeScaling& scaling) {
  if (scaling.attention_factor) return *scaling.attention_factor;
  if (scaling.mscale.value_or(0) != 0 && scaling.mscale_all_dim.value_or(0) != 0) {
    return YarnMscale(scaling.factor, *scaling.mscale) / YarnMscale(scaling.factor, *scaling.mscale_all_dim);
  }
  return YarnMscale(scaling.factor, 1);
}

}  // namespace

RopeFrequencies ComputeRopeFrequencies(const ModelConfig& config, int64_t length) {
  RopeFrequencies result;
  result.inv_freq.resize(static_cast<size_t>(config.head_dim / 2));
  for (size_t i = 0; i < result.inv_freq.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(config.head_dim);
    result.inv_freq[i] = 1.0f / std::pow(static_cast<float>(Theta(config, length)), exponent);
  }
  switch (config.rope_scaling.type) {
    case RopeType::kDefault:
    case RopeType::kDynamic:
      break;
    case RopeType::kLinear:
      for (float& frequency : result.inv_freq) frequency /= static_cast<float>(config.rope_scaling.factor);
      break;
    case RopeType::kLlama3:
      StretchLlama3(config, result.inv_freq);
      break;
    case RopeType::kYarn:
      StretchYarn(config, result.inv_freq);
      result.attention_scaling = static_cast<float>(YarnAttentionScaling(config.rope_scaling));
      break;
  }
  return result;
}

}  // namespace troupe
