// SPDX-License-Identifier: GPL-2.0-only
/*
 * SmartIO, an I/O scheduler for flash: the elevator around the policy of policy.h.
 *
 * This file has the parts that concern the block layer: merging, requests that bypass the policy, tags, timers, weights of control
 * groups, settings and statistics in sysfs. The policy decides everything else. We wrote it against the kernel's elevator interface
 * (`struct elevator_mq_ops`, Documentation/block/switching-sched.rst, and the comments of block/blk-mq-sched.c), not from another
 * scheduler.
 *
 * One lock per device protects all of `struct smartio`. It is taken with interrupts disabled, because finish_request and
 * completed_request run in hard interrupts.
 */
#include <linux/ioprio.h>
#include <linux/kernel.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "compat.h"
#include "policy.h"
#include "weights.h"

struct smartio {
	spinlock_t lock;
	struct request_queue *queue;
	struct sio_policy policy;
	/* Requests that go before all others: inserted at the head, passed through, or without an item. */
	struct list_head bypassing;
	/* Waiting requests by sector, for merging: reads, writes. */
	struct rb_root sorted[2];
	/* Runs the queue at the instant that the policy named. */
	struct hrtimer timer;
	/* The last dispatch returned nothing although requests wait. */
	bool is_withholding;
	/* After a completion, a request may go that any of the queues may have withheld. */
	bool is_other_due;
	/* Unused data for the next requests, linked by their items. Their number is at most the largest number of requests that
	 * existed at once. An allocation for each request would take longer. */
	struct sio_link *spare;
	/* The latest instant that the policy was given: instants never go backwards. */
	u64 latest_ns;
	unsigned int word_depth, async_word_depth;
	u64 bypassed, merged, without_item;
	/* The queue's maximum size of a request in sectors: the present one, and the one without a limit of the policy. */
	unsigned int sectors, full_sectors;
	unsigned int piece_bytes;
};

/* The policy's data of a request; they exist from its insertion to its completion. */
struct smartio_request {
	struct sio_item item;
	struct request *rq;
};

static struct kmem_cache *smartio_requests;

static struct smartio_request *data_of(const struct request *rq)
{
	return sio_is_prepared(rq) ? rq->elv.priv[0] : NULL;
}

static struct smartio *smartio_of(const struct request_queue *q)
{
	return q->elevator->elevator_data;
}

/* Returns the present instant. The caller holds the lock, so instants are in the order of events. */
static u64 now_of(struct smartio *sio)
{
	return sio->latest_ns = ktime_get_ns();
}

/* Returns the instant at which a request came; the block layer has already read the clock. */
static u64 came_of(struct smartio *sio, const struct request *rq)
{
	return sio->latest_ns = max(sio->latest_ns, rq->start_time_ns);
}

/* ---- the size of requests ---- */

/*
 * While a program reads, the policy limits the size of write-back. The block layer splits a bio at the queue's `max_sectors` when
 * the bio is submitted, piece by piece, and waits for a tag after each piece; write-back has few tags, so a new size has effect
 * soon. An elevator cannot split requests itself. Reads are put together again when they are inserted (`allow_large`).
 *
 * The field is written without freezing the queue, as Linux 6.1 does it for `max_sectors_kb`. A request may have the old or the new
 * size, because both are at most what the driver allows. Request-based device mapper (multipath) checks the size again, so it must
 * not be used on a queue with this scheduler.
 */
static void set_sectors(struct smartio *sio, unsigned int sectors)
{
	WRITE_ONCE(sio->queue->limits.max_sectors, sectors);
	sio->sectors = sectors;
}

/* Adopts a size that somebody else has set, as through `max_sectors_kb`. */
static void adopt_sectors(struct smartio *sio)
{
	unsigned int sectors = READ_ONCE(sio->queue->limits.max_sectors);

	if (sectors != sio->sectors)
		sio->sectors = sio->full_sectors = sectors;
}

static void limit_sectors(struct smartio *sio, u64 now)
{
	u32 piece = sio_piece_bytes(&sio->policy, now);
	unsigned int sectors;

	lockdep_assert_held(&sio->lock);
	if (piece == sio->piece_bytes)
		return;
	adopt_sectors(sio);
	sio->piece_bytes = piece;
	sectors = piece ? min_t(unsigned int, max_t(u32, piece, PAGE_SIZE) >> SECTOR_SHIFT, sio->full_sectors) : sio->full_sectors;
	if (sectors != sio->sectors)
		set_sectors(sio, sectors);
}

/* Allows the full size for the merge of a read; the result is to be given to `end_large`. */
static bool allow_large(struct smartio *sio, bool is_read)
{
	lockdep_assert_held(&sio->lock);
	if (!is_read || !sio->piece_bytes)
		return false;
	adopt_sectors(sio);
	WRITE_ONCE(sio->queue->limits.max_sectors, sio->full_sectors);
	return true;
}

static void end_large(struct smartio *sio, bool is_allowed)
{
	if (is_allowed)
		WRITE_ONCE(sio->queue->limits.max_sectors, sio->sectors);
}

/* ---- one scheduler ---- */

static enum hrtimer_restart smartio_timer(struct hrtimer *timer)
{
	struct smartio *sio = container_of(timer, struct smartio, timer);

	unsigned long flags;
	u64 now, next;

	spin_lock_irqsave(&sio->lock, flags);
	now = now_of(sio);
	next = sio_next(&sio->policy, now);
	/* Under the lock, as every start of the timer: another processor may start it at the same time. */
	if (next > now && next != SIO_NEVER)
		hrtimer_start(timer, ns_to_ktime(next), HRTIMER_MODE_ABS);
	spin_unlock_irqrestore(&sio->lock, flags);
	if (next <= now)
		blk_mq_run_hw_queues(sio->queue, true);
	return HRTIMER_NORESTART;
}

/* The depth that the MMC driver reports for a card or an eMMC without a command queue; with one, it reports at most 32. */
#define MMC_DEPTH_WITHOUT_QUEUE 64

/* Returns the number of requests that the device takes at once. More would wait inside the driver, where no scheduler orders them. */
static u32 device_depth(const struct request_queue *q)
{
	const struct blk_mq_tag_set *set = q->tag_set;
	u32 queues = set->flags & BLK_MQ_F_TAG_HCTX_SHARED ? 1 : q->nr_hw_queues;

	/* The device serves one request, and the driver prepares the next one. */
	if (set->queue_depth == MMC_DEPTH_WITHOUT_QUEUE && q->disk && strstarts(q->disk->disk_name, "mmcblk"))
		return 2;
	/* A SCSI disk (also UFS, SATA and USB) shares the requests of its host, and takes fewer. */
	if (q->queue_depth)
		return q->queue_depth;
	return set->queue_depth * queues;
}

static struct smartio *smartio_new(struct request_queue *q)
{
	struct sio_settings settings;
	struct smartio *sio = kzalloc_node(sizeof(*sio), GFP_KERNEL, q->node);

	if (!sio)
		return NULL;
	spin_lock_init(&sio->lock);
	sio->queue = q;
	INIT_LIST_HEAD(&sio->bypassing);
	sio->sorted[READ] = sio->sorted[WRITE] = RB_ROOT;
	sio_timer_setup(&sio->timer, smartio_timer);
	sio->word_depth = sio->async_word_depth = 1;
	sio->sectors = sio->full_sectors = q->limits.max_sectors;
	sio_settings_default(&settings, device_depth(q));
	sio_init(&sio->policy, &settings, now_of(sio));
	return sio;
}

static bool is_refused(const struct request_queue *q)
{
	/* The writes of a zone must stay in order; this policy reorders them. */
	if (!blk_queue_is_zoned((struct request_queue *)q))
		return false;
	pr_warn("smartio: zoned devices need their writes in order; use mq-deadline\n");
	return true;
}

/*
 * Returns the part of the tags that write-back gets at most. An fsync often waits for all write-back in the queue, because the
 * journal orders data of other files too. On a device that takes few requests, a read that comes while nobody has read also waits
 * behind requests of the full size.
 */
static unsigned int write_back_part(const struct smartio *sio)
{
	u32 depth = sio->policy.settings.in_flight_max;

	return depth && depth < SIO_READERS_MAX ? 16 : 8;
}

#if SIO_LINUX_7_3
static void smartio_depth_updated(struct request_queue *q)
{
	q->async_depth = max(1U, (unsigned int)q->nr_requests * 3 / 4);
	blk_mq_set_min_shallow_depth(q, max(1U, (unsigned int)q->nr_requests / write_back_part(smartio_of(q))));
}

static int smartio_init_sched(struct request_queue *q, struct elevator_queue *eq)
{
	if (is_refused(q))
		return -EOPNOTSUPP;
	eq->elevator_data = smartio_new(q);
	if (!eq->elevator_data)
		return -ENOMEM;
	/* Any hardware queue may dispatch any request. */
	blk_queue_flag_set(QUEUE_FLAG_SQ_SCHED, q);
	q->elevator = eq;
	smartio_depth_updated(q);
	return 0;
}
#else
static void smartio_depth_updated(struct blk_mq_hw_ctx *hctx)
{
	struct smartio *sio = smartio_of(hctx->queue);

	sio->word_depth = sio_word_depth(hctx, 3, 4);
	sio->async_word_depth = sio_word_depth(hctx, 1, write_back_part(sio));
	sbitmap_queue_min_shallow_depth(&hctx->sched_tags->bitmap_tags, sio->async_word_depth);
}

static int smartio_init_hctx(struct blk_mq_hw_ctx *hctx, unsigned int index)
{
	smartio_depth_updated(hctx);
	return 0;
}

static int smartio_init_sched(struct request_queue *q, struct elevator_type *type)
{
	struct elevator_queue *eq;

	if (is_refused(q))
		return -EOPNOTSUPP;
	eq = elevator_alloc(q, type);
	if (!eq)
		return -ENOMEM;
	eq->elevator_data = smartio_new(q);
	if (!eq->elevator_data) {
		kobject_put(&eq->kobj);
		return -ENOMEM;
	}
	/* Any hardware queue may dispatch any request. */
	blk_queue_flag_set(QUEUE_FLAG_SQ_SCHED, q);
	q->elevator = eq;
	return 0;
}
#endif

static void smartio_exit_sched(struct elevator_queue *eq)
{
	struct smartio *sio = eq->elevator_data;
	struct smartio_request *data;

	while (sio->spare) {
		data = container_of(sio->spare, struct smartio_request, item.link);
		sio->spare = data->item.link.next;
		kmem_cache_free(smartio_requests, data);
	}
	hrtimer_cancel(&sio->timer);
	adopt_sectors(sio);
	if (sio->sectors != sio->full_sectors)
		set_sectors(sio, sio->full_sectors);
	WARN_ON_ONCE(sio_has_work(&sio->policy) || !list_empty(&sio->bypassing));
	kfree(sio);
}

/* ---- tags and items ---- */

static void smartio_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	/* A quarter of the tags is reserved for reads, even if many writes wait. */
	if (op_is_sync(opf) && !op_is_write(opf))
		return;
#if SIO_LINUX_7_3
	data->shallow_depth = op_is_sync(opf) ? sio_tag_depth(data->q) :
			      max(1U, (unsigned int)data->q->nr_requests / write_back_part(smartio_of(data->q)));
#else
	data->shallow_depth = op_is_sync(opf) ? smartio_of(data->q)->word_depth : smartio_of(data->q)->async_word_depth;
#endif
}

static void smartio_prepare_request(struct request *rq)
{
	rq->elv.priv[0] = NULL;
	/* Remember the program here, because another one may insert the request. */
	rq->elv.priv[1] = (void *)(unsigned long)current->pid;
}

/* Gives a request its data, if it has none yet. Returns NULL if there is no memory; then the request bypasses the policy. */
static struct smartio_request *give_data(struct smartio *sio, struct request *rq)
{
	struct smartio_request *data = rq->elv.priv[0];

	lockdep_assert_held(&sio->lock);
	if (data)
		return data;
	if (sio->spare) {
		data = container_of(sio->spare, struct smartio_request, item.link);
		sio->spare = data->item.link.next;
	} else {
		data = kmem_cache_alloc(smartio_requests, GFP_ATOMIC | __GFP_NOWARN);
		if (!data)
			return NULL;
	}
	data->rq = rq;
	/* sio_insert and describe set the rest. */
	data->item.state = SIO_NEW;
	data->item.process = (unsigned long)rq->elv.priv[1];
	rq->elv.priv[0] = data;
	return data;
}

static void take_data(struct smartio *sio, struct request *rq, struct smartio_request *data)
{
	lockdep_assert_held(&sio->lock);
	rq->elv.priv[0] = NULL;
	data->item.link.next = sio->spare;
	sio->spare = &data->item.link;
}

/*
 * Continues after a request of `hctx` is no longer in flight. If a withheld request may go now, the block layer runs this queue
 * when it has freed the tag; if it may go later, the timer runs the queue then. Most reads hold writes back until the next read,
 * and then neither is needed: a useless run of the queue would cost a switch to a worker for each read.
 */
static void continue_after(struct smartio *sio, struct blk_mq_hw_ctx *hctx, u64 now)
{
	u64 next;

	lockdep_assert_held(&sio->lock);
	if (!sio->is_withholding)
		return;
	next = sio_next(&sio->policy, now);
	if (next <= now) {
		blk_mq_sched_mark_restart_hctx(hctx);
		/* Another queue may have withheld the request. */
		if (sio->queue->nr_hw_queues > 1)
			WRITE_ONCE(sio->is_other_due, true);
	} else if (next != SIO_NEVER) {
		hrtimer_start(&sio->timer, ns_to_ktime(next), HRTIMER_MODE_ABS);
	}
}

static void smartio_completed_request(struct request *rq, u64 completed_ns)
{
	struct smartio *sio = smartio_of(rq->q);
	struct smartio_request *data = data_of(rq);
	unsigned long flags;
	u64 now;

	if (!data)
		return;
	spin_lock_irqsave(&sio->lock, flags);
	/* The block layer read the clock before we took the lock; another request can have come or gone since then. */
	sio->latest_ns = now = max(sio->latest_ns, completed_ns);
	if (data->item.state == SIO_ISSUED)
		sio_complete(&sio->policy, &data->item, now);
	if (data->item.is_write)
		limit_sectors(sio, now);
	take_data(sio, rq, data);
	continue_after(sio, rq->mq_hctx, now);
	spin_unlock_irqrestore(&sio->lock, flags);
}

/* Handles a request that is no longer in flight, although it has not completed. */
static void withdraw(struct smartio *sio, struct smartio_request *data)
{
	lockdep_assert_held(&sio->lock);
	if (data->item.state == SIO_ISSUED)
		sio_withdraw(&sio->policy, &data->item, now_of(sio));
}

static void smartio_requeue_request(struct request *rq)
{
	struct smartio *sio = smartio_of(rq->q);
	struct smartio_request *data = data_of(rq);
	unsigned long flags;

	if (!data)
		return;
	/* The block layer inserts it again, and runs the queue. */
	spin_lock_irqsave(&sio->lock, flags);
	withdraw(sio, data);
	spin_unlock_irqrestore(&sio->lock, flags);
}

static void smartio_finish_request(struct request *rq)
{
	struct smartio *sio = smartio_of(rq->q);
	struct smartio_request *data = data_of(rq);
	unsigned long flags;

	/* After a completion, the request has no data. */
	if (data) {
		spin_lock_irqsave(&sio->lock, flags);
		withdraw(sio, data);
		take_data(sio, rq, data);
		continue_after(sio, rq->mq_hctx, now_of(sio));
		spin_unlock_irqrestore(&sio->lock, flags);
	}
	if (READ_ONCE(sio->is_other_due)) {
		WRITE_ONCE(sio->is_other_due, false);
		blk_mq_run_hw_queues(sio->queue, true);
	}
}

/* ---- waiting requests ---- */

static void add_for_merging(struct smartio *sio, struct request *rq)
{
	elv_rb_add(&sio->sorted[rq_data_dir(rq)], rq);
	if (rq_mergeable(rq)) {
		elv_rqhash_add(sio->queue, rq);
		if (!sio->queue->last_merge)
			sio->queue->last_merge = rq;
	}
}

static void remove_for_merging(struct smartio *sio, struct request *rq)
{
	elv_rb_del(&sio->sorted[rq_data_dir(rq)], rq);
	elv_rqhash_del(sio->queue, rq);
	if (sio->queue->last_merge == rq)
		sio->queue->last_merge = NULL;
}

static void describe(struct request *rq, struct sio_item *item)
{
	unsigned short ioprio = req_get_ioprio(rq);

	item->sector = blk_rq_pos(rq);
	item->bytes = blk_rq_bytes(rq);
	/* Discards and similar requests change data too, and no reader waits for them. */
	item->is_write = op_is_write(req_op(rq));
	item->is_discard = item->is_write && req_op(rq) != REQ_OP_WRITE;
	item->is_sync = !item->is_write || op_is_sync(rq->cmd_flags);
	switch (IOPRIO_PRIO_CLASS(ioprio)) {
	case IOPRIO_CLASS_RT:
		item->class = SIO_RT;
		item->level = weighted_level(rq, IOPRIO_PRIO_LEVEL(ioprio));
		break;
	case IOPRIO_CLASS_IDLE:
		item->class = SIO_IDLE;
		break;
	case IOPRIO_CLASS_BE:
		item->class = SIO_BE;
		item->level = weighted_level(rq, IOPRIO_PRIO_LEVEL(ioprio));
		break;
	default:
		item->class = SIO_BE;
		item->level = weighted_level(rq, IOPRIO_BE_NORM);
	}
}

static void bypass(struct smartio *sio, struct request *rq, bool at_head)
{
	if (at_head)
		list_add(&rq->queuelist, &sio->bypassing);
	else
		list_add_tail(&rq->queuelist, &sio->bypassing);
	sio->bypassed++;
}

static void insert(struct smartio *sio, struct request *rq, sio_insert_t flags, struct list_head *free)
{
	struct smartio_request *data;
	bool is_large, is_merged;

	lockdep_assert_held(&sio->lock);
	if (sio_at_head(flags) || blk_rq_is_passthrough(rq)) {
		bypass(sio, rq, sio_at_head(flags));
		return;
	}
	is_large = allow_large(sio, req_op(rq) == REQ_OP_READ);
	is_merged = blk_mq_sched_try_insert_merge(sio->queue, rq, free);
	end_large(sio, is_large);
	if (is_merged)
		return;
	data = sio_is_prepared(rq) ? give_data(sio, rq) : NULL;
	if (!data) {
		sio->without_item++;
		bypass(sio, rq, false);
		return;
	}
	describe(rq, &data->item);
	sio_insert(&sio->policy, &data->item, came_of(sio, rq));
	if (data->item.is_write)
		limit_sectors(sio, sio->latest_ns);
	add_for_merging(sio, rq);
}

static void smartio_insert_requests(struct blk_mq_hw_ctx *hctx, struct list_head *list, sio_insert_t flags)
{
	struct smartio *sio = smartio_of(hctx->queue);
	struct request *rq, *next;
	unsigned long irq;
	LIST_HEAD(free);

	spin_lock_irqsave(&sio->lock, irq);
	while (!list_empty(list)) {
		rq = list_first_entry(list, struct request, queuelist);
		list_del_init(&rq->queuelist);
		insert(sio, rq, flags, &free);
	}
	spin_unlock_irqrestore(&sio->lock, irq);
	/* Merged requests; freeing them takes the lock. */
	list_for_each_entry_safe(rq, next, &free, queuelist) {
		list_del_init(&rq->queuelist);
		blk_mq_free_request(rq);
	}
}

static struct request *smartio_dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	struct smartio *sio = smartio_of(hctx->queue);
	struct request *rq = NULL;
	struct sio_item *item;
	unsigned long flags;
	u64 wake_ns;

	spin_lock_irqsave(&sio->lock, flags);
	if (!list_empty(&sio->bypassing)) {
		rq = list_first_entry(&sio->bypassing, struct request, queuelist);
		list_del_init(&rq->queuelist);
		goto unlock;
	}
	item = sio_dispatch(&sio->policy, now_of(sio), &wake_ns);
	sio->is_withholding = !item && sio_has_work(&sio->policy);
	if (item) {
		rq = container_of(item, struct smartio_request, item)->rq;
		remove_for_merging(sio, rq);
	} else if (sio->is_withholding && wake_ns != SIO_NEVER) {
		/* Otherwise, a request goes after a completion (continue_after), which takes the lock after this function releases it. */
		hrtimer_start(&sio->timer, ns_to_ktime(wake_ns), HRTIMER_MODE_ABS);
	}
unlock:
	if (rq)
		rq->rq_flags |= RQF_STARTED;
	spin_unlock_irqrestore(&sio->lock, flags);
	return rq;
}

static bool smartio_has_work(struct blk_mq_hw_ctx *hctx)
{
	const struct smartio *sio = smartio_of(hctx->queue);

	return !list_empty_careful(&sio->bypassing) || READ_ONCE(sio->policy.queued);
}

/* ---- merging ---- */

static bool smartio_bio_merge(struct request_queue *q, struct bio *bio, unsigned int segments)
{
	struct smartio *sio = smartio_of(q);
	struct request *free = NULL;
	unsigned long flags;
	bool is_merged, is_large;

	spin_lock_irqsave(&sio->lock, flags);
	is_large = allow_large(sio, bio_op(bio) == REQ_OP_READ);
	is_merged = blk_mq_sched_try_merge(q, bio, segments, &free);
	end_large(sio, is_large);
	sio->merged += is_merged;
	spin_unlock_irqrestore(&sio->lock, flags);
	if (free)
		blk_mq_free_request(free);
	return is_merged;
}

/* Finds a request that begins where the bio ends. */
static int smartio_request_merge(struct request_queue *q, struct request **found, struct bio *bio)
{
	struct smartio *sio = smartio_of(q);
	struct request *rq = elv_rb_find(&sio->sorted[bio_data_dir(bio)], bio_end_sector(bio));

	if (!rq || !elv_bio_merge_ok(rq, bio))
		return ELEVATOR_NO_MERGE;
	*found = rq;
	return blk_discard_mergable(rq) ? ELEVATOR_DISCARD_MERGE : ELEVATOR_FRONT_MERGE;
}

/* Records that a bio was added to a request. */
static void smartio_request_merged(struct request_queue *q, struct request *rq, enum elv_merge merge)
{
	struct smartio *sio = smartio_of(q);
	struct smartio_request *data = data_of(rq);

	if (merge == ELEVATOR_FRONT_MERGE) {
		elv_rb_del(&sio->sorted[rq_data_dir(rq)], rq);
		elv_rb_add(&sio->sorted[rq_data_dir(rq)], rq);
	}
	if (data)
		sio_resize(&sio->policy, &data->item, blk_rq_pos(rq), blk_rq_bytes(rq));
}

/* Records that `next` was added to `rq` and will be freed. */
static void smartio_requests_merged(struct request_queue *q, struct request *rq, struct request *next)
{
	struct smartio *sio = smartio_of(q);
	struct smartio_request *data = data_of(rq), *gone = data_of(next);

	sio->merged++;
	if (data && data->item.state == SIO_QUEUED)
		sio_resize(&sio->policy, &data->item, blk_rq_pos(rq), blk_rq_bytes(rq));
	if (gone && gone->item.state == SIO_QUEUED) {
		remove_for_merging(sio, next);
		sio_remove(&sio->policy, &gone->item);
	}
}

#include "sysfs.h"

/* ---- the module ---- */

static struct elevator_type smartio_type = {
	.ops = {
		.init_sched = smartio_init_sched,
		.exit_sched = smartio_exit_sched,
#if !SIO_LINUX_7_3
		.init_hctx = smartio_init_hctx,
#endif
		.depth_updated = smartio_depth_updated,
		.bio_merge = smartio_bio_merge,
		.request_merge = smartio_request_merge,
		.request_merged = smartio_request_merged,
		.requests_merged = smartio_requests_merged,
		.limit_depth = smartio_limit_depth,
		.prepare_request = smartio_prepare_request,
		.finish_request = smartio_finish_request,
		.insert_requests = smartio_insert_requests,
		.dispatch_request = smartio_dispatch_request,
		.has_work = smartio_has_work,
		.completed_request = smartio_completed_request,
		.requeue_request = smartio_requeue_request,
		.former_request = elv_rb_former_request,
		.next_request = elv_rb_latter_request,
	},
	.elevator_attrs = smartio_attributes,
	.elevator_name = "smartio",
	.elevator_owner = THIS_MODULE,
};
/* `echo smartio >/sys/block/DEVICE/queue/scheduler` loads the module. */
MODULE_ALIAS("smartio-iosched");

static int __init smartio_init(void)
{
	int error;

	smartio_requests = KMEM_CACHE(smartio_request, 0);
	if (!smartio_requests)
		return -ENOMEM;
	weights_init();
	error = elv_register(&smartio_type);
	if (error) {
		weights_exit();
		kmem_cache_destroy(smartio_requests);
	}
	return error;
}

static void __exit smartio_exit(void)
{
	elv_unregister(&smartio_type);
	weights_exit();
	kmem_cache_destroy(smartio_requests);
}

module_init(smartio_init);
module_exit(smartio_exit);

MODULE_AUTHOR("The fonio authors");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("SmartIO: reads before writes on flash, with bounds (Nguyen et al. 2015)");
