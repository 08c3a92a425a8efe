/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Settings and statistics below /sys/block/DEVICE/queue/iosched. Each name ends with its unit. Part of smartio.c.
 */
#ifndef SMARTIO_SYSFS_H
#define SMARTIO_SYSFS_H

/* Declares a setting of one field, shown as FIELD / UNIT, from LEAST to MOST in that unit. */
#define SETTING(name, field, unit, least, most)								\
static ssize_t name##_show(struct elevator_queue *eq, char *page)					\
{													\
	struct smartio *sio = eq->elevator_data;							\
													\
	return sysfs_emit(page, "%llu\n", div_u64(READ_ONCE(sio->policy.settings.field), unit));	\
}													\
static ssize_t name##_store(struct elevator_queue *eq, const char *page, size_t count)		\
{													\
	struct smartio *sio = eq->elevator_data;							\
	unsigned long flags;										\
	u64 value;											\
	int error = kstrtoull(page, 10, &value);							\
													\
	if (error)											\
		return error;										\
	if (value < (least) || value > (most))								\
		return -ERANGE;										\
	spin_lock_irqsave(&sio->lock, flags);								\
	sio->policy.settings.field = value * (unit);							\
	spin_unlock_irqrestore(&sio->lock, flags);							\
	return count;											\
}

#define STATISTIC(name, expression, format)								\
static ssize_t name##_show(struct elevator_queue *eq, char *page)					\
{													\
	struct smartio *sio = eq->elevator_data;							\
	unsigned long flags;										\
	ssize_t length;											\
													\
	spin_lock_irqsave(&sio->lock, flags);								\
	length = sysfs_emit(page, format "\n", (expression));						\
	spin_unlock_irqrestore(&sio->lock, flags);							\
	return length;											\
}

#define STATISTICS_OF_KIND(kind, number)								\
STATISTIC(kind##_dispatched_requests, sio->policy.statistics.dispatched[number], "%llu")		\
STATISTIC(kind##_service_ns_sum, sio->policy.statistics.service_ns[number], "%llu")			\
STATISTIC(kind##_wait_ns_sum, sio->policy.statistics.wait_ns[number], "%llu")				\
STATISTIC(kind##_wait_ns_max, sio->policy.statistics.wait_ns_max[number], "%llu")

SETTING(slice_ms, slice_ns, NSEC_PER_MSEC, 1, 10000)
SETTING(sync_write_wait_ms_max, sync_bound_ns, NSEC_PER_MSEC, 1, 10000)
SETTING(class_wait_ms_max, class_bound_ns, NSEC_PER_MSEC, 1, 100000)
SETTING(hold_us_max, hold_max_ns, NSEC_PER_USEC, 0, 100000)
SETTING(turn_wait_ms_max, turn_wait_ns, NSEC_PER_MSEC, 0, 10000)
SETTING(turn_reads_min, turn_reads, 1, 0, 10000)
SETTING(level_slices, has_level_slices, 1, 0, 1)
SETTING(quantum_requests, quantum, 1, 1, 10000)
SETTING(device_requests_max, in_flight_max, 1, 0, 10000)
SETTING(seq_read_requests_max, limits[SIO_SEQ_READ], 1, 0, 10000)
SETTING(rand_read_requests_max, limits[SIO_RAND_READ], 1, 0, 10000)
SETTING(seq_write_requests_max, limits[SIO_SEQ_WRITE], 1, 0, 10000)
SETTING(rand_write_requests_max, limits[SIO_RAND_WRITE], 1, 0, 10000)
SETTING(read_time_percent_max, read_percent, 1, 0, 10000)
SETTING(read_time_percent_max_write_back, write_back_percent, 1, 0, 10000)
SETTING(reader_pause_ms_max, pause_max_ns, NSEC_PER_MSEC, 0, 1000)
SETTING(write_back_wait_us_max, write_wait_ns, NSEC_PER_USEC, 1, 100000)

STATISTICS_OF_KIND(seq_read, SIO_SEQ_READ)
STATISTICS_OF_KIND(rand_read, SIO_RAND_READ)
STATISTICS_OF_KIND(seq_write, SIO_SEQ_WRITE)
STATISTICS_OF_KIND(rand_write, SIO_RAND_WRITE)
STATISTIC(realtime_dispatched_requests, sio->policy.statistics.class_dispatched[SIO_RT], "%llu")
STATISTIC(best_effort_dispatched_requests, sio->policy.statistics.class_dispatched[SIO_BE], "%llu")
STATISTIC(idle_dispatched_requests, sio->policy.statistics.class_dispatched[SIO_IDLE], "%llu")
STATISTIC(reads_lost_ns_sum, sio->policy.statistics.reads_lost_ns, "%llu")
STATISTIC(read_budget_ns, sio->policy.budgets[SIO_SYNC].ns, "%lld")
STATISTIC(read_budget_write_back_ns, sio->policy.budgets[SIO_WRITE_BACK].ns, "%lld")
STATISTIC(writes_beside_reads_max, sio->policy.budgets[SIO_SYNC].window, "%u")
STATISTIC(write_back_beside_reads_max, sio->policy.budgets[SIO_WRITE_BACK].window, "%u")
STATISTIC(write_back_piece_bytes, sio->piece_bytes, "%u")
STATISTIC(held_for_readers_dispatches, sio->policy.statistics.held_for_readers, "%llu")
STATISTIC(read_gap_ns_mean, sio->policy.gap_ns[SIO_BE], "%llu")
STATISTIC(turns, sio->policy.statistics.turns, "%llu")
STATISTIC(turns_by_bound, sio->policy.statistics.turns_by_bound, "%llu")
STATISTIC(held_dispatches, sio->policy.statistics.held, "%llu")
STATISTIC(writes_by_budget_requests, sio->policy.statistics.writes_by_budget, "%llu")
STATISTIC(writes_by_bound_requests, sio->policy.statistics.writes_by_bound, "%llu")
STATISTIC(write_late_ns_max, sio->policy.statistics.write_late_ns_max, "%llu")
STATISTIC(classes_by_bound_requests, sio->policy.statistics.classes_by_bound, "%llu")
STATISTIC(bypassed_requests, sio->bypassed, "%llu")
STATISTIC(without_memory_requests, sio->without_item, "%llu")
STATISTIC(merged_requests, sio->merged, "%llu")
STATISTIC(waiting_requests, sio->policy.queued, "%u")
STATISTIC(in_flight_requests, sio->policy.in_flight, "%u")

/* The learnt service times of writes from 4 KiB, 8, 16, … on. 0: not known. */
static ssize_t write_sizes_service_ns_mean_show(struct elevator_queue *eq, char *page)
{
	struct smartio *sio = eq->elevator_data;
	ssize_t length = 0;
	int size;

	for (size = 0; size < SIO_WRITE_SIZES; size++)
		length += sysfs_emit_at(page, length, "%llu%s", READ_ONCE(sio->policy.write_ns[size]),
					size < SIO_WRITE_SIZES - 1 ? " " : "\n");
	return length;
}

#define RW(name) __ATTR(name, 0644, name##_show, name##_store)
#define RO(name) __ATTR(name, 0444, name##_show, NULL)
#define RO_OF_KIND(kind)										\
	RO(kind##_dispatched_requests), RO(kind##_service_ns_sum),					\
	RO(kind##_wait_ns_sum), RO(kind##_wait_ns_max)

SIO_ATTRIBUTES smartio_attributes[] = {
	RW(slice_ms),
	RW(sync_write_wait_ms_max),
	RW(class_wait_ms_max),
	RW(hold_us_max),
	RW(turn_wait_ms_max),
	RW(turn_reads_min),
	RW(level_slices),
	RW(quantum_requests),
	RW(device_requests_max),
	RW(seq_read_requests_max),
	RW(rand_read_requests_max),
	RW(seq_write_requests_max),
	RW(rand_write_requests_max),
	RW(read_time_percent_max),
	RW(read_time_percent_max_write_back),
	RW(reader_pause_ms_max),
	RW(write_back_wait_us_max),
	RO_OF_KIND(seq_read),
	RO_OF_KIND(rand_read),
	RO_OF_KIND(seq_write),
	RO_OF_KIND(rand_write),
	RO(realtime_dispatched_requests),
	RO(best_effort_dispatched_requests),
	RO(idle_dispatched_requests),
	RO(reads_lost_ns_sum),
	RO(read_budget_ns),
	RO(read_budget_write_back_ns),
	RO(writes_beside_reads_max),
	RO(write_back_beside_reads_max),
	RO(write_back_piece_bytes),
	RO(write_sizes_service_ns_mean),
	RO(held_for_readers_dispatches),
	RO(read_gap_ns_mean),
	RO(turns),
	RO(turns_by_bound),
	RO(held_dispatches),
	RO(writes_by_budget_requests),
	RO(writes_by_bound_requests),
	RO(write_late_ns_max),
	RO(classes_by_bound_requests),
	RO(bypassed_requests),
	RO(without_memory_requests),
	RO(merged_requests),
	RO(waiting_requests),
	RO(in_flight_requests),
	{},
};

#endif
