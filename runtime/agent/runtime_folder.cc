// SPDX-License-Identifier: Apache-2.0
#include "runtime/agent/runtime_folder.h"

#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>

#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/env/errno_status.h"
#include "runtime/env/file.h"
#include "runtime/env/unix_socket.h"

namespace troupe::agent {
namespace {

// A job's configuration (1 MiB) and some.
constexpr int64_t kFileBytesMax = 4 << 20;
// The longest name of a socket in the folder: a worker's.
constexpr size_t kSocketNameBytes = sizeof("/w-0123456789abcdef.sock") - 1;
// A socket file that nobody listens on may be one that is just being made.
constexpr int64_t kSocketAgeSeconds = 10;

bool IsDeadSocket(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0 || !S_ISSOCK(info.st_mode)) return false;
  if (absl::ToUnixSeconds(WallNow()) - info.st_mtime < kSocketAgeSeconds) return false;
  return absl::IsUnavailable(UnixSocket::Connect(path, UnixSocketKind::kStream).status());
}

absl::Status CheckPath(const std::string& path) {
  if (path.empty() || path[0] != '/') {
    return absl::InvalidArgumentError("the runtime folder '" + path + "' is not an absolute path");
  }
  constexpr size_t kMax = sizeof(sockaddr_un::sun_path) - 1 - kSocketNameBytes;
  if (path.size() <= kMax) return absl::OkStatus();
  return absl::InvalidArgumentError("the runtime folder '" + path + "' has " + std::to_string(path.size()) +
                                    " bytes; Unix sockets in it allow " + std::to_string(kMax) +
                                    ": give a shorter one");
}

bool IsOwnFolder(const struct stat& info) {
  return S_ISDIR(info.st_mode) && info.st_uid == ::geteuid() && (info.st_mode & 022) == 0;
}

// The folder, and each one above it that lies where everybody may make folders (/tmp): whoever owns one of those, or
// may rename what is in it, could put another folder into the place of this one and be given the workers' token.
absl::Status CheckOwner(const std::string& path) {
  for (std::filesystem::path folder = path; folder.has_relative_path(); folder = folder.parent_path()) {
    struct stat info {
    }, above{};
    if (::lstat(folder.c_str(), &info) != 0) return ErrnoStatus(errno, folder.string());
    if (::stat(folder.parent_path().c_str(), &above) != 0) return ErrnoStatus(errno, folder.parent_path().string());
    bool anybody = (above.st_mode & 002) != 0;
    bool sticky = (above.st_mode & S_ISVTX) != 0;
    if (folder != path && !anybody) continue;
    if (IsOwnFolder(info) && (!anybody || sticky)) continue;
    return absl::PermissionDeniedError(
        "the runtime folder " + path + " is not safe: " +
        (IsOwnFolder(info) ? "everybody may rename what is in " + folder.parent_path().string()
                           : folder.string() + " must be a folder of this user that nobody else may write to"));
  }
  return absl::OkStatus();
}

// Letters, digits, '-', '_' and '.' as they are; the rest in hex, so that every actor has a file name of its own.
std::string FileName(const std::string& text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string name;
  for (unsigned char c : text) {
    bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
    if (plain) {
      name.push_back(c);
    } else {
      name += {'%', kHex[c >> 4], kHex[c & 15]};
    }
  }
  return name;
}

}  // namespace

std::string DefaultRuntimeDir(const std::string& name) {
  std::string base = EnvironmentVariable("XDG_RUNTIME_DIR");
  if (base.empty()) base = "/tmp";
  return base + "/troupe-" + std::to_string(::geteuid()) + "/" + name;
}

absl::StatusOr<std::unique_ptr<RuntimeFolder>> RuntimeFolder::Open(const std::string& path) {
  TROUPE_RETURN_IF_ERROR(CheckPath(path));
  TROUPE_RETURN_IF_ERROR(MakeDirs(path, 0700));
  TROUPE_RETURN_IF_ERROR(CheckOwner(path));
  TROUPE_ASSIGN_OR_RETURN(FileLock lock, FileLock::Acquire(path + "/agent.lock", "another agent"));
  TROUPE_RETURN_IF_ERROR(MakeDirs(path + "/workers", 0700));
  return std::unique_ptr<RuntimeFolder>(new RuntimeFolder(path, std::move(lock)));
}

absl::StatusOr<v1::AgentIdentity> RuntimeFolder::LoadIdentity() const {
  v1::AgentIdentity identity;
  absl::StatusOr<std::string> bytes = ReadFile(path_ + "/identity", kFileBytesMax);
  if (absl::IsNotFound(bytes.status())) return identity;
  if (!bytes.ok()) return bytes.status();
  if (!identity.ParseFromString(*bytes)) {
    return absl::DataLossError(path_ + "/identity is broken; remove it to join as a new node");
  }
  return identity;
}

absl::Status RuntimeFolder::KeepIdentity(const v1::AgentIdentity& identity) {
  return WriteFileAtomic(path_ + "/identity", identity.SerializeAsString(), 0600);
}

absl::StatusOr<std::vector<v1::AssignedWorker>> RuntimeFolder::LoadAssignments() const {
  std::vector<v1::AssignedWorker> assigned;
  TROUPE_ASSIGN_OR_RETURN(std::vector<std::string> names, ListDirectory(path_ + "/workers"));
  for (const std::string& name : names) {
    const std::string path = path_ + "/workers/" + name;
    // An agent ended while it wrote it, so before it started the worker.
    if (name.find(".tmp-") != std::string::npos) {
      ::unlink(path.c_str());
      continue;
    }
    TROUPE_ASSIGN_OR_RETURN(std::string bytes, ReadFile(path, kFileBytesMax));
    v1::AssignedWorker worker;
    if (!worker.ParseFromString(bytes) || worker.start().actor().incarnation() == 0) {
      return absl::DataLossError(path + " does not say which worker was started; remove it and kill the node's " +
                                 "troupe_keeper: its workers end with it and are started anew");
    }
    assigned.push_back(std::move(worker));
  }
  return assigned;
}

absl::Status RuntimeFolder::KeepAssignment(const v1::AssignedWorker& assigned) {
  return WriteFileAtomic(AssignmentPath(ActorLife::FromProto(assigned.start().actor())), assigned.SerializeAsString(),
                         0600);
}

void RuntimeFolder::ForgetAssignment(const ActorLife& actor) { ::unlink(AssignmentPath(actor).c_str()); }

void RuntimeFolder::RemoveDeadSockets() {
  absl::StatusOr<std::vector<std::string>> names = ListDirectory(path_);
  for (const std::string& name : names.value_or(std::vector<std::string>())) {
    if (name.rfind("w-", 0) == 0 && IsDeadSocket(path_ + "/" + name)) ::unlink((path_ + "/" + name).c_str());
  }
}

void RuntimeFolder::Remove() {
  static_cast<void>(RemoveTree(path_));
  lock_.Release();
}

std::string RuntimeFolder::AssignmentPath(const ActorLife& actor) const {
  return path_ + "/workers/" + FileName(actor.ToString());
}

}  // namespace troupe::agent
