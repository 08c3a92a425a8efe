/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The budget: the time that reads lost to writes, and may still lose. Writes go during reads while there is budget left. Part of
 * policy.c.
 */
#ifndef SMARTIO_BUDGET_H
#define SMARTIO_BUDGET_H

/* While a write is aged, reads earn the budget this many times faster: with 120 %, four ninths of the device's time. */
#define AGED_FACTOR 4
/* The maximum of the budget, in service times of writes. */
#define BUDGET_WRITES 2
/* The maximum number of writes in flight during reads, even if the device takes more. */
#define WINDOW_MAX 64

static u64 writing(const struct sio_policy *policy, u64 now)
{
	u64 present = policy->writes_in_flight ? since(now, policy->writing_since_ns) : 0;

	return policy->writing_ns + present;
}

/*
 * Returns the time that a read lost to writes: it waited while a write was in flight, or took longer than reads without writes.
 * The first read after a write can take longer although no write is in flight: the device has dropped the data that it had read
 * ahead, or its bus has to change direction.
 */
static u64 lost(const struct sio_policy *policy, const struct sio_item *item, u64 service, u64 writing_now)
{
	u64 beside = since(writing_now, item->writing_issued_ns);
	u64 alone = policy->read_alone_ns[item->kind][size_of(item->bytes)][item->crowd];
	u64 slower = alone ? since(service, alone) : 0;

	if (!item->is_after_write && slower > beside)
		slower = beside;
	return since(item->writing_issued_ns, item->writing_came_ns) + slower;
}

static void settle_read(struct sio_policy *policy, const struct sio_item *item, u64 service, u64 now)
{
	const struct sio_settings *settings = &policy->settings;
	u64 writing_now = writing(policy, now), response = since(now, item->came_ns), loss, earned;
	s64 most = BUDGET_WRITES * (s64)policy->write_service_ns, least = -(s64)settings->slice_ns;
	u64 *alone = &policy->read_alone_ns[item->kind][size_of(item->bytes)][item->crowd];
	bool is_used = policy->writes_in_flight >= policy->window || policy->unsettled >= policy->window;

	if (writing_now == item->writing_issued_ns && !item->is_after_write) {
		average(alone, service);
		if (item->kind == SIO_SEQ_READ)
			average(&policy->stream_ns[item->is_switch][size_of(item->bytes)], service);
	}
	loss = lost(policy, item, service, writing_now);
	policy->statistics.reads_lost_ns += loss;
	/* A read that was issued after a write shows the cost of that write, if the time of such a read alone is known. */
	if (item->issued_ns >= policy->unsettled_ns && *alone)
		policy->unsettled = 0;
	/* The most frequent case: reads lose nothing, and the budget is full. */
	if (settings->read_percent <= 100 || (!loss && !is_used && policy->budget_ns == most))
		return;
	earned = div_u64(since(response, loss) * (settings->read_percent - 100), 100);
	if (has_aged_write(policy, now))
		earned *= AGED_FACTOR;
	policy->budget_ns += (s64)earned - (s64)loss;
	/* On a device that works on several requests at once, writes during reads cost little, and more of them may go. */
	if (policy->budget_ns < 0)
		policy->window = policy->window > 1 ? policy->window / 2 : 1;
	else if (policy->budget_ns >= most && is_used && policy->window < WINDOW_MAX)
		policy->window++;
	if (policy->budget_ns > most)
		policy->budget_ns = most;
	if (policy->budget_ns < least)
		policy->budget_ns = least;
}

static bool budget_allows(const struct sio_policy *policy)
{
	return policy->settings.read_percent > 100 && policy->budget_ns >= 0 && policy->unsettled < policy->window &&
	       policy->writes_in_flight < policy->window;
}

#endif
