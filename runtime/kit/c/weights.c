// The weights image: a header, and the packed weights of each CPU level.
//
//   offset   bytes
//   0        16     "tcopt-weights\n", padded with zeros
//   16       4      the format version, little-endian as all numbers
//   20       4      zero
//   24       8      bytes of the image
//   32       32     the digest of everything after the header
//   64              the weights of each level, at multiples of 64
//
// A digest is the SHA-256 hash of the size in decimal, a line feed, and the hashes of all chunks of
// 1 MiB.

#include "internal.h"

#define HEADER_BYTES 64
#define CHUNK (1u << 20)
#define BLOCK 64

typedef struct {
  uint32_t state[8];
  uint8_t block[BLOCK];
  uint64_t bytes;
} Hash;

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

static void begin(Hash *hash) {
  static const uint32_t initial[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  for (int i = 0; i < 8; i++)
    hash->state[i] = initial[i];
  hash->bytes = 0;
}

static void update(Hash *hash, const uint8_t *data, uint64_t bytes) {
  while (bytes != 0) {
    uint64_t used = hash->bytes % BLOCK;
    if (used == 0 && bytes >= BLOCK) {
      hash_block(hash->state, data);
      data += BLOCK, bytes -= BLOCK, hash->bytes += BLOCK;
      continue;
    }
    hash->block[used] = *data++;
    bytes--;
    if (++hash->bytes % BLOCK == 0)
      hash_block(hash->state, hash->block);
  }
}

static void finish(Hash *hash, uint8_t digest[DIGEST_BYTES]) {
  uint64_t bits = 8 * hash->bytes;
  uint8_t end = 0x80, zero = 0, length[8];
  update(hash, &end, 1);
  while (hash->bytes % BLOCK != BLOCK - 8)
    update(hash, &zero, 1);
  for (int i = 0; i < 8; i++)
    length[i] = (uint8_t)(bits >> (56 - 8 * i));
  update(hash, length, 8);
  for (int i = 0; i < DIGEST_BYTES; i++)
    digest[i] = (uint8_t)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
}

void digest_of(const uint8_t *data, uint64_t bytes, uint8_t digest[DIGEST_BYTES]) {
  Hash whole, part;
  uint8_t text[24];
  size_t first = sizeof text;
  text[--first] = '\n';
  uint64_t rest = bytes;
  do {
    text[--first] = (uint8_t)('0' + rest % 10);
    rest /= 10;
  } while (rest != 0);
  begin(&whole);
  update(&whole, text + first, sizeof text - first);
  for (uint64_t start = 0; start < bytes; start += CHUNK) {
    begin(&part);
    update(&part, data + start, bytes - start < CHUNK ? bytes - start : CHUNK);
    finish(&part, digest);
    update(&whole, digest, DIGEST_BYTES);
  }
  finish(&whole, digest);
}

static uint64_t number_at(const uint8_t *data, int bytes) {
  uint64_t value = 0;
  for (int i = bytes - 1; i >= 0; i--)
    value = value << 8 | data[i];
  return value;
}

static bool equal_bytes(const uint8_t *a, const uint8_t *b, size_t bytes) {
  for (size_t i = 0; i < bytes; i++)
    if (a[i] != b[i])
      return false;
  return true;
}

// Checks the header of an image, and the digest of a level's weights unless they are trusted.
tcopt_status check_weights(const tcopt_descriptor *descriptor, const tcopt_level *level,
                           const uint8_t *image, uint64_t bytes, bool trusted) {
  static const uint8_t magic[16] = "tcopt-weights\n";
  const char *name = descriptor->name;
  if (bytes < HEADER_BYTES || !equal_bytes(image, magic, sizeof magic))
    return fail(TCOPT_WRONG_WEIGHTS, "the weights of %s are truncated, or not a weights file", name);
  uint64_t version = number_at(image + 16, 4), whole = number_at(image + 24, 8);
  if (version != TCOPT_FORMAT_VERSION)
    return fail(TCOPT_WRONG_VERSION, "the weights of %s have format %d; the library reads %d", name,
                (int64_t)version, (int64_t)TCOPT_FORMAT_VERSION);
  if (!equal_bytes(image + 32, descriptor->digest, DIGEST_BYTES))
    return fail(TCOPT_WRONG_WEIGHTS, "the weights belong to another model than %s, or another compile",
                name);
  if (whole != descriptor->weights_bytes || bytes != whole)
    return fail(TCOPT_WRONG_WEIGHTS, "the weights of %s have %d bytes instead of %d", name,
                (int64_t)bytes, (int64_t)descriptor->weights_bytes);
  if ((uintptr_t)image % ALIGNMENT != 0)
    return fail(TCOPT_INVALID_ARGUMENT, "weights should be aligned to %d bytes", (int64_t)ALIGNMENT);
  uint8_t digest[DIGEST_BYTES];
  if (trusted)
    return TCOPT_OK;
  digest_of(image + level->weights_offset, level->weights_bytes, digest);
  if (!equal_bytes(digest, level->digest, DIGEST_BYTES))
    return fail(TCOPT_WRONG_WEIGHTS, "the weights of %s are altered: they do not match their digest",
                name);
  return TCOPT_OK;
}
