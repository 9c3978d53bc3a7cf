// Types and marks of the C files of this folder.
//
// No header of a system is included: the text that is made of these files serves every system.
// So what systems lay out differently is memory of a size that is enough for all.

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
// A cache line of its own, or two that come together.
#define LINE __attribute__((aligned(128)))

#endif
