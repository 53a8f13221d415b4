// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/exit_evidence.h"

#include <signal.h>
#include <string.h>

#include <cstdio>

namespace troupe::keeper {
namespace {

std::string SignalName(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? "signal " + std::to_string(signal) : std::string("SIG") + name;
}

std::string PeakText(const ExitEvidence& e) {
  std::string text = "peak RSS " + FormatBytes(e.peak_rss_bytes);
  return e.memory_bytes > 0 ? text + " of " + FormatBytes(e.memory_bytes) : text;
}

bool ProbablyOutOfMemory(const ExitEvidence& e) {
  if (!e.signaled || e.signal != SIGKILL || e.killed_by_troupe) return false;
  if (e.group_oom_kills >= 0) return false;  // CauseOf has looked: none of them was its own.
  if (e.machine_oom_kills >= 0) return e.machine_oom_kills > 0;
  return e.memory_bytes > 0 && e.peak_rss_bytes >= e.memory_bytes / 2;
}

}  // namespace

v1::ExitCause CauseOf(const ExitEvidence& e) {
  v1::ExitCause cause;
  cause.set_peak_rss_bytes(e.peak_rss_bytes);
  if (e.signaled) {
    cause.set_signal(e.signal);
  } else {
    cause.set_exit_code(e.exit_code);
  }
  std::string text;
  if (e.group_oom_kills > 0 && !e.killed_by_troupe) {
    cause.set_kind(v1::ExitCause::OUT_OF_MEMORY);
    text = "killed by the kernel for memory (counted in its control group); " + PeakText(e);
  } else if (e.signaled && e.killed_by_troupe) {
    cause.set_kind(v1::ExitCause::STOPPED);
    text = "ended by Troupe with " + SignalName(e.signal);
  } else if (ProbablyOutOfMemory(e)) {
    cause.set_kind(v1::ExitCause::OUT_OF_MEMORY);
    text = "SIGKILL, not sent by Troupe; " + PeakText(e) + ": probably out of memory";
  } else if (e.signaled) {
    cause.set_kind(v1::ExitCause::SIGNALED);
    text = SignalName(e.signal) + ", not sent by Troupe; " + PeakText(e);
  } else {
    cause.set_kind(v1::ExitCause::EXITED);
    text = "exited with status " + std::to_string(e.exit_code);
  }
  if (e.tree_processes_killed > 0) {
    text += "; " + std::to_string(e.tree_processes_killed) + " process(es) it left behind were killed";
  }
  cause.set_text(text);
  return cause;
}

std::string FormatBytes(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof(text), unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return text;
}

}  // namespace troupe::keeper
