// SPDX-License-Identifier: Apache-2.0
#include "actors/trainer/core/file_digest.h"

#include <openssl/evp.h>

#include <array>
#include <memory>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/env/mapped_file.h"

namespace troupe {

absl::StatusOr<FileDigest> DigestFile(const std::string& path) {
  TROUPE_ASSIGN_OR_RETURN(const std::unique_ptr<MappedFile> file, MappedFile::Open(path));
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int length = 0;
  const auto bytes = file->bytes();
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), &length, EVP_sha256(), nullptr) != 1) {
    return absl::InternalError(absl::StrCat("cannot compute the checksum of ", path));
  }
  const std::string raw(reinterpret_cast<const char*>(digest.data()), length);
  return FileDigest{.bytes = static_cast<int64_t>(bytes.size()), .sha256 = absl::BytesToHexString(raw)};
}

}  // namespace troupe
