// Files, memory and clocks of the operating system.

#ifndef TCOPT_FREESTANDING
#define _GNU_SOURCE // for sched_getaffinity
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

tcopt_status map_file(const char *path, void **data, size_t *bytes) {
  struct stat facts;
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0 || fstat(file, &facts) != 0 || !S_ISREG(facts.st_mode)) {
    if (file >= 0)
      close(file);
    return fail(TCOPT_IO_ERROR, "cannot read %s", path);
  }
  *bytes = (size_t)facts.st_size;
  // An empty file cannot be mapped; `check_weights` rejects it.
  *data = *bytes == 0 ? NULL : mmap(NULL, *bytes, PROT_READ, MAP_PRIVATE, file, 0);
  close(file);
  if (*data == MAP_FAILED) {
    *data = NULL;
    return fail(TCOPT_IO_ERROR, "cannot map %s into memory", path);
  }
  return TCOPT_OK;
}

void unmap_file(void *data, size_t bytes) { munmap(data, bytes); }

static void *allocate(void *context, size_t bytes, size_t alignment) {
  (void)context;
  return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void release(void *context, void *memory, size_t bytes) {
  (void)context, (void)bytes;
  free(memory);
}

tcopt_allocator usual_allocator(void) { return (tcopt_allocator){allocate, release, NULL}; }

#ifdef __linux__
// The CPUs that the quota of the container's cgroup (version 2) is worth; 0 if it has none.
static int32_t quota(void) {
  char text[64] = {0}, *end = text;
  int file = open("/sys/fs/cgroup/cpu.max", O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return 0;
  ssize_t count = read(file, text, sizeof text - 1);
  close(file);
  long long time = count <= 0 ? 0 : strtoll(text, &end, 10), period = strtoll(end, NULL, 10);
  if (time <= 0 || period <= 0)
    return 0;
  long long cpus = (2 * time + period) / (2 * period);
  return cpus < 1 ? 1 : cpus > 1024 ? 1024 : (int32_t)cpus;
}

int32_t usual_threads(void) {
  static int32_t known = -1;
  int32_t threads = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (threads < 0) {
    cpu_set_t cores;
    threads = getenv("TCOPT_NUM_THREADS") != NULL ? 0 : quota();
    if (threads != 0 && sched_getaffinity(0, sizeof cores, &cores) == 0 &&
        threads >= CPU_COUNT(&cores))
      threads = 0;
    __atomic_store_n(&known, threads, __ATOMIC_RELAXED);
  }
  return threads;
}
#else
int32_t usual_threads(void) { return 0; }
#endif

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

#else
#include "internal.h"

tcopt_status map_file(const char *path, void **data, size_t *bytes) {
  (void)data, (void)bytes;
  return fail(TCOPT_IO_ERROR, "cannot map %s: the library is freestanding", path);
}

void unmap_file(void *data, size_t bytes) { (void)data, (void)bytes; }

tcopt_allocator usual_allocator(void) { return (tcopt_allocator){NULL, NULL, NULL}; }

int32_t usual_threads(void) { return 0; }

static uint64_t now(void) { return 0; }
#endif

// A seed that differs between runs and, with a clock, between processes.
uint64_t fresh_seed(void) {
  static uint64_t calls;
  uint64_t z = now() + __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) * 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}
