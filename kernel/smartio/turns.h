/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Turns of readers. Part of policy.c.
 *
 * If several readers with one read at a time each use a device that takes one request, the device serves one read of each in turn.
 * Then all end late, and streams that the device would read ahead are as slow as random reads. So the policy lets only as many
 * readers go on as keep the device busy, until they pause or others have waited for `turn_ns`. A program that reads for longer than
 * that gets further turns only if it gains by them: for sequential reads, on a device that was observed to serve them faster if they
 * are not interrupted.
 */
#ifndef SMARTIO_TURNS_H
#define SMARTIO_TURNS_H

/* A turn that others wait for lasts at least this time: about 50 reads of 4 KiB on a slow device. */
#define TURN_MIN_NS (4 * MS)
/*
 * A reader that pauses for this time loses its turn to another one. The time is much longer than a program's pause between reads:
 * if many programs share a processor, a program that is about to read may have to wait for the processor, and would then wait for
 * the complete turn of another reader before its last few reads. The wait costs little, because reads of others go in the meantime.
 */
#define TURN_PAUSE_NS (MS / 2)

/* The number of readers with a turn at the same time: one more than the device takes, so it serves one while another pauses. */
static u32 readers_max(const struct sio_policy *policy)
{
	u32 depth = policy->settings.in_flight_max;

	return policy->settings.turn_wait_ns && depth && depth < SIO_READERS_MAX ? depth + 1 : 0;
}

/*
 * The length of a turn while others wait, for a reader with reads of this kind. In a fixed time, a program reads little on a slow
 * device, and no program would gain by turns that end before any of the programs does; so on slow devices, a number of reads
 * counts. It is a number of small reads, because large reads take long on every device.
 */
static u64 turn_ns(const struct sio_policy *policy, u8 kind)
{
	u64 wait = policy->settings.turn_wait_ns, reads = policy->settings.turn_reads * policy->read_alone_ns[kind][0][0];

	if (reads > SIO_TURN_WAITS * wait)
		return SIO_TURN_WAITS * wait;
	return later(wait, reads);
}

static struct sio_process *process_of(struct sio_policy *policy, const struct sio_item *item)
{
	return &policy->processes[item->process % SIO_PROCESSES];
}

/* Makes a read part of its reader's turn, if there is one. */
static void join_turn(struct sio_policy *policy, struct sio_item *item)
{
	u32 most = readers_max(policy), at;

	for (at = 0; at < most; at++) {
		struct sio_reader *reader = &policy->readers[at];

		if (!reader->is_used || reader->process != item->process)
			continue;
		item->reader = at + 1;
		reader->reads++;
		reader->came_ns = item->came_ns;
		return;
	}
}

/* Takes a read that is no longer queued or in flight out of its reader's turn. */
static void leave_turn(struct sio_policy *policy, struct sio_item *item)
{
	struct sio_reader *reader;

	if (!item->reader)
		return;
	reader = &policy->readers[item->reader - 1];
	item->reader = 0;
	/* In the meantime, another reader may have got this turn. */
	if (reader->process == item->process && reader->reads)
		reader->reads--;
}

/* Returns the list for a new read. */
static u8 read_list(struct sio_policy *policy, struct sio_item *item, u64 now)
{
	struct sio_process *process = process_of(policy, item);
	u64 pause = since(now, process->done_ns), alone, readers;

	if (!readers_max(policy))
		return SIO_READS;
	join_turn(policy, item);
	if (pause >= turn_ns(policy, item->kind)) {
		/* After this pause, the process counts as a new reader. */
		process->has_had_turn = false;
		if (item->reader)
			policy->readers[item->reader - 1].since_ns = now;
	}
	/* The reads of a process stay in order. */
	if (process->waiting)
		return SIO_READS;
	if (item->reader || !process->done_ns)
		return SIO_TURN_READS;
	/* A reader that uses less than an equal share of the device does not wait for a turn. */
	readers = policy->reads_queued[item->class] + policy->reads_in_flight[item->class] + 1;
	alone = policy->read_alone_ns[item->kind][size_of(item->bytes)][0];
	return alone && pause >= readers * alone ? SIO_TURN_READS : SIO_READS;
}

/* Whether a reader does not use its turn. */
static bool is_paused(const struct sio_policy *policy, const struct sio_reader *reader, u64 now)
{
	return !reader->reads && since(now, policy->processes[reader->process % SIO_PROCESSES].done_ns) >= TURN_PAUSE_NS;
}

/* Returns the turn that has lasted longest, if it has lasted at least TURN_MIN_NS, or NULL. */
static struct sio_reader *longest_turn(struct sio_policy *policy, u64 now)
{
	struct sio_reader *longest = NULL, *reader = policy->readers;

	for (; reader < policy->readers + readers_max(policy); reader++)
		if (reader->is_used && (!longest || reader->since_ns < longest->since_ns))
			longest = reader;
	return longest && since(now, longest->since_ns) >= TURN_MIN_NS ? longest : NULL;
}

/* Returns a turn that no reader has, or that of the reader that has paused longest, or NULL. */
static struct sio_reader *free_turn(struct sio_policy *policy, u64 now)
{
	struct sio_reader *paused = NULL, *reader = policy->readers;

	for (; reader < policy->readers + readers_max(policy); reader++) {
		if (!reader->is_used)
			return reader;
		if (is_paused(policy, reader, now) && (!paused || reader->came_ns < paused->came_ns))
			paused = reader;
	}
	return paused;
}

/* Ends a turn for another reader. */
static void end_turn(struct sio_policy *policy, struct sio_reader *turn, u64 now)
{
	if (!turn)
		return;
	if (!is_paused(policy, turn, now))
		policy->processes[turn->process % SIO_PROCESSES].has_had_turn = true;
	turn->is_used = false;
}

/* Whether a reader gains by a turn. */
static bool gains_by_turn(struct sio_policy *policy, const struct sio_item *item)
{
	const u64(*stream)[SIO_SIZES] = policy->stream_ns;
	u8 size = size_of(item->bytes);

	if (!process_of(policy, item)->has_had_turn)
		return true;
	return item->kind == SIO_SEQ_READ && stream[0][size] && stream[1][size] >= stream[0][size] + stream[0][size] / 4;
}

/* Begins a turn, if possible, for the reader of a read that belongs to no turn and goes now. */
static void begin_turn(struct sio_policy *policy, struct sio_item *item, u64 now)
{
	struct sio_reader *turn;

	if (!readers_max(policy) || !gains_by_turn(policy, item))
		return;
	turn = free_turn(policy, now);
	/* A new reader does not wait for the end of a turn. */
	if (!turn && item->list == SIO_TURN_READS) {
		end_turn(policy, longest_turn(policy, now), now);
		turn = free_turn(policy, now);
	}
	if (!turn)
		return;
	*turn = (struct sio_reader){ .is_used = true, .process = item->process, .since_ns = now };
	join_turn(policy, item);
	policy->statistics.turns++;
}

/* Whether `other` goes before `first`, whose turn it is, because this turn has lasted too long or `other` has waited too long. */
static bool is_turn_over(struct sio_policy *policy, const struct sio_item *first, const struct sio_item *other, u64 now)
{
	u64 waited = since(now, other->came_ns), most = turn_ns(policy, first->kind);
	const struct sio_reader *longest = longest_turn(policy, now);

	if (other->order > first->order)
		return false;
	/* With many readers, turns of TURN_MIN_NS can exceed the bound; then the oldest read goes first. */
	if (waited >= 2 * most)
		return true;
	return longest && (waited >= most || since(now, longest->since_ns) >= most);
}

#endif
