#include "text/wire_dialect.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/json.h"

namespace dsv4::chat {
namespace {

std::vector<std::string_view> ControlTokensOf(const WireTexts& texts) {
  std::vector<std::string_view> tokens = {
      texts.bos,         texts.eos,       texts.user, texts.assistant, texts.latest_reminder,
      texts.think_start, texts.think_end, texts.dsml};
  for (const TaskToken& task : texts.tasks) tokens.push_back(task.token);
  return tokens;
}

size_t LongestOf(std::span<const std::string_view> texts) {
  size_t longest = 0;
  for (const std::string_view text : texts) longest = std::max(longest, text.size());
  return longest;
}

// What the parsers take for granted.
void CheckTexts(const WireDialect& dialect) {
  for (const std::string_view word : {dialect.calls, dialect.invoke, dialect.parameter,
                                      dialect.name, dialect.string, dialect.model_type}) {
    DSV4_CHECK(!word.empty(), "dialect {}: a word is empty", dialect.model_type);
  }
  const auto& tokens = dialect.control_tokens;
  for (size_t i = 0; i < tokens.size(); ++i) {
    for (size_t k = 0; k < tokens.size(); ++k) {
      DSV4_CHECK(i == k || !tokens[k].starts_with(tokens[i]), "dialect {}: '{}' begins '{}'",
                 dialect.model_type, tokens[i], tokens[k]);
    }
  }
}

// Every dialect there is.
const std::vector<const WireDialect*>& KnownDialects() {
  static const auto& known = *new std::vector<const WireDialect*>{&DeepSeekV4()};
  return known;
}

}  // namespace

WireDialect::WireDialect(WireTexts texts)
    : WireTexts(std::move(texts)),
      control_tokens(ControlTokensOf(*this)),
      forbidden{bos, eos, think_start, think_end, dsml},
      longest_forbidden(LongestOf(forbidden)),
      calls_head(fmt::format("<{}{}>\n", dsml, calls)),
      calls_tail(fmt::format("</{}{}>", dsml, calls)),
      invoke_head(fmt::format("<{}{} {}=\"", dsml, invoke, name)),
      invoke_tail(fmt::format("</{}{}>", dsml, invoke)),
      parameter_head(fmt::format("<{}{} {}=\"", dsml, parameter, name)),
      parameter_tail(fmt::format("</{}{}>", dsml, parameter)),
      string_true(fmt::format("\" {}=\"true\">", string)),
      string_false(fmt::format("\" {}=\"false\">", string)),
      block_open(fmt::format("\n\n<{}{}", dsml, calls)),
      invoke_open(fmt::format("<{}{}", dsml, invoke)),
      invoke_close(fmt::format("</{}{}", dsml, invoke)),
      parameter_open(fmt::format("<{}{}", dsml, parameter)),
      parameter_close(fmt::format("</{}{}", dsml, parameter)),
      bare_parameter_close(parameter_close.substr(1)),
      name_head(name + "=\""),
      parameter_name_head(" " + name_head),
      block_head(block_open + ">\n"),
      invoke_end(invoke_tail + "\n"),
      parameter_end(parameter_tail + "\n") {
  CheckTexts(*this);
}

std::vector<std::string> WireDialectNames() {
  std::vector<std::string> names;
  for (const WireDialect* known : KnownDialects()) names.push_back(known->model_type);
  return names;
}

Result<const WireDialect*> FindWireDialect(std::string_view model_type) {
  for (const WireDialect* known : KnownDialects()) {
    if (known->model_type == model_type) return known;
  }
  return BadInput("expected a family whose chat format is known ({}), found {}",
                  fmt::join(WireDialectNames(), ", "), json::Quote(model_type));
}

}  // namespace dsv4::chat
