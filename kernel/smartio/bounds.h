/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Bounds of writes: the time for which a write can be the oldest of its class and list before it goes ahead of reads. Part of
 * policy.c.
 */
#ifndef SMARTIO_BOUNDS_H
#define SMARTIO_BOUNDS_H

static u64 bound_of(const struct sio_policy *policy, u8 list)
{
	return list == SIO_SYNC_WRITES ? policy->settings.sync_bound_ns : policy->settings.slice_ns;
}

/* The instant at which the oldest write of a list reaches its bound, counted from the instant at which it became the oldest. */
static u64 due(const struct sio_policy *policy, u8 class, u8 list)
{
	const struct sio_item *first = oldest(policy, class, list);

	if (!first)
		return SIO_NEVER;
	return later(first->came_ns, policy->write_served_ns[class][list]) + bound_of(policy, list);
}

/* Whether a queued write is older than its bound, even if other writes went in the meantime. */
static bool has_aged_write(const struct sio_policy *policy, u64 now)
{
	u8 class, list;

	for (class = 0; class < SIO_CLASSES; class++)
		for (list = SIO_SYNC_WRITES; policy->writes_queued[class] && list < SIO_LISTS; list++) {
			const struct sio_item *first = oldest(policy, class, list);

			if (first && since(now, first->came_ns) >= bound_of(policy, list))
				return true;
		}
	return false;
}

#endif
