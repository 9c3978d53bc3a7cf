// SHA-256, with the instructions of x86 where the CPU has them.

#include "sha256.h"

static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t turned(uint32_t x, uint32_t bits) { return x >> bits | x << (32 - bits); }

static void hash_block(uint32_t state[8], const uint8_t *block) {
  uint32_t w[64], v[8];
  for (int i = 0; i < 16; i++)
    w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
           (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
  for (int i = 16; i < 64; i++) {
    uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + (turned(a, 7) ^ turned(a, 18) ^ a >> 3) + w[i - 7] +
           (turned(b, 17) ^ turned(b, 19) ^ b >> 10);
  }
  for (int i = 0; i < 8; i++)
    v[i] = state[i];
  for (int i = 0; i < 64; i++) {
    uint32_t a = v[0], e = v[4];
    uint32_t t = v[7] + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) +
                 ((e & v[5]) ^ (~e & v[6])) + constants[i] + w[i];
    uint32_t u = (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) +
                 ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
    for (int k = 7; k > 0; k--)
      v[k] = v[k - 1];
    v[4] += t;
    v[0] = t + u;
  }
  for (int i = 0; i < 8; i++)
    state[i] += v[i];
}

static void hash_blocks(uint32_t state[8], const uint8_t *blocks, uint64_t count) {
  for (; count != 0; count--, blocks += BLOCK)
    hash_block(state, blocks);
}

#if defined(__x86_64__) && !defined(TCOPT_FREESTANDING)
#include <immintrin.h>

// The instructions keep the state as the vectors (F, E, B, A) and (H, G, D, C), lowest lane first.
__attribute__((target("sha,sse4.1"))) static void hash_quickly(uint32_t state[8],
                                                               const uint8_t *blocks,
                                                               uint64_t count) {
  const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  __m128i abef = _mm_set_epi32((int)state[0], (int)state[1], (int)state[4], (int)state[5]);
  __m128i cdgh = _mm_set_epi32((int)state[2], (int)state[3], (int)state[6], (int)state[7]);
  for (; count != 0; count--, blocks += BLOCK) {
    __m128i before_abef = abef, before_cdgh = cdgh, w[4];
    for (int i = 0; i < 4; i++)
      w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(blocks + 16 * i)), swap);
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
      __m128i *now = &w[i % 4], next = w[(i + 1) % 4], last = w[(i + 3) % 4];
      __m128i sum = _mm_add_epi32(*now, _mm_loadu_si128((const __m128i *)(constants + 4 * i)));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
      __m128i middle = _mm_alignr_epi8(last, w[(i + 2) % 4], 4);
      *now = _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(*now, next), middle), last);
    }
    abef = _mm_add_epi32(abef, before_abef);
    cdgh = _mm_add_epi32(cdgh, before_cdgh);
  }
  uint32_t parts[8];
  _mm_storeu_si128((__m128i *)parts, abef);
  _mm_storeu_si128((__m128i *)(parts + 4), cdgh);
  static const int places[8] = {3, 2, 7, 6, 1, 0, 5, 4};
  for (int i = 0; i < 8; i++)
    state[i] = parts[places[i]];
}
#else
#define hash_quickly hash_blocks
#endif

void sha256_begin(Sha256 *hash) {
  static const uint32_t initial[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  for (int i = 0; i < 8; i++)
    hash->state[i] = initial[i];
  hash->bytes = 0;
  hash->hash = has_sha256() ? hash_quickly : hash_blocks;
}

void sha256_update(Sha256 *hash, const uint8_t *data, uint64_t bytes) {
  while (bytes != 0) {
    uint64_t used = hash->bytes % BLOCK;
    if (used == 0 && bytes >= BLOCK) {
      uint64_t whole = bytes / BLOCK * BLOCK;
      hash->hash(hash->state, data, whole / BLOCK);
      data += whole, bytes -= whole, hash->bytes += whole;
      continue;
    }
    hash->block[used] = *data++;
    bytes--;
    if (++hash->bytes % BLOCK == 0)
      hash->hash(hash->state, hash->block, 1);
  }
}

void sha256_finish(Sha256 *hash, uint8_t digest[DIGEST_BYTES]) {
  uint64_t bits = 8 * hash->bytes;
  uint8_t end = 0x80, zero = 0, length[8];
  sha256_update(hash, &end, 1);
  while (hash->bytes % BLOCK != BLOCK - 8)
    sha256_update(hash, &zero, 1);
  for (int i = 0; i < 8; i++)
    length[i] = (uint8_t)(bits >> (56 - 8 * i));
  sha256_update(hash, length, 8);
  for (int i = 0; i < DIGEST_BYTES; i++)
    digest[i] = (uint8_t)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
}
