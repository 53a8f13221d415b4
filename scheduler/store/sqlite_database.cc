// SPDX-License-Identifier: Apache-2.0
#include "scheduler/store/sqlite_database.h"

#include <sqlite3.h>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"

namespace troupe::scheduler {
namespace {

// Finalizes when it goes out of scope.
struct Statement {
  explicit Statement(sqlite3_stmt* statement) : get(statement) {}
  ~Statement() { sqlite3_finalize(get); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  sqlite3_stmt* get;
};

std::string_view BytesOf(sqlite3_stmt* statement, int column) {
  const void* data = sqlite3_column_blob(statement, column);
  return {static_cast<const char*>(data), static_cast<size_t>(sqlite3_column_bytes(statement, column))};
}

}  // namespace

absl::StatusOr<std::unique_ptr<SqliteDatabase>> SqliteDatabase::Open(const std::string& path) {
  sqlite3* raw = nullptr;
  int code =
      sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  std::unique_ptr<SqliteDatabase> database(new SqliteDatabase(raw, path));
  if (code != SQLITE_OK) return database->ErrorOf(code);
  sqlite3_extended_result_codes(raw, 1);
  return database;
}

SqliteDatabase::~SqliteDatabase() {
  for (const auto& [sql, statement] : prepared_) sqlite3_finalize(statement);
  sqlite3_close(database_);
}

absl::Status SqliteDatabase::Execute(const std::string& sql) {
  int code = sqlite3_exec(database_, sql.c_str(), nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : ErrorOf(code);
}

absl::Status SqliteDatabase::Run(const char* sql, int64_t first, int64_t second, std::string_view blob) {
  sqlite3_stmt*& raw = prepared_[sql];
  if (raw == nullptr) {
    TROUPE_ASSIGN_OR_RETURN(raw, Prepare(sql));
  }
  int parameters = sqlite3_bind_parameter_count(raw);
  if (parameters >= 1) sqlite3_bind_int64(raw, 1, first);
  if (parameters >= 2) sqlite3_bind_int64(raw, 2, second);
  if (parameters >= 3) sqlite3_bind_blob64(raw, 3, blob.data(), blob.size(), SQLITE_STATIC);
  int code = sqlite3_step(raw);
  absl::Status status = code == SQLITE_DONE || code == SQLITE_ROW ? absl::OkStatus() : ErrorOf(code);
  sqlite3_reset(raw);
  sqlite3_clear_bindings(raw);
  return status;
}

absl::Status SqliteDatabase::Query(const std::string& sql, const Row& row) {
  TROUPE_ASSIGN_OR_RETURN(sqlite3_stmt * raw, Prepare(sql));
  Statement statement(raw);
  int code = SQLITE_OK;
  while ((code = sqlite3_step(raw)) == SQLITE_ROW) {
    int columns = sqlite3_column_count(raw);
    int64_t first = columns > 0 ? sqlite3_column_int64(raw, 0) : 0;
    int64_t second = columns > 1 ? sqlite3_column_int64(raw, 1) : 0;
    TROUPE_RETURN_IF_ERROR(row(first, second, columns > 2 ? BytesOf(raw, 2) : std::string_view()));
  }
  return code == SQLITE_DONE ? absl::OkStatus() : ErrorOf(code);
}

absl::StatusOr<std::string> SqliteDatabase::QueryText(const std::string& sql) {
  TROUPE_ASSIGN_OR_RETURN(sqlite3_stmt * raw, Prepare(sql));
  Statement statement(raw);
  int code = sqlite3_step(raw);
  if (code == SQLITE_DONE) return std::string();
  if (code != SQLITE_ROW) return ErrorOf(code);
  const unsigned char* text = sqlite3_column_text(raw, 0);
  return text == nullptr ? std::string() : std::string(reinterpret_cast<const char*>(text));
}

absl::StatusOr<sqlite3_stmt*> SqliteDatabase::Prepare(const std::string& sql) {
  sqlite3_stmt* statement = nullptr;
  int code = sqlite3_prepare_v2(database_, sql.c_str(), -1, &statement, nullptr);
  if (code != SQLITE_OK) return ErrorOf(code);
  return statement;
}

absl::Status SqliteDatabase::ErrorOf(int code) const {
  std::string text = absl::StrCat(path_, ": ", database_ == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(database_));
  switch (code & 0xff) {
    case SQLITE_FULL:
      return absl::ResourceExhaustedError(absl::StrCat(text, ": make space on that disk"));
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::DataLossError(
          absl::StrCat(text, ": the store is damaged. Move it away to start with an empty one, or put a copy back"));
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return absl::AlreadyExistsError(absl::StrCat(text, ": another process holds it"));
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_READONLY:
      return absl::PermissionDeniedError(text);
    case SQLITE_CANTOPEN:
      return absl::FailedPreconditionError(text);
    default:
      return absl::UnavailableError(text);
  }
}

}  // namespace troupe::scheduler
