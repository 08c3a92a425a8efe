/* SPDX-License-Identifier: GPL-2.0-only */
/* The definitions that the policy needs from the kernel, for user space too. */
#ifndef SMARTIO_SHIM_H
#define SMARTIO_SHIM_H

#ifdef __KERNEL__
#include <linux/math64.h>
#include <linux/string.h>
#include <linux/types.h>
#else
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint64_t u64;
typedef int64_t s64;
typedef uint32_t u32;
typedef uint16_t u16;
typedef uint8_t u8;

/* On 32-bit kernels, this is the only division of 64-bit numbers. */
static inline u64 div_u64(u64 dividend, u32 divisor)
{
	return dividend / divisor;
}
#endif

#endif
