// SPDX-License-Identifier: Apache-2.0
// BrokerLines: the connections of a node's processes to its broker of memory files. A process has two: one on which it
// asks, and one that carries notices to it. Knows nothing of objects. Of the broker's thread alone.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "runtime/env/unique_fd.h"
#include "runtime/env/unix_socket.h"
#include "runtime/object/object_id.h"
#include "troupe/v1/object.pb.h"

namespace troupe {

class BrokerLines {
 public:
  struct Line {
    explicit Line(UnixSocket s) : socket(std::move(s)) {}
    UnixSocket socket;
    ObjectProcess process = 0;  // 0: no session.
    bool notices = false;
    std::deque<std::string> waiting;  // Notices that the process did not take yet.
  };
  struct Request {
    Line* from;
    v1::ObjectRequest body;  // None: the line has ended, or what came is no request.
    std::vector<UniqueFd> fds;
  };
  using Sink = absl::FunctionRef<void(Request)>;

  // `ended`: the last line of that process has been closed.
  BrokerLines(size_t lines_max, std::function<void(ObjectProcess)> ended)
      : lines_max_(lines_max), ended_(std::move(ended)) {}

  // One that waits there, if it is of this user and not one too many.
  void Accept(UnixListener& listener);
  // Appends one descriptor a line; line i is then the i-th of them, until Accept or RemoveClosed.
  void AppendFds(std::vector<int>& fds) const;
  Line& line(size_t i) { return *lines_[i]; }

  // What has come on it, in its order. False: more may be there.
  bool Read(Line& line, Sink sink);
  // What has come on the line on which that process asks.
  void ReadProcess(ObjectProcess process, Sink sink);
  // A peer that asks and does not read is not waited for: its line is closed.
  void Reply(Line& line, const v1::ObjectReply& reply, const UniqueFd& fd);
  // That line is of that process now; its line before, if there is one, is nobody's.
  void Name(Line& line, ObjectProcess process, bool notices);
  void Close(Line& line);
  void RemoveClosed();

  void Notify(ObjectProcess process, const v1::ObjectNotice& notice);
  // 0: all of them.
  void NotifyAllBut(ObjectProcess process, const v1::ObjectNotice& notice);
  // Writes notices as far as they are taken.
  void Flush();
  bool HasUnsent() const;

  std::set<ObjectProcess> Processes() const;

 private:
  static void Push(Line& line, const v1::ObjectNotice& notice);

  const size_t lines_max_;
  const std::function<void(ObjectProcess)> ended_;
  std::vector<std::unique_ptr<Line>> lines_;
};

}  // namespace troupe
