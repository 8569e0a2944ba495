#include "engine/redis/script.h"

#include <openssl/evp.h>

#include <array>
#include <cstdlib>
#include <span>
#include <utility>

#include "base/bytes.h"
#include "engine/redis/script_texts.h"

namespace penstock::engine::redis {
std::string Sha1(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned size = 0;
  if (EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha1(), nullptr) != 1) std::abort();
  std::string out;
  AppendHex(out, std::span(digest).first(size));
  return out;
}

std::vector<Script> ScriptsWith(std::string_view prelude) {
  std::vector<Script> out;
  for (const ScriptText& script : kScriptTexts) {
    std::string text(prelude);
    text += script.text;
    std::string sha1 = Sha1(text);
    out.push_back({script.name, std::move(text), std::move(sha1)});
  }
  return out;
}

std::span<const Script> Scripts() {
  static const std::vector<Script> scripts = ScriptsWith({});
  return scripts;
}

}  // namespace penstock::engine::redis
