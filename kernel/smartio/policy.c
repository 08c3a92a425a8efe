// SPDX-License-Identifier: GPL-2.0-only
/*
 * The policy; see policy.h. Its parts are headers with static functions, one subject each, and not separate translation units,
 * because each request needs most of them and the compiler can inline them here.
 */
#include "policy.h"

#define MS 1000000ULL
/* The maximum number of sync writes in a row while async writes wait. It keeps each list from starving the other. */
#define SYNC_WRITES_IN_A_ROW 4
/* Averages move by 1/8 of the difference with each sample. */
#define AVERAGE_SHIFT 3
/* Writes are held back for this many average gaps between two reads: 98 % of exponentially distributed gaps are shorter. */
#define HOLD_GAPS 4
/* The minimum anticipation: the time that a program and the block layer need from a completion to the next read. */
#define HOLD_MIN_NS 50000ULL

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

/*
 * For times without a disturbance, of which some samples were disturbed without our knowledge: a device that has accepted writes
 * into its buffer programs them later. The mean follows short times quickly, and long ones slowly.
 */
static void average_undisturbed(u64 *mean, u64 sample)
{
	if (*mean == 0)
		*mean = sample;
	else if (sample < *mean)
		*mean -= (*mean - sample) >> 2;
	else
		*mean += (sample - *mean) >> 8;
}

static u8 size_of(u32 bytes)
{
	u8 size = 0;

	for (bytes >>= 12; bytes > 1 && size < SIO_SIZES - 1; bytes >>= 2)
		size++;
	return size;
}

/* The last one is for all larger numbers. */
static u8 crowd_of(u32 reads)
{
	u8 crowd = 0;

	for (reads >>= 1; reads && crowd < SIO_CROWDS - 1; reads >>= 1)
		crowd++;
	return crowd;
}

#include "lists.h"
#include "shares.h"
#include "turns.h"
#include "bounds.h"
#include "budget.h"
#include "pauses.h"

/* ---- settings ---- */

void sio_settings_study(struct sio_settings *settings)
{
	/* The Samsung S5's limits (section 4.5), CFQ's slice and quantum (sections 5 and 6). */
	*settings = (struct sio_settings){
		.slice_ns = 100 * MS,
		.sync_bound_ns = 100 * MS,
		.class_bound_ns = 1000 * MS,
		.has_level_slices = true,
		.quantum = 8,
		.limits = { 2, 4, 4, 2 },
	};
}

void sio_settings_default(struct sio_settings *settings, u32 depth)
{
	sio_settings_study(settings);
	memset(settings->limits, 0, sizeof(settings->limits));
	settings->has_level_slices = false;
	settings->sync_bound_ns = 25 * MS;
	settings->hold_max_ns = 1 * MS;
	settings->turn_wait_ns = 25 * MS;
	/* The number of random reads of 4 KiB that fit into this time on the Galaxy S5. */
	settings->turn_reads = 160;
	settings->read_percent = 120;
	settings->write_back_percent = 250;
	settings->pause_max_ns = 100 * MS;
	settings->write_wait_ns = 2 * MS;
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
	/* No request begins at SIO_NEVER. */
	for (stream = 0; stream < SIO_STREAMS; stream++)
		policy->streams[0].ends[stream] = policy->streams[1].ends[stream] = SIO_NEVER;
	policy->current_queue = -1;
	policy->budgets[SIO_SYNC].window = policy->budgets[SIO_WRITE_BACK].window = 1;
	policy->piece_shift = SIO_PIECE_SHIFT;
	policy->reads_to_grow = READS_TO_GROW;
	policy->reads_to_shrink = READS_TO_SHRINK;
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
	/* The latest stream comes first; a new one replaces the one that was idle longest. */
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
		/* With the same bound, as in the study, sync and async writes are in one list in the order of insertion. */
		item->list = item->is_sync && settings->sync_bound_ns < settings->slice_ns ? SIO_SYNC_WRITES : SIO_ASYNC_WRITES;
	item->state = SIO_QUEUED;
	begin_share(policy, item);
	list_append(&policy->queues[item->queue].lists[item->list][is_random(item->kind)], &item->link);
	policy->waiting[item->list] |= 1U << item->queue;
	if (item->list == SIO_READS)
		process_of(policy, item)->waiting++;
	if (!item->is_write && policy->read_done_ns[class] && policy->reads_queued[class] == 0 &&
	    policy->reads_in_flight[class] == 0) {
		/* A long pause only shows that it was longer than any anticipation; a single one must not end the anticipation. */
		u64 gap = since(now, policy->read_done_ns[class]), most = policy->settings.hold_max_ns;

		average(&policy->gap_ns[class], gap < most ? gap : most);
		policy->read_done_ns[class] = 0;
		learn_pause(policy, item, now);
	}
	if (!item->is_write && class != SIO_IDLE)
		policy->last_read_ns = now;
	/* The program has gone on with a write. */
	if (item->is_write && policy->hold_process[class] == item->process)
		policy->hold_until_ns[class] = 0;
	count_queued(policy, item, 1);
}

/* Removes a request from its list. */
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
	use_share(policy, item);
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
		policy->is_latest_write_back = item->list == SIO_ASYNC_WRITES;
		if (item->list == SIO_ASYNC_WRITES) {
			policy->write_back_in_flight++;
			if (policy->settings.pause_max_ns)
				use_time(policy, item, now);
		}
		*served = now;
		policy->sync_writes_in_a_row = item->list == SIO_SYNC_WRITES ? policy->sync_writes_in_a_row + 1 : 0;
	} else {
		item->crowd = crowd_of(policy->in_flight - policy->writes_in_flight);
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

/* Records that a request is no longer in flight. */
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
	if (item->is_write)
		policy->write_done_ns = now;
	policy->write_back_in_flight -= item->is_write && item->list == SIO_ASYNC_WRITES;
	policy->last_done_ns = now;
}

/* ---- which write ---- */

static u8 write_list(const struct sio_policy *policy, u8 class)
{
	if (!waiting_in(policy, class, SIO_SYNC_WRITES))
		return SIO_ASYNC_WRITES;
	if (policy->sync_writes_in_a_row < SYNC_WRITES_IN_A_ROW || !waiting_in(policy, class, SIO_ASYNC_WRITES))
		return SIO_SYNC_WRITES;
	return SIO_ASYNC_WRITES;
}

/* ---- completions ---- */

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
		if (policy->in_flight == 0)
			learn_write(policy, item, service);
		return;
	}
	process_of(policy, item)->done_ns = now;
	if (class != SIO_IDLE)
		policy->last_read_ns = now;
	settle_read(policy, item, service, now);
	if (policy->reads_in_flight[class] || policy->reads_queued[class])
		return;
	if (class != SIO_IDLE)
		expect_read(policy, item, now);
	policy->read_done_ns[class] = now;
	policy->hold_process[class] = item->process;
	next = policy->writes_queued[class] ? oldest(policy, class, write_list(policy, class)) : NULL;
	if (next && next->process == item->process) {
		policy->hold_until_ns[class] = 0;
		return;
	}
	/* The policy does not wait for readers whose average pause is too long for the maximum anticipation. */
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

/* Chooses the queue from which the next request of a list comes (with slices, algorithm 6.1). Returns it, or -1. */
static int choose_queue(struct sio_policy *policy, u32 others, u8 list, u64 now)
{
	int current = policy->current_queue;
	bool has_current = current >= 0 && (others >> current & 1);

	if (!policy->settings.has_level_slices)
		return least_used(policy, others, list);
	if (has_current && now < policy->slice_end_ns)
		return current;
	if (has_current)
		others &= ~(1U << current);
	if (others)
		return lowest(others);
	return has_current ? current : -1;
}

/* Makes a queue the current one of algorithm 6.1. */
static void use_queue(struct sio_policy *policy, int queue, u64 now)
{
	if (queue != policy->current_queue || now >= policy->slice_end_ns) {
		policy->current_queue = queue;
		policy->slice_end_ns = now + policy->settings.slice_ns;
	}
}

/* Issues the next write of a list in a class, or returns NULL if a limit forbids it; then it goes after a completion. */
static struct sio_item *take_write(struct sio_policy *policy, u8 class, u8 list, u64 now)
{
	int queue = choose_queue(policy, waiting_in(policy, class, list), list, now);
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

/* Issues the next read of a class, or returns NULL if a limit forbids it. */
static struct sio_item *take_read(struct sio_policy *policy, u8 class, u64 now)
{
	u32 queues = waiting_in(policy, class, SIO_TURN_READS) | waiting_in(policy, class, SIO_READS);
	int queue = choose_queue(policy, queues, SIO_READS, now);
	struct sio_item *item, *other;

	if (queue < 0 || !may_dispatch(policy, queue))
		return NULL;
	item = policy->waiting[SIO_TURN_READS] >> queue & 1 ? front(policy, queue, SIO_TURN_READS, true) : NULL;
	other = policy->waiting[SIO_READS] >> queue & 1 ? front(policy, queue, SIO_READS, true) : NULL;
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

/* Issues a write whose bound is reached. */
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

/* Issues the next request of a class. `*is_blocked` becomes true if only a limit keeps a request from going. */
static struct sio_item *take_of_class(struct sio_policy *policy, u8 class, u64 now, u64 *wake_ns, bool *is_blocked)
{
	u64 held = policy->writes_queued[class] ? held_until(policy, class) : 0;
	u8 list = policy->writes_queued[class] ? write_list(policy, class) : SIO_ASYNC_WRITES;
	struct sio_item *item = NULL;

	if (policy->writes_queued[class]) {
		item = take_due_write(policy, class, now, wake_ns);
		if (item)
			return item;
		if (held > now && budget_allows(policy, list)) {
			item = take_write(policy, class, list, now);
			if (item) {
				struct sio_budget *budget = &policy->budgets[list == SIO_ASYNC_WRITES];

				if (budget->unsettled++ == 0)
					budget->unsettled_ns = now;
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
	if (list == SIO_ASYNC_WRITES) {
		held = held_for_reader(policy, oldest(policy, class, list), now);
		if (held > now) {
			wake_at(wake_ns, held);
			policy->statistics.held_for_readers++;
			return NULL;
		}
	}
	policy->budgets[list == SIO_ASYNC_WRITES].unsettled = 0;
	item = take_write(policy, class, list, now);
	*is_blocked = !item;
	return item;
}

static u32 queued_in(const struct sio_policy *policy, u8 class)
{
	return policy->reads_queued[class] + policy->writes_queued[class];
}

/* Whether requests wait in a class below a busy one. */
static bool has_lower_class(const struct sio_policy *policy)
{
	bool is_busy = queued_in(policy, SIO_RT) || policy->class_in_flight[SIO_RT];

	if (is_busy && queued_in(policy, SIO_BE))
		return true;
	is_busy |= queued_in(policy, SIO_BE) || policy->class_in_flight[SIO_BE];
	return is_busy && queued_in(policy, SIO_IDLE);
}

/* Issues a request of a class that has waited too long for higher classes. */
static struct sio_item *take_of_waiting_class(struct sio_policy *policy, u64 now, u64 *wake_ns)
{
	bool is_higher_busy = false;
	u8 class, list;

	/* The most frequent case: there is only one class. */
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
	/* The most frequent case: only writes of one class wait, and reads hold them back. */
	for (class = 0; class < SIO_IDLE; class++)
		if (policy->writes_queued[class] == policy->queued)
			break;
	if (class == SIO_IDLE)
		return now;
	list = write_list(policy, class);
	if (budget_allows(policy, list))
		return now;
	next = held_until(policy, class);
	if (next <= now && list == SIO_ASYNC_WRITES)
		next = held_for_reader(policy, oldest(policy, class, list), now);
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

		/* The idle class has the device only when no other class uses it. */
		if (class == SIO_IDLE && (policy->class_in_flight[SIO_RT] || policy->class_in_flight[SIO_BE]))
			break;
		item = take_of_class(policy, class, now, wake_ns, &is_blocked);
		/* Lower classes do not overtake a request that only a limit keeps back; but their reads need not wait for writes. */
		if (is_blocked)
			break;
		if (!item && class == SIO_BE && policy->writes_queued[SIO_RT] + policy->writes_queued[SIO_BE])
			break;
	}
	if (item)
		*wake_ns = SIO_NEVER;
	return item;
}
