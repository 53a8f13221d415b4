// SPDX-License-Identifier: Apache-2.0
// SqliteDatabase: one connection of SQLite as far as the store needs it, with SQLite's errors as absl::Status. The only
// file that includes sqlite3.h is its .cc. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

struct sqlite3;
struct sqlite3_stmt;

namespace troupe::scheduler {

class SqliteDatabase {
 public:
  static absl::StatusOr<std::unique_ptr<SqliteDatabase>> Open(const std::string& path);
  ~SqliteDatabase();
  SqliteDatabase(const SqliteDatabase&) = delete;
  SqliteDatabase& operator=(const SqliteDatabase&) = delete;

  // One or more statements without parameters or results.
  absl::Status Execute(const std::string& sql);

  // Runs one statement with (number, number, blob) bound to ?1, ?2, ?3, as far as it has them. It is kept prepared:
  // for the few that are run often.
  absl::Status Run(const char* sql, int64_t first = 0, int64_t second = 0, std::string_view blob = {});

  // Calls `row` with the first two columns as numbers and the third as bytes (0 and empty where there is none).
  using Row = std::function<absl::Status(int64_t, int64_t, std::string_view)>;
  absl::Status Query(const std::string& sql, const Row& row);

  // The first column of the first row as text; "" when there is none.
  absl::StatusOr<std::string> QueryText(const std::string& sql);

 private:
  SqliteDatabase(sqlite3* database, std::string path) : database_(database), path_(std::move(path)) {}
  absl::Status ErrorOf(int code) const;
  absl::StatusOr<sqlite3_stmt*> Prepare(const std::string& sql);

  sqlite3* database_;
  std::map<const char*, sqlite3_stmt*> prepared_;  // By the address of the text.
  const std::string path_;
};

}  // namespace troupe::scheduler
