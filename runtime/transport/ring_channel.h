// SPDX-License-Identifier: Apache-2.0
// RingChannel: a pair of rings as a FrameChannel, and the socket beside it. Of RingHub alone.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "runtime/base/monotonic.h"
#include "runtime/base/status.h"
#include "runtime/env/unique_fd.h"
#include "runtime/env/unix_socket.h"
#include "runtime/transport/envelope_codec.h"
#include "runtime/transport/frame_channel.h"
#include "runtime/transport/ring_hub.h"
#include "runtime/transport/ring_pipe.h"

namespace troupe {

class RingChannel final : public FrameChannel,
                          private internal::Waker,
                          public std::enable_shared_from_this<RingChannel> {
 public:
  // `served_by`: the hub whose idle threads may read it; null: none. `path`: the one that was dialed; empty: the
  // other process dialed.
  RingChannel(UnixSocket socket, std::unique_ptr<RingEnd> end, const RingPipeOptions& options, uint64_t rings_epoch,
              std::string path, RingHub* served_by)
      : epoch(rings_epoch),
        dialed(std::move(path)),
        served_by_(served_by),
        socket_(std::move(socket)),
        pipe_(std::move(end), options, [this](std::string_view record) { return TakeRecord(record); }) {}

  absl::Status Send(Envelope&& envelope) override { return Send(false, envelope); }
  void SendAlways(Envelope&& envelope) override { static_cast<void>(Send(true, envelope)); }
  void End(const absl::Status& why) override { pipe_.End(why, false); }
  void WaitReading(internal::FutureBase& future, bool alone, Monotonic deadline) override {
    if (!future.SetWaker(this)) return;
    const RingPipe::Turn turn = alone ? RingPipe::Turn::kCalls : RingPipe::Turn::kNone;
    pipe_.ReadUntil([&future] { return future.IsSet(); }, deadline, turn);
    future.ClearWaker();
  }

  void SetSink(std::shared_ptr<EnvelopeSink> sink) { sink_ = std::move(sink); }
  const std::shared_ptr<EnvelopeSink>& sink() const { return sink_; }
  UnixSocket& socket() { return socket_; }
  RingPipe& pipe() { return pipe_; }

  const uint64_t epoch;
  const std::string dialed;
  // Under the hub's lock:
  bool ended = false;
  Monotonic waits_until;   // While it is detached,
  UniqueFd other_process;  // readable when that ends; invalid where that cannot be had.

 private:
  absl::Status Send(bool always, const Envelope& envelope) {
    const bool is_large = envelope.bytes.size() >= kLargeBytes;
    auto encode = [&](std::string& out) {
      writer_.Write(envelope, out, is_large ? RecordBytes::kBehind : RecordBytes::kWithin);
    };
    return pipe_.Send(always, encode, is_large ? std::string_view(envelope.bytes) : std::string_view());
  }
  absl::Status TakeRecord(std::string_view record) {
    Envelope envelope;
    TROUPE_RETURN_IF_ERROR(reader_.Read(record, envelope));
    if (served_by_ != nullptr && served_by_->busy_now_.load(std::memory_order_relaxed) != this) {
      served_by_->SetBusy(this);
    }
    return envelope.kind == Envelope::Kind::kNone ? absl::OkStatus() : sink_->Take(std::move(envelope));
  }

  void Wake() override { pipe_.WakeReader(); }

  RingHub* const served_by_;
  UnixSocket socket_;
  EnvelopeWriter writer_;               // Under the pipe's lock for writing.
  EnvelopeReader reader_;               // Of the thread that reads.
  std::shared_ptr<EnvelopeSink> sink_;  // Set before anybody reads; until the end.
  RingPipe pipe_;
};

}  // namespace troupe
