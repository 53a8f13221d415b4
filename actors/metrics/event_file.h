// SPDX-License-Identifier: Apache-2.0
// EventFile: scalars for TensorBoard. A file of TFRecords (length, masked CRC-32C, data, masked CRC-32C), each a
// tensorflow.Event message, of which only wall_time, step, file_version and summary.value{tag, simple_value} are used.
// Format: tensorflow/core/lib/io/record_writer.cc and tensorflow/core/util/event.proto.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "runtime/env/append_file.h"

namespace troupe {

// Not thread-safe. Errors of writing are ignored: the file is for people.
class EventFile {
 public:
  // A new file "events.out.tfevents.{time}.troupe" in `directory`, which is made when missing. `time`: Unix seconds.
  static absl::StatusOr<std::unique_ptr<EventFile>> Create(const std::string& directory, double time);

  void Write(int64_t step, double time, const std::map<std::string, double>& scalars);

 private:
  explicit EventFile(AppendFile file) : file_(std::move(file)) {}
  void WriteRecord(std::string_view event);
  AppendFile file_;
};

// The TFRecord around `data`. For tests.
std::string TfRecord(std::string_view data);

}  // namespace troupe
