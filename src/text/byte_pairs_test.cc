#include "text/byte_pairs.h"

#include <gmock/gmock.h>

#include <map>
#include <numeric>
#include <random>
#include <string>

namespace dsv4 {
namespace {

using ::testing::ElementsAre;

std::array<int32_t, 256> BytesAsIds() {
  std::array<int32_t, 256> ids;
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

// As the definition says: always the pair of lowest rank, the leftmost among equals.
std::vector<int32_t> Naive(std::string_view piece, const std::vector<BytePairs::Merge>& merges) {
  std::map<std::pair<int32_t, int32_t>, size_t> ranks;
  for (size_t i = 0; i < merges.size(); ++i) ranks[{merges[i].left, merges[i].right}] = i;
  std::vector<int32_t> ids;
  for (const char byte : piece) ids.push_back(static_cast<uint8_t>(byte));
  while (true) {
    size_t best = merges.size(), place = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto found = ranks.find({ids[i], ids[i + 1]});
      if (found == ranks.end() || found->second >= best) continue;
      best = found->second;
      place = i;
    }
    if (best == merges.size()) return ids;
    ids[place] = merges[best].product;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
}

TEST(BytePairs, AnyMergesOnPiecesOfAnyLengthAsTheDefinitionSays) {
  std::mt19937 random(23);
  for (int round = 0; round < 300; ++round) {
    // Merges of random earlier tokens: ranks rise with the products, or not (then products repeat).
    std::vector<BytePairs::Merge> merges;
    std::map<std::pair<int32_t, int32_t>, bool> seen;
    const bool shuffled = round % 3 == 0;
    for (int32_t product = 256; product < 256 + 40; ++product) {
      const auto pick = [&] {
        const auto any = static_cast<int32_t>(random() % static_cast<unsigned>(product - 256 + 3));
        return any < 3 ? 'a' + any : 256 + any - 3;
      };
      const BytePairs::Merge merge{pick(), pick(), product};
      if (std::exchange(seen[{merge.left, merge.right}], true)) continue;
      merges.push_back(merge);
    }
    if (shuffled) std::shuffle(merges.begin(), merges.end(), random);
    BytePairs pairs(BytesAsIds());
    ASSERT_EQ(pairs.SetMerges(merges), std::nullopt);
    for (const size_t size : {0, 1, 2, 3, 7, 20, 47, 48, 49, 50, 130}) {
      std::string piece;
      while (piece.size() < size) piece += static_cast<char>('a' + random() % (1 + size % 3));
      std::vector<int32_t> ids = {-5};  // what was there stays
      pairs.Encode(piece, ids);
      std::vector<int32_t> expected = Naive(piece, merges);
      expected.insert(expected.begin(), -5);
      ASSERT_EQ(ids, expected) << piece;
    }
  }
}

TEST(BytePairs, AmongEqualsTheLeftmost) {
  BytePairs pairs(BytesAsIds());
  const BytePairs::Merge merges[] = {{'a', 'a', 256}, {256, 'a', 257}};
  ASSERT_EQ(pairs.SetMerges(merges), std::nullopt);
  std::vector<int32_t> ids;
  pairs.Encode("aaa", ids);
  EXPECT_THAT(ids, ElementsAre(257));
}

TEST(BytePairs, WithoutMergesEveryByteIsAToken) {
  BytePairs pairs(BytesAsIds());
  ASSERT_EQ(pairs.SetMerges({}), std::nullopt);
  std::vector<int32_t> ids;
  pairs.Encode("ab\xFF", ids);
  EXPECT_THAT(ids, ElementsAre('a', 'b', 255));
}

TEST(BytePairs, APairThatStandsTwiceIsNamed) {
  BytePairs pairs(BytesAsIds());
  const BytePairs::Merge merges[] = {{'a', 'b', 256}, {'b', 'c', 257}, {'a', 'b', 258}};
  EXPECT_EQ(pairs.SetMerges(merges), 2u);
}

}  // namespace
}  // namespace dsv4
