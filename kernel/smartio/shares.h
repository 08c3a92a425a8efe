/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shares of the levels of a class: while several levels have requests, each has twice the share of the next lower one. Part
 * of policy.c.
 *
 * With slices, a program of a high level that has one read at a time waits for a whole slice of a lower level after each read:
 * at the moment at which its read completes, it has none that waits. So queues are served by start-time fair queueing (Goyal,
 * Vin and Cheng 1996): a request costs virtual time, the more the lower its level, and the queue goes whose request begins
 * first. The device is never idle for it.
 */
#ifndef SMARTIO_SHARES_H
#define SMARTIO_SHARES_H

/* A request costs its bytes and so many more, because small ones take longer for each byte. */
#define REQUEST_BYTES 16384

/* Reads share one virtual time, and each list of writes has its own. */
static u8 shared_list(u8 list)
{
	return list == SIO_TURN_READS ? SIO_READS : list;
}

/* Before a request is added to its list. A queue that had none gets nothing for the past. */
static void begin_share(struct sio_policy *policy, const struct sio_item *item)
{
	u8 list = shared_list(item->list);
	u32 waiting = policy->waiting[list] | (list == SIO_READS ? policy->waiting[SIO_TURN_READS] : 0);
	u64 *used = &policy->queues[item->queue].used[list];

	if (!(waiting >> item->queue & 1))
		*used = later(*used, policy->used[item->class][list]);
}

/* A request goes. */
static void use_share(struct sio_policy *policy, const struct sio_item *item)
{
	u8 list = shared_list(item->list);
	u64 *used = &policy->queues[item->queue].used[list];

	policy->used[item->class][list] = *used;
	*used += (u64)(item->bytes + REQUEST_BYTES) << (item->queue - first_queue(item->class));
}

/* The one of these queues that goes next, or -1: also if each has as many requests in flight as it may have. */
static int least_used(const struct sio_policy *policy, u32 queues, u8 list)
{
	int least = -1, queue;

	/* Mostly there is one. */
	if (queues && !(queues & (queues - 1)))
		return may_dispatch(policy, lowest(queues)) ? lowest(queues) : -1;
	for (; queues; queues &= queues - 1) {
		queue = lowest(queues);
		if (may_dispatch(policy, queue) &&
		    (least < 0 || policy->queues[queue].used[list] < policy->queues[least].used[list]))
			least = queue;
	}
	return least;
}

#endif
