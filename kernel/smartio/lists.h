/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Waiting requests: the lists of each queue, and the oldest request. Part of policy.c.
 */
#ifndef SMARTIO_LISTS_H
#define SMARTIO_LISTS_H

static void list_init(struct sio_link *head)
{
	head->prev = head->next = head;
}

static bool is_empty(const struct sio_link *head)
{
	return head->next == head;
}

static void list_append(struct sio_link *head, struct sio_link *link)
{
	link->prev = head->prev;
	link->next = head;
	head->prev->next = link;
	head->prev = link;
}

static void list_take(struct sio_link *link)
{
	link->prev->next = link->next;
	link->next->prev = link->prev;
	list_init(link);
}

static struct sio_item *list_front(const struct sio_link *head)
{
	if (is_empty(head))
		return NULL;
	return (struct sio_item *)((char *)head->next - offsetof(struct sio_item, link));
}

static bool is_random(u8 kind)
{
	return kind == SIO_RAND_READ || kind == SIO_RAND_WRITE;
}

/* Whether the maximum number of requests of the kind is in flight. */
static bool is_at_limit(const struct sio_policy *policy, u8 kind)
{
	u32 limit = policy->settings.limits[kind];

	return limit && policy->kind_in_flight[kind] >= limit;
}

/* Algorithm 6.2: a queue with `quantum` requests in flight may issue more only if no other queue has requests. */
static bool may_dispatch(const struct sio_policy *policy, int queue)
{
	const struct sio_queue *chosen = &policy->queues[queue];

	return chosen->in_flight < policy->settings.quantum || chosen->queued == policy->queued;
}

/* Returns the first request of a list; with `free`, the first whose kind is not at its limit. */
static struct sio_item *front(const struct sio_policy *policy, u8 queue, u8 list, bool free)
{
	struct sio_item *first = NULL, *item;
	u8 random;

	for (random = 0; random < 2; random++) {
		item = list_front(&policy->queues[queue].lists[list][random]);
		if (item && !(free && is_at_limit(policy, item->kind)) && (!first || item->order < first->order))
			first = item;
	}
	return first;
}

static u8 queue_of(u8 class, u8 level)
{
	if (class == SIO_IDLE)
		return SIO_QUEUES - 1;
	return class * SIO_LEVELS + (level < SIO_LEVELS ? level : SIO_LEVELS - 1);
}

static u8 first_queue(u8 class)
{
	return class * SIO_LEVELS;
}

/* The queues of a class in which a list is not empty. */
static u32 waiting_in(const struct sio_policy *policy, u8 class, u8 list)
{
	u32 levels = class == SIO_IDLE ? 1 : (1 << SIO_LEVELS) - 1;

	return policy->waiting[list] & levels << first_queue(class);
}

/* Returns the first of these queues; there must be one. */
static int lowest(u32 queues)
{
	return __builtin_ctz(queues);
}

/* The oldest request of a list in a class. */
static struct sio_item *oldest(const struct sio_policy *policy, u8 class, u8 list)
{
	struct sio_item *found = NULL, *item;
	u32 queues;

	for (queues = waiting_in(policy, class, list); queues; queues &= queues - 1) {
		item = front(policy, lowest(queues), list, false);
		if (!found || item->order < found->order)
			found = item;
	}
	return found;
}

#endif
