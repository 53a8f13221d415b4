// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/ids.h"

#include <charconv>

namespace troupe {
namespace {

// Whole numbers only: no sign, no space, no rest.
template <typename Int>
bool ParseWhole(std::string_view text, Int& out) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && !text.empty() && text[0] != '-';
}

absl::Status BadForm(std::string_view text, std::string_view form) {
  return absl::InvalidArgumentError("'" + std::string(text) + "' is not an actor: expected " + std::string(form));
}

}  // namespace

std::string ActorPath::ToString() const { return job.value() + "/" + role + "/" + std::to_string(replica); }

v1::ActorId ActorPath::ToProto() const {
  v1::ActorId id;
  id.set_job_id(job.value());
  id.set_role(role);
  id.set_replica(replica);
  return id;
}

ActorPath ActorPath::FromProto(const v1::ActorId& id) { return {JobId(id.job_id()), id.role(), id.replica()}; }

absl::StatusOr<ActorPath> ActorPath::Parse(std::string_view text) {
  size_t last = text.rfind('/');
  size_t middle = last == std::string_view::npos || last == 0 ? std::string_view::npos : text.rfind('/', last - 1);
  ActorPath path;
  if (middle == std::string_view::npos || middle == 0 || middle + 1 == last ||
      !ParseWhole(text.substr(last + 1), path.replica)) {
    return BadForm(text, "job/role/replica");
  }
  path.job = JobId(std::string(text.substr(0, middle)));
  path.role = std::string(text.substr(middle + 1, last - middle - 1));
  return path;
}

std::string ActorLife::ToString() const { return path.ToString() + "#" + std::to_string(incarnation); }

v1::ActorIncarnation ActorLife::ToProto() const {
  v1::ActorIncarnation life;
  *life.mutable_id() = path.ToProto();
  life.set_incarnation(incarnation);
  return life;
}

ActorLife ActorLife::FromProto(const v1::ActorIncarnation& life) {
  return {ActorPath::FromProto(life.id()), life.incarnation()};
}

absl::StatusOr<ActorLife> ActorLife::Parse(std::string_view text) {
  size_t mark = text.rfind('#');
  ActorLife life;
  if (mark == std::string_view::npos || !ParseWhole(text.substr(mark + 1), life.incarnation)) {
    return BadForm(text, "job/role/replica#incarnation");
  }
  absl::StatusOr<ActorPath> path = ActorPath::Parse(text.substr(0, mark));
  if (!path.ok()) return path.status();
  life.path = *std::move(path);
  return life;
}

}  // namespace troupe
