// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/follow.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "runtime/base/mutex.h"
#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/env/file.h"
#include "tools/cli/progress_view.h"
#include "tools/cli/text_table.h"

namespace troupe::cli {
namespace {

// Without an answer of the head for that long following ends (the job itself may go on).
constexpr absl::Duration kHeadAwayMax = absl::Seconds(60);
constexpr absl::Duration kRedraw = absl::Milliseconds(250);
constexpr int64_t kMetricsChunkBytes = 1 << 20;

// Follows Head.WatchJob on a thread of its own; the newest state is there for the asking.
class JobWatcher {
 public:
  JobWatcher(const HeadClient& head, std::string job_id, SignalWaiter& signals)
      : head_(head), job_id_(std::move(job_id)), signals_(signals), thread_([this] { Run(); }) {}
  ~JobWatcher() {
    {
      MutexLock lock(mutex_);
      stop_ = true;
      if (context_ != nullptr) context_->TryCancel();
      changed_.NotifyAll();
    }
    thread_.join();
  }

  v1::Job job() {
    MutexLock lock(mutex_);
    return job_;
  }
  // Not OK when following had to be given up.
  absl::Status status() {
    MutexLock lock(mutex_);
    return status_;
  }

 private:
  void Run() {
    Monotonic heard = MonotonicNow();
    absl::Duration backoff = absl::Milliseconds(50);
    for (;;) {
      grpc::ClientContext context;
      {
        MutexLock lock(mutex_);
        if (stop_) return;
        context_ = &context;
      }
      v1::WatchJobRequest request;
      request.set_job_id(job_id_);
      auto reader = head_.stub().WatchJob(&context, request);
      v1::JobUpdate update;
      while (reader->Read(&update)) {
        heard = MonotonicNow();
        backoff = absl::Milliseconds(50);
        MutexLock lock(mutex_);
        job_ = update.job();
        signals_.Wake();
      }
      absl::Status status = FromGrpc(reader->Finish());
      MutexLock lock(mutex_);
      context_ = nullptr;
      if (stop_ || JobEnded(job_.state())) return;
      bool given_up = status.code() != absl::StatusCode::kUnavailable && !status.ok();
      if (given_up || MonotonicNow() - heard > kHeadAwayMax) {
        status_ = head_.Explain(status.ok() ? absl::UnavailableError("the head ended the stream") : status);
        signals_.Wake();
        return;
      }
      changed_.WaitUntil(lock, MonotonicNow() + backoff, [&] { return stop_; });
      backoff = std::min(backoff * 2, absl::Seconds(2));
    }
  }

  const HeadClient& head_;
  std::string job_id_;
  SignalWaiter& signals_;
  Mutex mutex_;
  ConditionVariable changed_;
  v1::Job job_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// New complete lines of a growing file, from `offset` on.
class LineTail {
 public:
  explicit LineTail(std::string path, int64_t offset = 0) : path_(std::move(path)), offset_(offset) {}
  std::vector<std::string> Read() {
    std::vector<std::string> lines;
    std::ifstream file(path_, std::ios::binary);
    if (path_.empty() || !file) return lines;
    file.seekg(0, std::ios::end);
    if (file.tellg() < offset_) offset_ = 0;  // it was put aside, and begun anew
    file.seekg(offset_);
    std::string chunk(static_cast<size_t>(kMetricsChunkBytes), '\0');
    file.read(chunk.data(), kMetricsChunkBytes);
    chunk.resize(static_cast<size_t>(file.gcount()));
    for (size_t end; (end = chunk.find('\n')) != std::string::npos; chunk.erase(0, end + 1)) {
      lines.push_back(chunk.substr(0, end));
      offset_ += static_cast<std::streamoff>(end + 1);
    }
    return lines;
  }

 private:
  std::string path_;
  std::streamoff offset_;
};

class Screen {
 public:
  explicit Screen(bool quiet)
      : quiet_(quiet),
        live_(!quiet && isatty(STDERR_FILENO) && EnvironmentVariable("TERM") != "dumb"),
        color_(live_ && EnvironmentVariable("NO_COLOR").empty()) {}

  void Line(const std::string& text) {
    if (quiet_ || text.empty()) return;
    Erase();
    std::cerr << text << "\n" << std::flush;
  }
  void Draw(const ProgressView& view, double elapsed) {
    if (!live_) return;
    winsize size{};
    int width = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col - 1 : 79;
    Erase();
    for (const std::string& line : view.Panel(width, elapsed, color_)) {
      if (size.ws_row > 2 && drawn_ + 2 > size.ws_row) break;  // what scrolls away cannot be erased
      std::cerr << line << "\n";
      ++drawn_;
    }
    std::cerr << std::flush;
  }
  void Erase() {
    if (drawn_ > 0) std::cerr << "\r\x1b[" << drawn_ << "A\x1b[J";  // Ctrl-C may have left "^C"
    drawn_ = 0;
  }
  bool live() const { return live_; }

 private:
  bool quiet_;
  bool live_;
  bool color_;
  int drawn_ = 0;
};

// What Ctrl-C asks for: first a stop at a safe point, then an end at once. Each is asked on a thread's own time bound.
void OnSignal(const HeadClient& head, const std::string& job_id, int count, Screen& screen) {
  if (count == 1) {
    screen.Line("stopping at a safe point with a checkpoint; Ctrl-C again ends it now");
    v1::StopJobRequest request;
    request.set_job_id(job_id);
    auto answer = head.Call(&v1::Head::Stub::StopJob, request);
    if (!answer.ok()) screen.Line("troupe: " + MessageOf(answer.status()));
    return;
  }
  screen.Line("ending now");
  v1::CancelJobRequest request;
  request.set_job_id(job_id);
  request.set_grace_ms(1);
  auto answer = head.Call(&v1::Head::Stub::CancelJob, request);
  if (!answer.ok()) screen.Line("troupe: " + MessageOf(answer.status()));
}

void PrintSummary(const v1::Job& job, const ProgressView& view, double elapsed, const FollowOptions& options) {
  nlohmann::ordered_json summary = {{"job", job.job_id()},
                                    {"name", job.spec().name()},
                                    {"state", JobStateName(job.state())},
                                    {"reason", job.reason()},
                                    {"step", view.step()},
                                    {"seconds", elapsed},
                                    {"output_dir", job.spec().output_dir()}};
  if (view.step() > 0) {
    summary["first_reward"] = view.first_reward();
    summary["last_reward"] = view.last_reward();
    summary["validations"] = view.validations();
  }
  if (options.json_summary) {
    std::cout << summary.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n" << std::flush;
  }
  std::string state = job.interrupted() ? "stopped" : JobStateName(job.state());
  std::string text = job.spec().name() + " " + state + " after " + ShortDuration(elapsed);
  if (view.step() > 0) {
    char rewards[96];
    std::snprintf(rewards, sizeof(rewards), ": %lld steps, reward %.3f -> %.3f", static_cast<long long>(view.step()),
                  view.first_reward(), view.last_reward());
    text += rewards;
  }
  if (!job.reason().empty()) text += "\n  " + job.reason();
  if (job.state() != v1::JOB_SUCCEEDED && options.owns_job && view.step() > 0)
    text += "\n  go on with: troupe resume " + job.spec().output_dir();
  if (!options.quiet) {
    for (const std::string& validation : view.validations()) text += "\n  held out, " + validation;
  }
  std::cerr << text << "\n  everything of it is in " << job.spec().output_dir() << "\n" << std::flush;
}

int ExitStatus(const v1::Job& job, int signals_seen) {
  if (signals_seen > 0) return kInterrupted;
  if (job.state() == v1::JOB_SUCCEEDED) return kDone;
  return IsWrongInput(static_cast<absl::StatusCode>(job.error_code())) ? kWrongUse : kJobFailed;
}

}  // namespace

int Follow(const HeadClient& head, const std::string& job_id, const FollowOptions& options, SignalWaiter& signals) {
  Monotonic begin = MonotonicNow();
  Screen screen(options.quiet);
  ProgressView view;
  LineTail metrics(options.output_dir.empty() ? "" : options.output_dir + "/metrics.jsonl");
  for (std::vector<std::string> old = metrics.Read(); !old.empty(); old = metrics.Read()) {
    for (const std::string& line : old) view.AddMetrics(line);  // Of the run that is gone on with.
  }
  std::string events_path = options.output_dir.empty() ? "" : options.output_dir + "/events.jsonl";
  absl::StatusOr<FileInfo> told_before = StatFile(events_path);  // by an earlier run in this folder
  LineTail events(events_path, told_before.ok() ? told_before->size_bytes : 0);
  JobWatcher watcher(head, job_id, signals);
  int signals_seen = 0;
  for (;;) {
    int signal = signals.Wait(kRedraw);
    double elapsed = absl::ToDoubleSeconds(MonotonicNow() - begin);
    if (signal != 0 && !options.owns_job) {
      screen.Line("the job goes on: 'troupe logs " + job_id + " -f' follows it, 'troupe cancel " + job_id +
                  "' ends it");
      return kInterrupted;
    }
    if (signal != 0) OnSignal(head, job_id, ++signals_seen, screen);
    v1::Job job = watcher.job();
    view.SetJob(job);
    for (const std::string& line : metrics.Read()) {
      std::string text = view.AddMetrics(line);
      if (!screen.live()) screen.Line(text);
    }
    for (const std::string& line : events.Read()) screen.Line(EventLine(line));
    if (JobEnded(job.state())) {
      screen.Erase();
      PrintSummary(job, view, elapsed, options);
      return ExitStatus(job, signals_seen);
    }
    absl::Status status = options.broken();
    if (status.ok()) status = watcher.status();
    if (!status.ok()) {
      screen.Erase();
      return Report(status);
    }
    screen.Draw(view, elapsed);
  }
}

}  // namespace troupe::cli
