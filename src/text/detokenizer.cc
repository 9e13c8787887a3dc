#include "text/detokenizer.h"

namespace dsv4 {

std::string Detokenizer::Push(int32_t id) {
  if (skip_special_ && tokenizer_->IsSpecial(id)) return {};
  return stream_.Push(tokenizer_->TokenBytes(id));
}

}  // namespace dsv4
