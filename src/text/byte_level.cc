#include "text/byte_level.h"

#include <array>
#include <cstdint>

#include "base/utf8.h"

namespace dsv4 {
namespace {

constexpr bool StandsForItself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr int kNumCharacters = 0x144;

constexpr std::array<char32_t, 256> CharacterOfByte() {
  std::array<char32_t, 256> characters{};
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    characters[static_cast<size_t>(byte)] =
        StandsForItself(byte) ? static_cast<char32_t>(byte) : next++;
  }
  return characters;
}

constexpr std::array<int16_t, kNumCharacters> ByteOfCharacter() {
  std::array<int16_t, kNumCharacters> bytes{};
  bytes.fill(-1);
  const auto characters = CharacterOfByte();
  for (size_t byte = 0; byte < characters.size(); ++byte) {
    bytes[characters[byte]] = static_cast<int16_t>(byte);
  }
  return bytes;
}

constexpr auto kCharacterOfByte = CharacterOfByte();
constexpr auto kByteOfCharacter = ByteOfCharacter();

}  // namespace

bool AppendBytesOf(std::string_view name, std::string& bytes) {
  for (size_t i = 0; i < name.size();) {
    const utf8::Decoded c = utf8::DecodeAt(name, i);
    if (!c.valid || c.code_point >= kNumCharacters || kByteOfCharacter[c.code_point] < 0) {
      return false;
    }
    bytes += static_cast<char>(kByteOfCharacter[c.code_point]);
    i += static_cast<size_t>(c.length);
  }
  return true;
}

std::string ByteLevelName(std::string_view bytes) {
  std::string name;
  for (const char byte : bytes) utf8::Append(name, kCharacterOfByte[static_cast<uint8_t>(byte)]);
  return name;
}

}  // namespace dsv4
