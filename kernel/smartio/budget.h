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
/* A device can still be busy with a write for this time after it has completed the write. */
#define WRITE_ECHO_NS (50 * MS)
/* The maximum number of writes in flight during reads, even if the device takes more. */
#define WINDOW_MAX 64
/* Reads that are in debt by this many times the maximum wait make pieces of write-back smaller. */
#define DEBT_WAITS 2
/* The margin grows by this part of the maximum wait with each such read, and shrinks by this part of itself with each other read, as
 * powers of two. */
#define MARGIN_GROWS 5
#define MARGIN_SHRINKS 5
/* After this many reads that lose nothing beside full windows of write-back, its pieces get twice the size. */
#define READS_TO_GROW 16
#define READS_TO_SHRINK 8

/* A device that takes few requests does not serve reads beside writes. */
static u32 window_max(const struct sio_policy *policy)
{
	u32 depth = policy->settings.in_flight_max;

	return depth && depth < SIO_READERS_MAX ? 1 : depth && depth < WINDOW_MAX ? depth : WINDOW_MAX;
}

static u64 writing(const struct sio_policy *policy, u64 now)
{
	u64 present = policy->writes_in_flight ? since(now, policy->writing_since_ns) : 0;

	return policy->writing_ns + present;
}

/*
 * Returns the time that a read lost to writes: it waited while a write was in flight, or took longer than reads without writes.
 * A read after a write can take longer although no write is in flight: the device has dropped the data that it had read ahead, its
 * bus has to change direction, or it programs the data of writes that it has completed.
 */
static u64 lost(const struct sio_policy *policy, const struct sio_item *item, u64 service, u64 writing_now)
{
	u64 beside = since(writing_now, item->writing_issued_ns);
	u64 alone = policy->read_alone_ns[item->kind][size_of(item->bytes)][item->crowd];
	u64 slower = alone ? since(service, alone) : 0;

	if (slower > beside && !item->is_after_write && since(item->issued_ns, policy->write_done_ns) >= WRITE_ECHO_NS)
		slower = beside;
	return since(item->writing_issued_ns, item->writing_came_ns) + slower;
}

/* The maximum of a budget. Pieces of write-back cost reads the time for which these may wait, and not that of large writes. */
static s64 most_of(const struct sio_policy *policy, const struct sio_budget *budget)
{
	u64 cost = policy->write_service_ns, wait = policy->settings.write_wait_ns;

	if (budget == &policy->budgets[SIO_WRITE_BACK] && policy->settings.pause_max_ns && cost > wait)
		cost = wait;
	return BUDGET_WRITES * (s64)cost;
}

/* Charges a read's loss to a budget, and adds what the read earned. Returns whether the budget is in debt. */
static bool settle(struct sio_policy *policy, struct sio_budget *budget, u64 without_loss, u32 percent, u64 loss, bool is_used,
		   bool is_aged)
{
	s64 most = most_of(policy, budget), least = -(s64)policy->settings.slice_ns;
	u64 earned;

	if (percent <= 100 || (!loss && !is_used && budget->ns == most))
		return false;
	earned = div_u64(without_loss * (percent - 100), 100);
	if (is_aged)
		earned *= AGED_FACTOR;
	budget->ns += (s64)earned - (s64)loss;
	/* On a device that works on several requests at once, writes during reads cost little, and more of them may go. */
	if (budget->ns < 0)
		budget->window = budget->window > 1 ? budget->window / 2 : 1;
	else if (budget->ns >= most && is_used && budget->window < window_max(policy))
		budget->window++;
	if (budget->ns > most)
		budget->ns = most;
	if (budget->ns < least)
		budget->ns = least;
	return budget->ns < 0;
}

/*
 * Adapts the pieces of write-back after a read. A large debt makes them smaller, and end earlier before the next read, because a
 * device may still be busy with them after it has completed them. On a device that serves reads beside
 * writes, full windows of writes without debt make pieces larger, up to the largest size: nothing is to be gained there.
 */
static void adapt_piece(struct sio_policy *policy, bool is_in_debt, bool is_used)
{
	const struct sio_budget *budget = &policy->budgets[SIO_WRITE_BACK];
	u64 wait = policy->settings.write_wait_ns;
	u32 most = window_max(policy);

	if (budget->ns < -DEBT_WAITS * (s64)wait) {
		if (policy->margin_ns < wait)
			policy->margin_ns += wait >> MARGIN_GROWS;
		policy->reads_to_grow = READS_TO_GROW;
		if (!--policy->reads_to_shrink) {
			policy->reads_to_shrink = READS_TO_SHRINK;
			if (policy->piece_shift)
				policy->piece_shift--;
		}
		return;
	}
	policy->margin_ns -= policy->margin_ns >> MARGIN_SHRINKS;
	policy->reads_to_shrink = READS_TO_SHRINK;
	if (is_in_debt && policy->piece_shift > SIO_PIECE_SHIFT)
		policy->piece_shift = SIO_PIECE_SHIFT;
	if (is_in_debt && policy->piece_shift == SIO_PIECE_SHIFT) {
		policy->reads_to_grow = READS_TO_GROW;
		return;
	}
	if (policy->piece_shift >= SIO_PIECE_SHIFT && (most == 1 || budget->window < most || !is_used))
		return;
	if (--policy->reads_to_grow)
		return;
	policy->reads_to_grow = READS_TO_GROW;
	if (policy->piece_shift < SIO_PIECE_SHIFT_MAX)
		policy->piece_shift++;
}

static void settle_read(struct sio_policy *policy, const struct sio_item *item, u64 service, u64 now)
{
	const struct sio_settings *settings = &policy->settings;
	struct sio_budget *sync = &policy->budgets[SIO_SYNC], *back = &policy->budgets[SIO_WRITE_BACK];
	u64 writing_now = writing(policy, now), response = since(now, item->came_ns), loss, without;
	u64 *alone = &policy->read_alone_ns[item->kind][size_of(item->bytes)][item->crowd];
	bool is_sync_used = policy->writes_in_flight >= sync->window || sync->unsettled >= sync->window;
	bool is_back_used = policy->write_back_in_flight >= back->window || back->unsettled >= back->window;
	bool is_aged;

	if (writing_now == item->writing_issued_ns && !item->is_after_write) {
		if (!*alone || service < *alone || since(item->issued_ns, policy->write_done_ns) >= WRITE_ECHO_NS)
			average_undisturbed(alone, service);
		if (item->kind == SIO_SEQ_READ)
			average(&policy->stream_ns[item->is_switch][size_of(item->bytes)], service);
	}
	if (*alone)
		policy->last_alone_ns = *alone;
	loss = lost(policy, item, service, writing_now);
	policy->statistics.reads_lost_ns += loss;
	/* A read that was issued after a write shows the cost of that write, if the time of such a read alone is known. */
	if (*alone && item->issued_ns >= sync->unsettled_ns)
		sync->unsettled = 0;
	if (*alone && item->issued_ns >= back->unsettled_ns)
		back->unsettled = 0;
	without = since(response, loss);
	is_aged = has_aged_write(policy, now);
	/* The loss is charged to the kind of the latest write: on devices for which this matters, few writes are in flight. */
	settle(policy, sync, without, settings->read_percent, policy->is_latest_write_back ? 0 : loss, is_sync_used, is_aged);
	adapt_piece(policy, settle(policy, back, without, settings->write_back_percent, policy->is_latest_write_back ? loss : 0,
				   is_back_used, is_aged), is_back_used);
}

static bool budget_allows(const struct sio_policy *policy, u8 list)
{
	const struct sio_budget *budget;

	if (list == SIO_SYNC_WRITES) {
		budget = &policy->budgets[SIO_SYNC];
		return policy->settings.read_percent > 100 && budget->ns >= 0 && budget->unsettled < budget->window &&
		       policy->writes_in_flight < budget->window;
	}
	budget = &policy->budgets[SIO_WRITE_BACK];
	return policy->settings.write_back_percent > 100 && budget->ns >= 0 && budget->unsettled < budget->window &&
	       policy->write_back_in_flight < budget->window;
}

#endif
