// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "runtime/base/status.h"
#include "runtime/env/file.h"
#include "runtime/env/random.h"
#include "runtime/rpc/security.h"

namespace troupe {
namespace {

constexpr size_t kTokenBytes = 32;
// A file or descriptor may end its token with white space; anything longer is no token.
constexpr int64_t kTokenFileBytesMax = 4096;

absl::StatusOr<std::string> ParseToken(std::string text, const std::string& where) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.pop_back();
  if (!Token::IsWellFormed(text)) {
    return absl::InvalidArgumentError(where + " holds no token (64 lower-case hex digits); remove it to get a new one");
  }
  return text;
}

}  // namespace

std::string Token::Generate() { return RandomHex(kTokenBytes); }

bool Token::IsWellFormed(const std::string& token) {
  return token.size() == 2 * kTokenBytes && std::all_of(token.begin(), token.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

absl::StatusOr<std::string> Token::Load(const std::string& path) {
  TROUPE_ASSIGN_OR_RETURN(FileInfo info, StatFile(path));
  if ((info.permissions & 0077) != 0) {
    return absl::UnauthenticatedError("the token file " + path + " may be read by others; run: chmod 600 " + path);
  }
  if (info.owner != ::geteuid()) {
    return absl::UnauthenticatedError("the token file " + path + " belongs to another user");
  }
  TROUPE_ASSIGN_OR_RETURN(std::string text, ReadFile(path, kTokenFileBytesMax));
  return ParseToken(std::move(text), path);
}

absl::StatusOr<std::string> Token::LoadOrCreate(const std::string& path) {
  absl::StatusOr<std::string> token = Load(path);
  if (token.status().code() != absl::StatusCode::kNotFound) return token;
  std::string folder = std::filesystem::path(path).parent_path().string();
  if (!folder.empty()) TROUPE_RETURN_IF_ERROR(MakeDirs(folder, 0700));
  absl::Status created = CreateFileAtomic(path, Generate() + "\n", 0600);
  if (!created.ok() && created.code() != absl::StatusCode::kAlreadyExists) return created;
  return Load(path);
}

absl::StatusOr<std::string> Token::FromDescriptor(int fd) {
  // Works for pipes, memory files and sockets alike.
  absl::StatusOr<std::string> text = ReadFile("/proc/self/fd/" + std::to_string(fd), kTokenFileBytesMax);
  ::close(fd);
  if (!text.ok()) return Annotate(text.status(), "the token's descriptor " + std::to_string(fd));
  return ParseToken(*std::move(text), "the descriptor " + std::to_string(fd));
}

}  // namespace troupe
