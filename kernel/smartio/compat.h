/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The differences between the kernels for which the module is built: Linux 6.1, 6.12 and 7.3, as Debian has them. Nobody has tried
 * the interfaces of the kernels between them; the build refuses these kernels (see kernels.list).
 */
#ifndef SMARTIO_COMPAT_H
#define SMARTIO_COMPAT_H

#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/hrtimer.h>
#include <linux/sbitmap.h>
#include <linux/version.h>

#include "elevator.h"
#include "blk.h"
#include "blk-mq.h"
#include "blk-mq-sched.h"

#define SIO_LINUX_6_1 (LINUX_VERSION_CODE >= KERNEL_VERSION(6, 1, 0) && LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0))
#define SIO_LINUX_6_12 (LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0) && LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0))
#define SIO_LINUX_7_3 (LINUX_VERSION_CODE >= KERNEL_VERSION(7, 3, 0) && LINUX_VERSION_CODE < KERNEL_VERSION(7, 4, 0))

#if !SIO_LINUX_6_1 && !SIO_LINUX_6_12 && !SIO_LINUX_7_3
#error "SmartIO is built and tested for Linux 6.1, 6.12 and 7.3 only, and this kernel is another one. See kernel/smartio/kernels.list."
#endif

/* How requests are inserted; 6.1 has only a flag for "at the head". */
#if SIO_LINUX_6_1
typedef bool sio_insert_t;
#define sio_at_head(flags) (flags)
#else
typedef blk_insert_t sio_insert_t;
#define sio_at_head(flags) ((flags) & BLK_MQ_INSERT_AT_HEAD)
#endif

/* Whether prepare_request was called for a request. Without that, its `elv` is not ours, and in 6.1 it is shared with the
 * state of flushes. */
static inline bool sio_is_prepared(const struct request *rq)
{
#if SIO_LINUX_6_1
	return rq->rq_flags & RQF_ELVPRIV;
#else
	return rq->rq_flags & RQF_USE_SCHED;
#endif
}

#if SIO_LINUX_7_3
#define SIO_ATTRIBUTES static const struct elv_fs_entry
#else
#define SIO_ATTRIBUTES static struct elv_fs_entry
#endif

static inline void sio_timer_setup(struct hrtimer *timer, enum hrtimer_restart (*function)(struct hrtimer *))
{
#if SIO_LINUX_7_3
	hrtimer_setup(timer, function, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
#else
	hrtimer_init(timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	timer->function = function;
#endif
}

/*
 * The number of a queue's tags that requests other than synchronous reads can have. Up to 6.12, the depth counts the tags in one
 * word of the bitmap of tags; in 7.3 it counts all tags, and the queue has it as a setting.
 */
#if SIO_LINUX_7_3
static inline unsigned int sio_tag_depth(struct request_queue *q)
{
	return q->async_depth;
}
#else
static inline unsigned int sio_word_depth(struct blk_mq_hw_ctx *hctx, unsigned int part, unsigned int parts)
{
	return max(1U, (1U << hctx->sched_tags->bitmap_tags.sb.shift) * part / parts);
}
#endif

#endif
