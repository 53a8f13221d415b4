// SPDX-License-Identifier: Apache-2.0
//
// Speed of the engine on SmolLM2-135M-Instruct beside what this machine can do at most, measured in the same run.
//   engine_benchmark [threads]          (MODEL from $TROUPE_MODEL or the cache folder)

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/model/files/model_source.h"
#include "actors/model/intra_op.h"
#include "actors/model/weights.h"
#include "actors/rollout/engine/engine.h"
#include "kernels/linear/linear.h"

namespace troupe::rollout {
namespace {

constexpr int kRepetitions = 5;

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double ProcessorSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

struct Timing {
  double median = 0, min = 0, max = 0;
  double processor =
      0;  // seconds of processor time of the median run; far less than threads x wall: others took the machine
};

Timing Measure(const std::function<void()>& work) {
  std::vector<std::pair<double, double>> runs;
  work();
  for (int i = 0; i < kRepetitions; ++i) {
    const double begin = Now(), processor = ProcessorSeconds();
    work();
    runs.emplace_back(Now() - begin, ProcessorSeconds() - processor);
  }
  std::sort(runs.begin(), runs.end());
  return {runs[kRepetitions / 2].first, runs.front().first, runs.back().first, runs[kRepetitions / 2].second};
}

void Print(const std::string& name, double work, const char* unit, const Timing& timing, int threads, double limit,
           const char* limit_name) {
  std::printf("%-34s %9.1f %s (%.1f to %.1f, n=%d, %3.0f %% of %d processors)", name.c_str(), work / timing.median,
              unit, work / timing.max, work / timing.min, kRepetitions,
              100 * timing.processor / timing.median / threads, threads);
  std::printf("   by processor time %.1f", work * threads / timing.processor);
  if (limit > 0) std::printf("   limit %.1f %s: %s", limit, unit, limit_name);
  std::printf("\n");
  std::fflush(stdout);
}

class Benchmark {
 public:
  Benchmark(const ModelSource& source, int threads)
      : config_(source.config()), weights_(LoadWeights(source).value()), threads_(threads) {}

  void Run() {
    MeasureLimits();
    for (int batch : {1, 8, 32}) Decode(batch);
    Prefill();
    Addition();
  }

 private:
  std::unique_ptr<RolloutEngine> Engine(int64_t max_batch_tokens) const {
    const EngineOptions options{
        .max_batch_tokens = max_batch_tokens, .kv_bytes = int64_t{512} << 20, .num_threads = threads_};
    return RolloutEngine::Create(config_, weights_, {}, options).value();
  }

  GenerationRequest Request(uint64_t id, int length, int64_t max_new_tokens) {
    GenerationRequest request{
        .request_id = id, .seed = 1, .prompt_id = id, .params = {.max_new_tokens = max_new_tokens}};
    request.params.ignore_eos = true;
    for (int i = 0; i < length; ++i)
      request.prompt_ids.push_back(static_cast<int32_t>(++fresh_ * 7919 % config_.vocab_size));
    return request;
  }

  static void RunAll(RolloutEngine& engine) {
    while (!engine.idle()) (void)engine.Step().value();
  }

  void MeasureLimits() {
    const int64_t bytes = weights_.layout().total_bytes;
    double sum = 0;
    const auto words = reinterpret_cast<const uint64_t*>(weights_.bytes().data());
    const kernels::Parallel parallel = IntraOpParallel(threads_);
    SetIntraOpThreads(threads_);
    const Timing read = Measure([&] {
      std::vector<uint64_t> sums(64, 0);
      parallel.For(64, [&](int64_t task) {
        uint64_t total = 0;
        for (int64_t i = bytes / 8 * task / 64; i < bytes / 8 * (task + 1) / 64; ++i) total += words[i];
        sums[task] = total;
      });
      for (uint64_t total : sums) sum += static_cast<double>(total & 1);
    });
    reads_per_s_ = 1 / read.median;
    Print("read all weights once", static_cast<double>(bytes) * 1e-9, "GB/s", read, threads_, 0, sum < 0 ? "?" : "");
    const int64_t n = 1536;
    std::vector<float> a(n * n, 0.5f), b(n * n, 0.25f), c(n * n);
    const Timing gemm = Measure([&] { kernels::Linear(a.data(), b.data(), nullptr, c.data(), {n, n, n}, parallel); });
    gflops_ = 2.0 * static_cast<double>(n * n * n) * 1e-9 / gemm.median;
    Print("matrix product 1536^3", 2.0 * static_cast<double>(n * n * n) * 1e-9, "GFLOP/s", gemm, threads_, 0, "");
  }

  // Floating point operations of one token; the LM head only where logits are wanted.
  double GigaFlop(bool head) const {
    const double body =
        static_cast<double>(weights_.layout().total_bytes) / 4 - config_.vocab_size * config_.hidden_size;
    return 2e-9 * (body + (head ? static_cast<double>(config_.vocab_size * config_.hidden_size) : 0));
  }

  void Decode(int batch) {
    constexpr int kTokens = 16;
    auto engine = Engine(512);
    const Timing timing = MeasureSteps(*engine, batch, kTokens);
    const double limit = std::min(batch * reads_per_s_, gflops_ / GigaFlop(true));
    Print("decode, batch " + std::to_string(batch), static_cast<double>(batch * kTokens), "tokens/s", timing, threads_,
          limit, batch * reads_per_s_ < gflops_ / GigaFlop(true) ? "weights read once a step" : "matrix products");
  }

  // Only the steps after the prefill are timed.
  Timing MeasureSteps(RolloutEngine& engine, int batch, int tokens) {
    std::vector<Timing> runs;
    for (int i = 0; i < kRepetitions; ++i) {
      for (int b = 0; b < batch; ++b) (void)engine.Add(Request(static_cast<uint64_t>(b), 8, tokens + 1));
      (void)engine.Step().value();
      const double begin = Now(), processor = ProcessorSeconds();
      RunAll(engine);
      runs.push_back({Now() - begin, 0, 0, ProcessorSeconds() - processor});
    }
    std::sort(runs.begin(), runs.end(), [](const Timing& a, const Timing& b) { return a.median < b.median; });
    Timing timing = runs[kRepetitions / 2];
    timing.min = runs.front().median;
    timing.max = runs.back().median;
    return timing;
  }

  void Prefill() {
    auto engine = Engine(512);
    const Timing timing = Measure([&] {
      (void)engine->Add(Request(1, 512, 1));
      RunAll(*engine);
    });
    Print("prefill 512", 512, "tokens/s", timing, threads_, gflops_ / GigaFlop(false), "matrix products");
  }

  // The generation of one step of examples/addition.
  void Addition() {
    auto engine = Engine(512);
    const Timing timing = Measure([&] {
      for (uint64_t prompt = 0; prompt < 4; ++prompt) {
        const std::vector<int32_t> ids = Request(0, 20, 8).prompt_ids;
        for (int32_t sample = 0; sample < 8; ++sample) {
          GenerationRequest request = Request(prompt * 8 + static_cast<uint64_t>(sample), 0, 8);
          request.prompt_ids = ids;
          request.prompt_id = prompt;
          request.sample_index = sample;
          (void)engine->Add(std::move(request));
        }
      }
      RunAll(*engine);
    });
    std::printf("4 prompts x 8 samples, 20 + 8 tokens: %.3f s (%.3f to %.3f)\n", timing.median, timing.min, timing.max);
    Print("  the same", 4 * 8 * 8, "tokens/s", timing, threads_, 0, "");
  }

  ModelConfig config_;
  ModelWeights weights_;
  int threads_;
  int64_t fresh_ = 0;  // so that no prompt is met again
  double reads_per_s_ = 0;
  double gflops_ = 0;
};

std::string ModelPath() {
  if (const char* path = std::getenv("TROUPE_MODEL")) return path;
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const std::string folder = cache != nullptr ? cache : std::string(std::getenv("HOME")) + "/.cache";
  return folder + "/troupe/SmolLM2-135M-Instruct.gguf";
}

}  // namespace
}  // namespace troupe::rollout

int main(int argc, char** argv) {
  const auto source = troupe::ModelSource::Open(troupe::rollout::ModelPath());
  if (!source.ok()) {
    std::fprintf(stderr, "%s\n", source.status().ToString().c_str());
    return 2;
  }
  troupe::rollout::Benchmark(**source, argc > 1 ? std::atoi(argv[1]) : 2).Run();
}
