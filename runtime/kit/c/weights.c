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
#include "sha256.h"

#define HEADER_BYTES 64
#define CHUNK (1u << 20)

void digest_of(const uint8_t *data, uint64_t bytes, uint8_t digest[DIGEST_BYTES]) {
  Sha256 whole, part;
  uint8_t text[24];
  size_t first = sizeof text;
  text[--first] = '\n';
  uint64_t rest = bytes;
  do {
    text[--first] = (uint8_t)('0' + rest % 10);
    rest /= 10;
  } while (rest != 0);
  sha256_begin(&whole);
  sha256_update(&whole, text + first, sizeof text - first);
  for (uint64_t start = 0; start < bytes; start += CHUNK) {
    sha256_begin(&part);
    sha256_update(&part, data + start, bytes - start < CHUNK ? bytes - start : CHUNK);
    sha256_finish(&part, digest);
    sha256_update(&whole, digest, DIGEST_BYTES);
  }
  sha256_finish(&whole, digest);
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
                           const uint8_t *image, uint64_t bytes, bool is_trusted) {
  static const uint8_t magic[16] = "tcopt-weights\n";
  const char *name = descriptor->name;
  if (bytes < HEADER_BYTES || !equal_bytes(image, magic, sizeof magic))
    return fail(TCOPT_WRONG_WEIGHTS, "the weights of %s are truncated, or not a weights file",
                name);
  uint64_t version = number_at(image + 16, 4), whole = number_at(image + 24, 8);
  if (version != TCOPT_FORMAT_VERSION)
    return fail(TCOPT_WRONG_VERSION, "the weights of %s have format %d; the library reads %d", name,
                (int64_t)version, (int64_t)TCOPT_FORMAT_VERSION);
  if (!equal_bytes(image + 32, descriptor->digest, DIGEST_BYTES))
    return fail(TCOPT_WRONG_WEIGHTS,
                "the weights belong to another model than %s, or another compile", name);
  if (whole != descriptor->weights_bytes || bytes != whole)
    return fail(TCOPT_WRONG_WEIGHTS, "the weights of %s have %d bytes instead of %d", name,
                (int64_t)bytes, (int64_t)descriptor->weights_bytes);
  if ((uintptr_t)image % ALIGNMENT != 0)
    return fail(TCOPT_INVALID_ARGUMENT, "weights should be aligned to %d bytes",
                (int64_t)ALIGNMENT);
  if (is_trusted)
    return TCOPT_OK;
  uint8_t digest[DIGEST_BYTES];
  digest_of(image + level->weights_offset, level->weights_bytes, digest);
  if (!equal_bytes(digest, level->digest, DIGEST_BYTES))
    return fail(TCOPT_WRONG_WEIGHTS,
                "the weights of %s are altered: they do not match their digest", name);
  return TCOPT_OK;
}
