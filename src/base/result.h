// Errors are values: every function that can fail for a reason outside the program returns a
// Result<T>. What can only fail through our own mistake is a DSV4_CHECK (check.h).
#pragma once

#include <fmt/format.h>

#include <expected>
#include <string>
#include <utility>

namespace dsv4 {

// What kind of failure; the command line turns it into its exit code (tools/command.h).
enum class ErrorKind {
  kFailed,      // the operation could not be done (I/O, resources, interrupted)
  kUsage,       // the command line is wrong
  kBadInput,    // a file, model or message is not as it must be
  kDoesNotFit,  // memory, context or disk does not hold what was asked for
};

struct Error {
  ErrorKind kind = ErrorKind::kFailed;
  // Names the thing, what was expected and what was found. No trailing full stop.
  std::string message;
};

template <class T>
using Result = std::expected<T, Error>;
using Status = Result<void>;

template <class... Args>
std::unexpected<Error> MakeError(ErrorKind kind, fmt::format_string<Args...> format,
                                 Args&&... args) {
  return std::unexpected(Error{kind, fmt::format(format, std::forward<Args>(args)...)});
}
template <class... Args>
std::unexpected<Error> Failed(fmt::format_string<Args...> format, Args&&... args) {
  return MakeError(ErrorKind::kFailed, format, std::forward<Args>(args)...);
}
template <class... Args>
std::unexpected<Error> BadInput(fmt::format_string<Args...> format, Args&&... args) {
  return MakeError(ErrorKind::kBadInput, format, std::forward<Args>(args)...);
}
template <class... Args>
std::unexpected<Error> DoesNotFit(fmt::format_string<Args...> format, Args&&... args) {
  return MakeError(ErrorKind::kDoesNotFit, format, std::forward<Args>(args)...);
}
template <class... Args>
std::unexpected<Error> UsageError(fmt::format_string<Args...> format, Args&&... args) {
  return MakeError(ErrorKind::kUsage, format, std::forward<Args>(args)...);
}

// Puts `context: ` before the message of an error on its way up.
inline std::unexpected<Error> Within(std::string_view context, Error error) {
  error.message = fmt::format("{}: {}", context, error.message);
  return std::unexpected(std::move(error));
}

}  // namespace dsv4

#define DSV4_CONCAT_INNER(a, b) a##b
#define DSV4_CONCAT(a, b) DSV4_CONCAT_INNER(a, b)

// Returns the error of a Status or Result expression to the caller.
#define DSV4_TRY(expression)                                  \
  do {                                                        \
    if (auto dsv4_status = (expression); !dsv4_status) {      \
      return std::unexpected(std::move(dsv4_status).error()); \
    }                                                         \
  } while (false)

// DSV4_ASSIGN(auto x, F()): x is the value of F(), or its error is returned to the caller.
#define DSV4_ASSIGN(target, expression) \
  DSV4_ASSIGN_INNER(DSV4_CONCAT(dsv4_result_, __LINE__), target, expression)
#define DSV4_ASSIGN_INNER(result, target, expression)             \
  auto result = (expression);                                     \
  if (!result) return std::unexpected(std::move(result).error()); \
  target = std::move(result).value()
