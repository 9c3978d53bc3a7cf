// Types and attributes of the C files of this folder.
//
// No system header is included, because the generated code serves every system. System-specific
// structs are represented by memory that is large enough for all systems.

#ifndef TCOPT_TYPES_H
#define TCOPT_TYPES_H

typedef _Bool bool;
typedef signed int int32;
typedef unsigned int uint32;
typedef signed long long int64;
typedef unsigned long long uint64;

#define NULL ((void *)0)
#define HIDDEN __attribute__((visibility("hidden")))
#define WEAK __attribute__((weak))
// Alignment to a cache line, or to a pair that is prefetched together.
#define LINE __attribute__((aligned(128)))

#endif
