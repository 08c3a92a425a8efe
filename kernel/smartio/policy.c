// SPDX-License-Identifier: GPL-2.0-only
/* The policy; see policy.h. */
#include "policy.h"

#define MS 1000000ULL
/* Async writes that go at most after so many sync ones, so that neither list starves the other. */
#define SYNC_WRITES_IN_A_ROW 4
/* Averages move by 1/8 of the difference with each sample. */
#define AVERAGE_SHIFT 3
/* Writes are held back for so many average gaps between two reads: 98 % of exponentially distributed ones are shorter. */
#define HOLD_GAPS 4
/* The least anticipation: what a program and the block layer need from a completion to the next read. */
#define HOLD_MIN_NS 50000ULL
/* An aged write makes reads earn the budget so many times faster: with 120 %, four ninths of the device's time. */
#define AGED_FACTOR 4
/* The budget can grow to so many writes. */
#define BUDGET_WRITES 2
/* The most writes in flight beside reads, however many the device takes. */
#define WINDOW_MAX 64

/* A turn that others wait for lasts at least so long: about 50 reads of 4 KiB on a slow device. */
#define TURN_MIN_NS (4 * MS)

/* ---- lists ---- */

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

/* ---- small things ---- */

static u64 later(u64 a, u64 b)
{
	return a > b ? a : b;
}

static u64 since(u64 now, u64 then)
{
	return now > then ? now - then : 0;
}

static void average(u64 *mean, u64 sample)
{
	if (*mean == 0)
		*mean = sample;
	else
		*mean = *mean - (*mean >> AVERAGE_SHIFT) + (sample >> AVERAGE_SHIFT);
}

static bool is_random(u8 kind)
{
	return kind == SIO_RAND_READ || kind == SIO_RAND_WRITE;
}

/* Whether as many requests of the kind are in flight as may be. */
static bool is_at_limit(const struct sio_policy *policy, u8 kind)
{
	u32 limit = policy->settings.limits[kind];

	return limit && policy->kind_in_flight[kind] >= limit;
}

/* The first request of a list; with `free`, of those whose kind is not at its limit. */
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

/* The first of these queues; there is one. */
static int lowest(u32 queues)
{
	return __builtin_ctz(queues);
}

static u8 size_of(u32 bytes)
{
	u8 size = 0;

	for (bytes >>= 12; bytes > 1 && size < SIO_SIZES - 1; bytes >>= 2)
		size++;
	return size;
}

static u64 writing(const struct sio_policy *policy, u64 now)
{
	u64 present = policy->writes_in_flight ? since(now, policy->writing_since_ns) : 0;

	return policy->writing_ns + present;
}

static u64 bound_of(const struct sio_policy *policy, u8 list)
{
	return list == SIO_SYNC_WRITES ? policy->settings.sync_bound_ns : policy->settings.slice_ns;
}

/* ---- settings ---- */

void sio_settings_study(struct sio_settings *settings)
{
	/* The Samsung S5's limits (section 4.5), CFQ's slice and quantum (sections 5 and 6). */
	*settings = (struct sio_settings){
		.slice_ns = 100 * MS,
		.sync_bound_ns = 100 * MS,
		.class_bound_ns = 1000 * MS,
		.quantum = 8,
		.limits = { 2, 4, 4, 2 },
	};
}

void sio_settings_default(struct sio_settings *settings, u32 depth)
{
	sio_settings_study(settings);
	memset(settings->limits, 0, sizeof(settings->limits));
	settings->sync_bound_ns = 25 * MS;
	settings->hold_max_ns = 1 * MS;
	settings->turn_wait_ns = 25 * MS;
	settings->read_percent = 120;
	settings->in_flight_max = depth;
}

void sio_init(struct sio_policy *policy, const struct sio_settings *settings, u64 now)
{
	int queue, list, class, stream, random;

	memset(policy, 0, sizeof(*policy));
	policy->settings = *settings;
	for (queue = 0; queue < SIO_QUEUES; queue++)
		for (list = 0; list < SIO_LISTS; list++)
			for (random = 0; random < 2; random++)
				list_init(&policy->queues[queue].lists[list][random]);
	for (class = 0; class < SIO_CLASSES; class++) {
		policy->class_served_ns[class] = now;
		for (list = 0; list < SIO_LISTS; list++)
			policy->write_served_ns[class][list] = now;
	}
	/* No request begins there. */
	for (stream = 0; stream < SIO_STREAMS; stream++)
		policy->streams[0].ends[stream] = policy->streams[1].ends[stream] = SIO_NEVER;
	policy->current_queue = -1;
	policy->window = 1;
}

/* ---- turns of readers ---- */

/*
 * With one read at a time each, several readers on a device that takes one request are served by turns, one read each. Then
 * all end late, and streams that the device would read ahead are as slow as random reads. So as few readers as keep the
 * device busy go on, until they pause or others have waited for `turn_wait_ns`. Who reads on for longer than that has further
 * turns only if it gains by them: for sequential reads, on a device that was seen to serve them faster if they go on.
 */

/* How many readers have their turn at a time: one more than the device takes, so that it serves one while another thinks. */
static u32 readers_max(const struct sio_policy *policy)
{
	u32 depth = policy->settings.in_flight_max;

	return policy->settings.turn_wait_ns && depth && depth < SIO_READERS_MAX ? depth + 1 : 0;
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

/* The read is no longer queued or in flight. */
static void leave_turn(struct sio_policy *policy, struct sio_item *item)
{
	struct sio_reader *reader;

	if (!item->reader)
		return;
	reader = &policy->readers[item->reader - 1];
	item->reader = 0;
	/* In the meantime, it can be the turn of another one. */
	if (reader->process == item->process && reader->reads)
		reader->reads--;
}

/* The list for a read that comes. */
static u8 read_list(struct sio_policy *policy, struct sio_item *item, u64 now)
{
	struct sio_process *process = process_of(policy, item);
	u64 pause = since(now, process->done_ns), alone, readers;

	if (!readers_max(policy))
		return SIO_READS;
	join_turn(policy, item);
	if (pause >= policy->settings.turn_wait_ns) {
		/* It begins anew. */
		process->has_had_turn = false;
		if (item->reader)
			policy->readers[item->reader - 1].since_ns = now;
	}
	/* The reads of a process stay in order. */
	if (process->waiting)
		return SIO_READS;
	if (item->reader || !process->done_ns)
		return SIO_TURN_READS;
	/* A reader that uses less than an equal share of the device waits for no turn. */
	readers = policy->reads_queued[item->class] + policy->reads_in_flight[item->class] + 1;
	alone = policy->read_alone_ns[item->kind][size_of(item->bytes)];
	return alone && pause >= readers * alone ? SIO_TURN_READS : SIO_READS;
}

/* Whether a reader does not use its turn: it has thought for longer than programs that read on do. */
static bool is_paused(const struct sio_policy *policy, const struct sio_reader *reader, u64 now)
{
	return !reader->reads && since(now, policy->processes[reader->process % SIO_PROCESSES].done_ns) >= HOLD_MIN_NS;
}

/* The turn that lasted for longest, and at least TURN_MIN_NS, or NULL. */
static struct sio_reader *longest_turn(struct sio_policy *policy, u64 now)
{
	struct sio_reader *longest = NULL, *reader = policy->readers;

	for (; reader < policy->readers + readers_max(policy); reader++)
		if (reader->is_used && (!longest || reader->since_ns < longest->since_ns))
			longest = reader;
	return longest && since(now, longest->since_ns) >= TURN_MIN_NS ? longest : NULL;
}

/* A turn that no reader has, or that of the reader which paused for longest, or NULL. */
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

/* A read that is part of no turn goes. */
static void begin_turn(struct sio_policy *policy, struct sio_item *item, u64 now)
{
	struct sio_reader *turn;

	if (!gains_by_turn(policy, item))
		return;
	turn = free_turn(policy, now);
	/* A reader that is new does not wait for the end of a turn. */
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

/* Whether `other` goes before `first`, whose turn it is, because its turn lasted for long or `other` waited for long. */
static bool is_turn_over(struct sio_policy *policy, const struct sio_item *first, const struct sio_item *other, u64 now)
{
	u64 waited = since(now, other->came_ns), most = policy->settings.turn_wait_ns;
	const struct sio_reader *longest = longest_turn(policy, now);

	if (other->order > first->order)
		return false;
	/* With many readers, turns of TURN_MIN_NS are too long for the bound; then the oldest read goes first. */
	if (waited >= 2 * most)
		return true;
	return longest && (waited >= most || since(now, longest->since_ns) >= most);
}

/* ---- requests come and go ---- */

static u8 kind_of(struct sio_policy *policy, const struct sio_item *item)
{
	struct sio_streams *streams = &policy->streams[item->is_write];
	u64 end = item->sector + (item->bytes >> 9);
	bool is_sequential;
	int stream;

	for (stream = 0; stream < SIO_STREAMS - 1; stream++)
		if (streams->ends[stream] == item->sector)
			break;
	is_sequential = streams->ends[stream] == item->sector;
	/* The latest one first; a new one drives out the one that was idle for longest. */
	for (; stream > 0; stream--)
		streams->ends[stream] = streams->ends[stream - 1];
	streams->ends[0] = end;
	if (is_sequential)
		return item->is_write ? SIO_SEQ_WRITE : SIO_SEQ_READ;
	return item->is_write ? SIO_RAND_WRITE : SIO_RAND_READ;
}

static void count_queued(struct sio_policy *policy, const struct sio_item *item, u32 one)
{
	policy->queued += one;
	policy->queues[item->queue].queued += one;
	if (item->is_write)
		policy->writes_queued[item->class] += one;
	else
		policy->reads_queued[item->class] += one;
}

void sio_insert(struct sio_policy *policy, struct sio_item *item, u64 now)
{
	const struct sio_settings *settings = &policy->settings;
	u8 class = item->class;

	item->came_ns = now;
	item->order = policy->inserted++;
	item->writing_came_ns = writing(policy, now);
	item->queue = queue_of(class, item->level);
	item->kind = kind_of(policy, item);
	item->reader = 0;
	if (!item->is_write)
		item->list = read_list(policy, item, now);
	else
		/* With the same bound for both, as in the study, they are one list in the order of insertion. */
		item->list = item->is_sync && settings->sync_bound_ns < settings->slice_ns ? SIO_SYNC_WRITES : SIO_ASYNC_WRITES;
	item->state = SIO_QUEUED;
	list_append(&policy->queues[item->queue].lists[item->list][is_random(item->kind)], &item->link);
	policy->waiting[item->list] |= 1U << item->queue;
	if (item->list == SIO_READS)
		process_of(policy, item)->waiting++;
	if (!item->is_write && policy->read_done_ns[class] && policy->reads_queued[class] == 0 &&
	    policy->reads_in_flight[class] == 0) {
		/* A long pause says only that it was longer than any anticipation; one of them must not end it. */
		u64 gap = since(now, policy->read_done_ns[class]), most = policy->settings.hold_max_ns;

		average(&policy->gap_ns[class], gap < most ? gap : most);
		policy->read_done_ns[class] = 0;
	}
	/* The program has gone on with a write. */
	if (item->is_write && policy->hold_process[class] == item->process)
		policy->hold_until_ns[class] = 0;
	count_queued(policy, item, 1);
}

/* Takes a request out of its list. */
static void take_out(struct sio_policy *policy, struct sio_item *item)
{
	const struct sio_link *lists = policy->queues[item->queue].lists[item->list];

	list_take(&item->link);
	count_queued(policy, item, -1);
	if (item->list == SIO_READS)
		process_of(policy, item)->waiting--;
	if (is_empty(&lists[0]) && is_empty(&lists[1]))
		policy->waiting[item->list] &= ~(1U << item->queue);
}

void sio_remove(struct sio_policy *policy, struct sio_item *item)
{
	take_out(policy, item);
	leave_turn(policy, item);
	item->state = SIO_NEW;
}

void sio_resize(struct sio_policy *policy, struct sio_item *item, u64 sector, u32 bytes)
{
	struct sio_streams *streams = &policy->streams[item->is_write];
	u64 end = item->sector + (item->bytes >> 9);
	int stream;

	for (stream = 0; stream < SIO_STREAMS; stream++)
		if (streams->ends[stream] == end)
			streams->ends[stream] = sector + (bytes >> 9);
	item->sector = sector;
	item->bytes = bytes;
}

static void issue(struct sio_policy *policy, struct sio_item *item, u64 now)
{
	u8 class = item->class, kind = item->kind;
	u64 waited = since(now, item->came_ns);

	take_out(policy, item);
	item->state = SIO_ISSUED;
	item->issued_ns = now;
	item->writing_issued_ns = writing(policy, now);
	policy->in_flight++;
	policy->queues[item->queue].in_flight++;
	policy->class_in_flight[class]++;
	policy->kind_in_flight[kind]++;
	policy->class_served_ns[class] = now;
	if (item->is_write) {
		u64 *served = &policy->write_served_ns[class][item->list];
		u64 late = since(now, later(item->came_ns, *served) + bound_of(policy, item->list));

		if (policy->writes_in_flight++ == 0)
			policy->writing_since_ns = now;
		if (class != SIO_IDLE)
			policy->statistics.write_late_ns_max = later(policy->statistics.write_late_ns_max, late);
		policy->has_written = true;
		*served = now;
		policy->sync_writes_in_a_row = item->list == SIO_SYNC_WRITES ? policy->sync_writes_in_a_row + 1 : 0;
	} else {
		item->is_after_write = policy->has_written;
		policy->has_written = false;
		item->is_switch = policy->reads_issued - process_of(policy, item)->issued > readers_max(policy);
		process_of(policy, item)->issued = ++policy->reads_issued;
		policy->reads_in_flight[class]++;
		policy->hold_until_ns[class] = 0;
	}
	policy->statistics.dispatched[kind]++;
	policy->statistics.class_dispatched[class]++;
	policy->statistics.wait_ns[kind] += waited;
	if (waited > policy->statistics.wait_ns_max[kind])
		policy->statistics.wait_ns_max[kind] = waited;
}

/* No longer in flight. */
static void leave(struct sio_policy *policy, struct sio_item *item, u64 now)
{
	item->state = SIO_NEW;
	policy->in_flight--;
	policy->queues[item->queue].in_flight--;
	policy->class_in_flight[item->class]--;
	policy->kind_in_flight[item->kind]--;
	leave_turn(policy, item);
	if (!item->is_write)
		policy->reads_in_flight[item->class]--;
	else if (--policy->writes_in_flight == 0)
		policy->writing_ns += since(now, policy->writing_since_ns);
}

/* ---- which write ---- */

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

/* When the oldest write of a list reaches its bound: that long after it became the oldest. */
static u64 due(const struct sio_policy *policy, u8 class, u8 list)
{
	const struct sio_item *first = oldest(policy, class, list);

	if (!first)
		return SIO_NEVER;
	return later(first->came_ns, policy->write_served_ns[class][list]) + bound_of(policy, list);
}

/* Whether a queued write is older than its bound, whatever went in the meantime. */
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

static u8 write_list(const struct sio_policy *policy, u8 class)
{
	if (!waiting_in(policy, class, SIO_SYNC_WRITES))
		return SIO_ASYNC_WRITES;
	if (policy->sync_writes_in_a_row < SYNC_WRITES_IN_A_ROW || !waiting_in(policy, class, SIO_ASYNC_WRITES))
		return SIO_SYNC_WRITES;
	return SIO_ASYNC_WRITES;
}

/* ---- completions ---- */

/*
 * What a read lost to writes: it waited while one was in flight, or took longer than reads do without. The first read after a
 * write can take longer although no write is in flight: what the device had read ahead is gone, or its bus has to turn round.
 */
static u64 lost(const struct sio_policy *policy, const struct sio_item *item, u64 service, u64 writing_now)
{
	u64 beside = since(writing_now, item->writing_issued_ns);
	u64 alone = policy->read_alone_ns[item->kind][size_of(item->bytes)];
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

	if (writing_now == item->writing_issued_ns && !item->is_after_write) {
		average(&policy->read_alone_ns[item->kind][size_of(item->bytes)], service);
		if (item->kind == SIO_SEQ_READ)
			average(&policy->stream_ns[item->is_switch][size_of(item->bytes)], service);
	}
	loss = lost(policy, item, service, writing_now);
	policy->statistics.reads_lost_ns += loss;
	/* A read that was issued after the write knows its cost, if it is known how long such a read takes alone. */
	if (item->issued_ns >= policy->unsettled_ns && policy->read_alone_ns[item->kind][size_of(item->bytes)])
		policy->is_unsettled = false;
	if (settings->read_percent <= 100)
		return;
	earned = div_u64(since(response, loss) * (settings->read_percent - 100), 100);
	if (has_aged_write(policy, now))
		earned *= AGED_FACTOR;
	policy->budget_ns += (s64)earned - (s64)loss;
	/* A device that does several things at once: writes beside reads cost little, and more of them may go. */
	if (policy->budget_ns < 0)
		policy->window = policy->window > 1 ? policy->window / 2 : 1;
	else if (policy->budget_ns >= most && policy->writes_in_flight >= policy->window && policy->window < WINDOW_MAX)
		policy->window++;
	if (policy->budget_ns > most)
		policy->budget_ns = most;
	if (policy->budget_ns < least)
		policy->budget_ns = least;
}

void sio_complete(struct sio_policy *policy, struct sio_item *item, u64 now)
{
	u64 service = since(now, item->issued_ns), hold;
	const struct sio_item *next;
	u8 class = item->class;

	leave(policy, item, now);
	policy->statistics.completed[item->kind]++;
	policy->statistics.service_ns[item->kind] += service;
	if (item->is_write) {
		average(&policy->write_service_ns, service);
		return;
	}
	process_of(policy, item)->done_ns = now;
	settle_read(policy, item, service, now);
	if (policy->reads_in_flight[class] || policy->reads_queued[class])
		return;
	policy->read_done_ns[class] = now;
	policy->hold_process[class] = item->process;
	next = oldest(policy, class, write_list(policy, class));
	if (next && next->process == item->process) {
		policy->hold_until_ns[class] = 0;
		return;
	}
	/* Readers that think for longer than the longest anticipation are not waited for. */
	hold = HOLD_GAPS * policy->gap_ns[class];
	if (hold < HOLD_MIN_NS)
		hold = HOLD_MIN_NS;
	if (policy->gap_ns[class] * 2 > policy->settings.hold_max_ns)
		hold = 0;
	if (hold > policy->settings.hold_max_ns)
		hold = policy->settings.hold_max_ns;
	policy->hold_until_ns[class] = now + hold;
}

void sio_withdraw(struct sio_policy *policy, struct sio_item *item, u64 now)
{
	leave(policy, item, now);
}

/* ---- dispatch ---- */

/* Chooses one of the queues from which the next request comes (algorithm 6.1). Returns it, or -1. */
static int choose_queue(struct sio_policy *policy, u32 others, u64 now)
{
	int current = policy->current_queue;
	bool has_current = current >= 0 && (others >> current & 1);

	if (has_current && now < policy->slice_end_ns)
		return current;
	if (has_current)
		others &= ~(1U << current);
	if (others)
		return lowest(others);
	return has_current ? current : -1;
}

/* Algorithm 6.2: a queue with `quantum` requests in flight gives more only if it is the only one. */
static bool may_dispatch(const struct sio_policy *policy, int queue)
{
	const struct sio_queue *chosen = &policy->queues[queue];

	return chosen->in_flight < policy->settings.quantum || chosen->queued == policy->queued;
}

/* Algorithm 6.1 goes on with this queue. */
static void use_queue(struct sio_policy *policy, int queue, u64 now)
{
	if (queue != policy->current_queue || now >= policy->slice_end_ns) {
		policy->current_queue = queue;
		policy->slice_end_ns = now + policy->settings.slice_ns;
	}
}

/* The next write of a list in a class, or NULL if a limit forbids it; then it goes after a completion. */
static struct sio_item *take_write(struct sio_policy *policy, u8 class, u8 list, u64 now)
{
	int queue = choose_queue(policy, waiting_in(policy, class, list), now);
	struct sio_item *item;

	if (queue < 0 || !may_dispatch(policy, queue))
		return NULL;
	item = front(policy, queue, list, true);
	if (!item)
		return NULL;
	use_queue(policy, queue, now);
	issue(policy, item, now);
	return item;
}

/* The next read of a class, or NULL if a limit forbids it. */
static struct sio_item *take_read(struct sio_policy *policy, u8 class, u64 now)
{
	u32 queues = waiting_in(policy, class, SIO_TURN_READS) | waiting_in(policy, class, SIO_READS);
	int queue = choose_queue(policy, queues, now);
	struct sio_item *item, *other;

	if (queue < 0 || !may_dispatch(policy, queue))
		return NULL;
	item = front(policy, queue, SIO_TURN_READS, true);
	other = front(policy, queue, SIO_READS, true);
	if (!item) {
		item = other;
	} else if (other && is_turn_over(policy, item, other, now)) {
		item = other;
		end_turn(policy, longest_turn(policy, now), now);
		policy->statistics.turns_by_bound++;
	}
	if (!item)
		return NULL;
	use_queue(policy, queue, now);
	issue(policy, item, now);
	if (!item->reader)
		begin_turn(policy, item, now);
	return item;
}

/*
 * Returns the instant until which reads hold back the writes of a class: 0 if they do not, SIO_NEVER if a read waits or is in
 * flight. Reads of lower classes hold nothing back.
 */
static u64 held_until(const struct sio_policy *policy, u8 class)
{
	u64 until = 0;
	u8 higher;

	for (higher = 0; higher <= class; higher++) {
		if (policy->reads_queued[higher] || policy->reads_in_flight[higher])
			return SIO_NEVER;
		until = later(until, policy->hold_until_ns[higher]);
	}
	return until;
}

static void wake_at(u64 *wake_ns, u64 instant)
{
	if (instant < *wake_ns)
		*wake_ns = instant;
}

/* A write whose bound is reached. */
static struct sio_item *take_due_write(struct sio_policy *policy, u8 class, u64 now, u64 *wake_ns)
{
	struct sio_item *item;
	u8 list;

	for (list = SIO_SYNC_WRITES; list < SIO_LISTS; list++) {
		u64 instant = due(policy, class, list);

		if (instant > now) {
			wake_at(wake_ns, instant);
			continue;
		}
		item = take_write(policy, class, list, now);
		if (item) {
			policy->statistics.writes_by_bound++;
			return item;
		}
	}
	return NULL;
}

static bool budget_allows(const struct sio_policy *policy)
{
	return policy->settings.read_percent > 100 && policy->budget_ns >= 0 && !policy->is_unsettled &&
	       policy->writes_in_flight < policy->window;
}

/* The next request of a class. `*is_blocked` becomes true if one would go but for a limit. */
static struct sio_item *take_of_class(struct sio_policy *policy, u8 class, u64 now, u64 *wake_ns, bool *is_blocked)
{
	u64 held = policy->writes_queued[class] ? held_until(policy, class) : 0;
	struct sio_item *item = NULL;

	if (policy->writes_queued[class]) {
		item = take_due_write(policy, class, now, wake_ns);
		if (item)
			return item;
		if (held > now && budget_allows(policy)) {
			item = take_write(policy, class, write_list(policy, class), now);
			if (item) {
				policy->is_unsettled = true;
				policy->unsettled_ns = now;
				policy->statistics.writes_by_budget++;
				return item;
			}
		}
	}
	if (policy->reads_queued[class]) {
		item = take_read(policy, class, now);
		*is_blocked = !item;
		return item;
	}
	if (!policy->writes_queued[class])
		return NULL;
	if (held > now) {
		wake_at(wake_ns, held);
		policy->statistics.held++;
		return NULL;
	}
	policy->is_unsettled = false;
	item = take_write(policy, class, write_list(policy, class), now);
	*is_blocked = !item;
	return item;
}

static u32 queued_in(const struct sio_policy *policy, u8 class)
{
	return policy->reads_queued[class] + policy->writes_queued[class];
}

/* Whether requests wait of a class below one that is busy. */
static bool has_lower_class(const struct sio_policy *policy)
{
	bool is_busy = queued_in(policy, SIO_RT) || policy->class_in_flight[SIO_RT];

	if (is_busy && queued_in(policy, SIO_BE))
		return true;
	is_busy |= queued_in(policy, SIO_BE) || policy->class_in_flight[SIO_BE];
	return is_busy && queued_in(policy, SIO_IDLE);
}

/* A request of a class that has waited for higher classes for too long. */
static struct sio_item *take_of_waiting_class(struct sio_policy *policy, u64 now, u64 *wake_ns)
{
	bool is_higher_busy = false;
	u8 class, list;

	/* Mostly there is one class. */
	if (!has_lower_class(policy))
		return NULL;
	for (class = 0; class < SIO_CLASSES; class++) {
		u64 came = SIO_NEVER, instant;
		u8 chosen = SIO_READS;

		for (list = 0; list < SIO_LISTS; list++) {
			struct sio_item *first = oldest(policy, class, list);

			if (first && first->came_ns < came) {
				came = first->came_ns;
				chosen = list;
			}
		}
		if (came != SIO_NEVER && is_higher_busy) {
			instant = later(came, policy->class_served_ns[class]) + policy->settings.class_bound_ns;
			if (instant <= now) {
				struct sio_item *item =
					chosen <= SIO_READS ? take_read(policy, class, now) : take_write(policy, class, chosen, now);

				if (item) {
					policy->statistics.classes_by_bound++;
					return item;
				}
			} else {
				wake_at(wake_ns, instant);
			}
		}
		is_higher_busy |= came != SIO_NEVER || policy->class_in_flight[class];
	}
	return NULL;
}

static bool is_full(const struct sio_policy *policy)
{
	u32 most = policy->settings.in_flight_max;

	return most && policy->in_flight >= most;
}

u64 sio_next(const struct sio_policy *policy, u64 now)
{
	u64 next;
	u8 class, list;

	if (!policy->queued || is_full(policy))
		return SIO_NEVER;
	/* The frequent case is that only writes of one class wait, which reads hold back. */
	for (class = 0; class < SIO_IDLE; class++)
		if (policy->writes_queued[class] == policy->queued)
			break;
	if (class == SIO_IDLE || budget_allows(policy))
		return now;
	next = held_until(policy, class);
	for (list = SIO_SYNC_WRITES; list < SIO_LISTS; list++)
		wake_at(&next, due(policy, class, list));
	return later(next, now);
}

struct sio_item *sio_dispatch(struct sio_policy *policy, u64 now, u64 *wake_ns)
{
	struct sio_item *item;
	u8 class;

	*wake_ns = SIO_NEVER;
	if (!policy->queued || is_full(policy))
		return NULL;
	item = take_of_waiting_class(policy, now, wake_ns);
	for (class = 0; !item && class < SIO_CLASSES; class++) {
		bool is_blocked = false;

		/* The idle class has the device only when nobody else uses it. */
		if (class == SIO_IDLE && (policy->class_in_flight[SIO_RT] || policy->class_in_flight[SIO_BE]))
			break;
		item = take_of_class(policy, class, now, wake_ns, &is_blocked);
		/* Lower classes do not overtake what only a limit keeps back; but their reads need not wait for writes. */
		if (is_blocked)
			break;
		if (!item && class == SIO_BE && policy->writes_queued[SIO_RT] + policy->writes_queued[SIO_BE])
			break;
	}
	if (item)
		*wake_ns = SIO_NEVER;
	return item;
}
