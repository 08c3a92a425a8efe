/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Readers that pause: programs that read again within `pause_max_ns`, such as apps that start. Part of policy.c.
 *
 * A write that the device has begun cannot be stopped. So while somebody reads, write-back goes in pieces (the caller splits it;
 * sio_piece_bytes), and a piece goes only if it probably ends before the next read, or if reads have earned the time that it may
 * cost them (budget.h). When the next read comes is learnt for each program. Because of this, the device is idle for at most
 * `write_wait_ns` at a time, or for the time of a piece if that is longer; while reads have lost much, for up to `write_wait_ns` more.
 */
#ifndef SMARTIO_PAUSES_H
#define SMARTIO_PAUSES_H

/* The sizes of pieces, in multiples of 4 KiB. Smaller ones cost flash more than they save. */
static const u16 PIECES[] = { 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256 };
#define PIECES_COUNT (sizeof(PIECES) / sizeof(*PIECES))
/* The share of their rate, in percent, that writes keep at least when they are split for a reader. */
#define PIECE_PERCENT 60
/* While nobody reads, the first read of a program still has to wait for the piece in service. So requests of slow devices are limited
 * to this many times the wait of other reads, if writes keep this share of their rate. */
#define QUIET_WAITS 4
#define QUIET_PERCENT 95
/* Larger writes must have been observed first: the time of small ones says little about theirs. */
#define QUIET_SIZE_KNOWN 6
/* That limit is computed again after this many writes. */
#define QUIET_WRITES 32
/* A program whose pauses are unknown is expected to read again after this time. */
#define PAUSE_UNKNOWN_NS (MS / 2)

static u8 write_size_of(u32 bytes)
{
	u8 size = 0;

	for (bytes >>= 13; bytes && size < SIO_WRITE_SIZES - 1; bytes >>= 1)
		size++;
	return size;
}

/* Learns the service time of a write that had the device for itself. */
static void learn_write(struct sio_policy *policy, const struct sio_item *item, u64 service)
{
	u8 size = write_size_of(item->bytes);
	u64 full = 4096ULL << size;

	if (item->is_discard) {
		average(&policy->discard_ns, service);
		return;
	}
	if (!item->bytes)
		return;
	/* The time for the size of the class: sizes within a class differ by less than a factor of two. */
	if (item->bytes > full)
		service = div_u64(service * (full >> 9), item->bytes >> 9);
	average(&policy->write_ns[size], service);
	if (++policy->writes_learnt % QUIET_WRITES == 0)
		policy->is_quiet_piece_stale = true;
}

/* Returns the class of the largest writes whose time is known. */
static u8 largest_known(const struct sio_policy *policy)
{
	u8 size = SIO_WRITE_SIZES - 1;

	while (size > 0 && !policy->write_ns[size])
		size--;
	return size;
}

/*
 * Returns the time that the device needs for the data of a write, from its largest writes: it may complete small ones before, when
 * they are in its buffer.
 */
static u64 data_time(const struct sio_policy *policy, u32 bytes)
{
	u8 size = largest_known(policy);

	return div_u64(policy->write_ns[size] * (bytes >> 9), 8U << size);
}

/* Returns the expected service time of a write, or 0 if no write was served yet. */
static u64 write_time(const struct sio_policy *policy, u32 bytes)
{
	u8 size = write_size_of(bytes), near;
	u64 ns = 0;

	for (near = size; near < SIO_WRITE_SIZES && !ns; near++)
		ns = policy->write_ns[near] >> (near - size);
	for (near = size; near > 0 && !ns; near--)
		ns = policy->write_ns[near - 1] << (size - near + 1);
	return later(ns + div_u64(ns * (since(bytes, 4096ULL << size) >> 9), 8U << size), data_time(policy, bytes));
}

/* Whether a program reads, or has read recently and will probably read again. Programs of the idle class do not count. */
static bool is_reading(const struct sio_policy *policy, u64 now)
{
	if (policy->reads_queued[SIO_RT] || policy->reads_in_flight[SIO_RT] || policy->reads_queued[SIO_BE] ||
	    policy->reads_in_flight[SIO_BE])
		return true;
	return policy->last_read_ns && since(now, policy->last_read_ns) < policy->settings.pause_max_ns;
}

/* Records that write-back goes to the device. */
static void use_time(struct sio_policy *policy, const struct sio_item *item, u64 now)
{
	if (!item->is_discard && is_reading(policy, now))
		policy->busy_until_ns = later(policy->busy_until_ns, now) + data_time(policy, item->bytes);
}

/* Learns the pause before a read that came while no other read was waiting or in flight. */
static void learn_pause(struct sio_policy *policy, const struct sio_item *item, u64 now)
{
	struct sio_process *process = process_of(policy, item);
	u64 pause = since(now, process->done_ns), mean = process->pause_ns;

	if (!process->done_ns || pause >= policy->settings.pause_max_ns)
		return;
	average(&process->deviation_ns, pause > mean ? pause - mean : mean - pause);
	average(&process->pause_ns, later(pause, 1));
}

/* Expects the next read of a program whose read has completed, while no other read waits or is in flight. */
static void expect_read(struct sio_policy *policy, const struct sio_item *item, u64 now)
{
	const struct sio_process *process = process_of(policy, item);
	u64 next = now + (process->pause_ns ? process->pause_ns : PAUSE_UNKNOWN_NS);

	/* The next read of another program may come earlier. */
	if (policy->next_process != item->process && policy->next_read_ns > now && policy->next_read_ns < next)
		return;
	policy->is_piece_stale = true;
	policy->next_process = item->process;
	policy->next_read_ns = next;
	policy->next_slack_ns = later(2 * process->deviation_ns, HOLD_MIN_NS);
}

/* The time for which a piece may be in service: until the next read of the present reader, plus what such a read may lose. */
static u64 piece_ns(const struct sio_policy *policy)
{
	u64 target = policy->settings.write_wait_ns;
	const struct sio_process *process = &policy->processes[policy->next_process % SIO_PROCESSES];
	u32 percent = policy->settings.write_back_percent;
	u64 fits = process->pause_ns + (percent > 100 ? div_u64(policy->last_alone_ns * (percent - 100), 100) : 0);

	/* Pieces that fit into a pause of less than the anticipation would be very small; there, few large pieces cost less. */
	if (process->pause_ns * 2 <= policy->settings.hold_max_ns || fits > target)
		return target;
	return fits;
}

/*
 * Returns the largest size of write-back with an expected time of at most `most`. It is not smaller than the smallest size at which
 * writes keep `percent` of their rate.
 */
static u32 choose_piece(const struct sio_policy *policy, u64 most, u32 percent)
{
	u64 full = write_time(policy, SIO_PIECE_MAX) * 100;
	u32 chosen = 0, at;

	for (at = 0; at < PIECES_COUNT; at++) {
		u32 bytes = PIECES[at] << 12;
		u64 ns = write_time(policy, bytes);

		if (chosen ? ns <= most : ns * (SIO_PIECE_MAX / 4096) * percent <= full * PIECES[at])
			chosen = bytes;
	}
	return chosen < SIO_PIECE_MAX ? chosen : 0;
}

u32 sio_piece_bytes(struct sio_policy *policy, u64 now)
{
	const struct sio_settings *settings = &policy->settings;

	if (!settings->pause_max_ns)
		return 0;
	if (is_reading(policy, now)) {
		if (policy->is_piece_stale)
			policy->piece_bytes = choose_piece(
				policy, piece_ns(policy) << policy->piece_shift >> SIO_PIECE_SHIFT, PIECE_PERCENT);
		policy->is_piece_stale = false;
		return policy->piece_bytes;
	}
	if (policy->is_quiet_piece_stale && largest_known(policy) >= QUIET_SIZE_KNOWN)
		policy->quiet_piece_bytes = choose_piece(policy, QUIET_WAITS * settings->write_wait_ns, QUIET_PERCENT);
	policy->is_quiet_piece_stale = false;
	return policy->quiet_piece_bytes;
}

/*
 * Returns the instant until which a piece of write-back waits for the next read: 0 if it does not, SIO_NEVER if it waits for the
 * completion of another one.
 */
static u64 held_for_reader(const struct sio_policy *policy, const struct sio_item *item, u64 now)
{
	const struct sio_settings *settings = &policy->settings;
	const struct sio_budget *budget = &policy->budgets[SIO_WRITE_BACK];
	u64 expected = policy->next_read_ns, may_lose = 0, service, idle, late;

	if (!settings->pause_max_ns || !is_reading(policy, now))
		return 0;
	if (policy->write_back_in_flight >= budget->window)
		return SIO_NEVER;
	/* Writes beside reads cost little on this device. */
	if (budget->window > 1 || policy->piece_shift > SIO_PIECE_SHIFT)
		return 0;
	if (budget->ns > 0)
		may_lose = (u64)budget->ns < settings->write_wait_ns ? (u64)budget->ns : settings->write_wait_ns;
	service = item->is_discard ? policy->discard_ns : write_time(policy, item->bytes);
	if (later(now, policy->busy_until_ns) + service + policy->margin_ns <= expected + may_lose)
		return 0;
	idle = later(policy->last_done_ns, policy->busy_until_ns) + later(settings->write_wait_ns, service) + policy->margin_ns;
	late = expected + policy->next_slack_ns;
	/* If the reader is late, only reads that have lost too much keep the device for longer. */
	if (now >= idle || (now >= late && budget->ns >= 0))
		return 0;
	return budget->ns >= 0 && late < idle ? late : idle;
}

#endif
