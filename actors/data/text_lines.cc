// SPDX-License-Identifier: Apache-2.0
#include "actors/data/text_lines.h"

#include <zlib.h>
#include <zstd.h>

#include <filesystem>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/base/status.h"
#include "runtime/env/file.h"

namespace troupe {
namespace {

// Largest data file as it lies on disk; it is read as a whole (streams of unbounded length are not data sets).
constexpr int64_t kFileBytesMax = int64_t{4} << 30;

using Sink = std::function<absl::Status(std::string_view)>;

absl::Status Damaged(const std::string& path, std::string_view why) {
  return absl::DataLossError(path + ": the compressed data is damaged or cut off (" + std::string(why) + ")");
}

absl::Status Inflate(const std::string& path, std::string_view input, const Sink& sink) {
  z_stream stream{};
  if (inflateInit2(&stream, 15 + 16) != Z_OK) return absl::ResourceExhaustedError("zlib could not start");
  std::unique_ptr<z_stream, int (*)(z_stream*)> guard(&stream, inflateEnd);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input.data()));
  stream.avail_in = static_cast<uInt>(input.size());
  std::vector<char> buffer(1 << 16);
  while (true) {
    stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream.avail_out = static_cast<uInt>(buffer.size());
    int result = inflate(&stream, Z_NO_FLUSH);
    if (result != Z_OK && result != Z_STREAM_END)
      return Damaged(path, stream.msg != nullptr ? stream.msg : "early end");
    TROUPE_RETURN_IF_ERROR(sink({buffer.data(), buffer.size() - stream.avail_out}));
    if (result == Z_OK) continue;
    if (stream.avail_in == 0) return absl::OkStatus();
    if (inflateReset(&stream) != Z_OK) return Damaged(path, "a second member");  // files may be joined
  }
}

absl::Status Unzstd(const std::string& path, std::string_view input, const Sink& sink) {
  std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> context(ZSTD_createDCtx(), ZSTD_freeDCtx);
  std::vector<char> buffer(ZSTD_DStreamOutSize());
  ZSTD_inBuffer in{input.data(), input.size(), 0};
  size_t left = 1;
  while (in.pos < in.size) {
    ZSTD_outBuffer out{buffer.data(), buffer.size(), 0};
    left = ZSTD_decompressStream(context.get(), &out, &in);
    if (ZSTD_isError(left)) return Damaged(path, ZSTD_getErrorName(left));
    TROUPE_RETURN_IF_ERROR(sink({buffer.data(), out.pos}));
  }
  return left == 0 ? absl::OkStatus() : Damaged(path, "early end");
}

class LineSplitter {
 public:
  LineSplitter(std::string path, const std::function<absl::Status(std::string_view, int64_t)>& visit)
      : path_(std::move(path)), visit_(visit) {}

  absl::Status Take(std::string_view bytes) {
    for (size_t end; (end = bytes.find('\n')) != std::string_view::npos; bytes.remove_prefix(end + 1)) {
      TROUPE_RETURN_IF_ERROR(Append(bytes.substr(0, end)));
      TROUPE_RETURN_IF_ERROR(Flush());
    }
    return Append(bytes);
  }
  absl::Status Finish() { return pending_.empty() ? absl::OkStatus() : Flush(); }

 private:
  absl::Status Append(std::string_view bytes) {
    if (pending_.size() + bytes.size() > kLineBytesMax) {
      return absl::InvalidArgumentError(path_ + ":" + std::to_string(number_ + 1) + ": a line of more than " +
                                        std::to_string(kLineBytesMax >> 20) + " MiB");
    }
    pending_.append(bytes);
    return absl::OkStatus();
  }
  absl::Status Flush() {
    if (!pending_.empty() && pending_.back() == '\r') pending_.pop_back();
    absl::Status status = visit_(pending_, ++number_);
    pending_.clear();
    return status;
  }

  std::string path_;
  const std::function<absl::Status(std::string_view, int64_t)>& visit_;
  std::string pending_;
  int64_t number_ = 0;
};

// Opening a pipe waits for its writer, and a device need not end.
absl::Status CheckRegular(const std::string& path) {
  std::error_code error;
  std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status) || std::filesystem::is_regular_file(status)) return absl::OkStatus();
  return absl::InvalidArgumentError(path + ": expected a file, found " +
                                    (std::filesystem::is_directory(status) ? "a folder" : "a device, pipe or socket"));
}

}  // namespace

absl::Status ReadTextLines(const std::string& path,
                           const std::function<absl::Status(std::string_view, int64_t)>& visit) {
  TROUPE_RETURN_IF_ERROR(CheckRegular(path));
  TROUPE_ASSIGN_OR_RETURN(std::string content, ReadFile(path, kFileBytesMax));
  LineSplitter lines(path, visit);
  Sink sink = [&](std::string_view bytes) { return lines.Take(bytes); };
  if (content.starts_with("\x1f\x8b")) {
    TROUPE_RETURN_IF_ERROR(Inflate(path, content, sink));
  } else if (content.starts_with("\x28\xb5\x2f\xfd")) {
    TROUPE_RETURN_IF_ERROR(Unzstd(path, content, sink));
  } else {
    TROUPE_RETURN_IF_ERROR(sink(content));
  }
  return lines.Finish();
}

}  // namespace troupe
