// Features of the CPU that this process runs on.

#include "internal.h"

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>

// A leaf for the registers that the operating system saves, which XGETBV reports.
#define LEAF_XCR0 0xffffffffu

// The last leaf that was read: a hypervisor takes tens of microseconds for each.
typedef struct {
  uint32_t leaf, subleaf, parts[4];
} Leaf;

static void read_leaf(Leaf *last, uint32_t leaf, uint32_t subleaf) {
  uint32_t *parts = last->parts;
  if (last->leaf == leaf && last->subleaf == subleaf)
    return;
  *last = (Leaf){.leaf = leaf, .subleaf = subleaf};
  if (leaf == LEAF_XCR0) {
    Leaf first = {0};
    read_leaf(&first, 1, 0);
    // Bit 27 of ECX: XGETBV is available.
    if (first.parts[2] >> 27 & 1)
      __asm__("xgetbv" : "=a"(parts[0]), "=d"(parts[1]) : "c"(0));
  } else if (leaf <= 1 || leaf <= __get_cpuid_max(leaf & 0x80000000u, NULL)) {
    __cpuid_count(leaf, subleaf, parts[0], parts[1], parts[2], parts[3]);
  }
}

static bool has(const tcopt_feature *feature, Leaf *last) {
  read_leaf(last, feature->leaf, feature->subleaf);
  return last->parts[feature->part] >> feature->bit & 1;
}

#elif defined(__aarch64__) && defined(__linux__) && !defined(TCOPT_FREESTANDING)
#include <sys/auxv.h>

typedef int Leaf;

static bool has(const tcopt_feature *feature, Leaf *last) {
  (void)last;
  return getauxval(feature->leaf) >> feature->bit & 1;
}

#else

typedef int Leaf;

// The CPU cannot be asked: the program has to run where it belongs.
static bool has(const tcopt_feature *feature, Leaf *last) {
  (void)feature, (void)last;
  return true;
}
#endif

const char *missing_feature(const tcopt_level *level) {
  Leaf last = {0};
  for (int32_t i = 0; i < level->feature_count; i++)
    if (!has(&level->features[i], &last))
      return level->features[i].name;
  return NULL;
}

bool has_sha256(void) {
#ifdef LEAF_XCR0
  static int32_t known;
  int32_t answer = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (answer == 0) {
    Leaf first = {0}, second = {0};
    read_leaf(&first, 1, 0);
    read_leaf(&second, 7, 0);
    // SSE4.1 and SHA.
    answer = (first.parts[2] >> 19 & 1) && (second.parts[1] >> 29 & 1) ? 1 : -1;
    __atomic_store_n(&known, answer, __ATOMIC_RELAXED);
  }
  return answer > 0;
#else
  return false;
#endif
}
