/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shares of the levels of a class: while several levels have requests, each has twice the share of the next lower one. Part
 * of policy.c.
 *
 * With slices, a program of a high level that has one read at a time waits for a complete slice of a lower level after each read,
 * because it has no waiting read at the moment when its read completes. So the policy serves queues by start-time fair queueing
 * (Goyal, Vin and Cheng 1996): a request costs virtual time, and more at lower levels; the queue whose request begins first goes
 * next. The device is never idle because of shares.
 */
#ifndef SMARTIO_SHARES_H
#define SMARTIO_SHARES_H

/* A request costs its bytes and this many more, because small requests take longer for each byte. */
#define REQUEST_BYTES 16384

/* Reads share one virtual time, and each list of writes has its own. */
static u8 shared_list(u8 list)
{
	return list == SIO_TURN_READS ? SIO_READS : list;
}

/* Prepares the virtual time of a queue before a request is added to its list. An empty queue does not save up past time. */
static void begin_share(struct sio_policy *policy, const struct sio_item *item)
{
	u8 list = shared_list(item->list);
	u32 waiting = policy->waiting[list] | (list == SIO_READS ? policy->waiting[SIO_TURN_READS] : 0);
	u64 *used = &policy->queues[item->queue].used[list];

	if (!(waiting >> item->queue & 1))
		*used = later(*used, policy->used[item->class][list]);
}

/* Charges a request that goes to its queue. */
static void use_share(struct sio_policy *policy, const struct sio_item *item)
{
	u8 list = shared_list(item->list);
	u64 *used = &policy->queues[item->queue].used[list];

	policy->used[item->class][list] = *used;
	*used += (u64)(item->bytes + REQUEST_BYTES) << (item->queue - first_queue(item->class));
}

/* Returns the queue that goes next, or -1 if there is none or each has its maximum of requests in flight. */
static int least_used(const struct sio_policy *policy, u32 queues, u8 list)
{
	int least = -1, queue;

	/* The most frequent case: there is only one queue. */
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
