// The hash function SHA-256 (FIPS 180-4).

#ifndef TCOPT_SHA256_H
#define TCOPT_SHA256_H

#include "internal.h"

#define BLOCK 64

typedef struct {
  uint32_t state[8];
  uint8_t block[BLOCK];
  uint64_t bytes;
  // Hashes `count` blocks.
  void (*hash)(uint32_t state[8], const uint8_t *blocks, uint64_t count);
} Sha256;

HIDDEN void sha256_begin(Sha256 *hash);
HIDDEN void sha256_update(Sha256 *hash, const uint8_t *data, uint64_t bytes);
HIDDEN void sha256_finish(Sha256 *hash, uint8_t digest[DIGEST_BYTES]);

#endif
