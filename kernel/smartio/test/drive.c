// SPDX-License-Identifier: GPL-2.0-only
/*
 * Replays the policy from text, one event on each line, in the format of the vectors of fonio-sim
 * (crates/fonio-sim/src/scheduler/vectors.rs). Reads standard input; writes each line with the policy's answer behind `->`.
 *
 *   scheduler smartio [study] [KEY=VALUE ...]   keys: the fields of struct sio_settings; seq_read, rand_read, seq_write and
 *                                               rand_write set the limits
 *   insert NOW_NS id=N read|write sync|async sector=N bytes=N process=N rtL|beL|idle
 *   dispatch NOW_NS                             -> N, or none
 *   complete NOW_NS id=N
 *   withdraw NOW_NS id=N                        the driver gave the request back
 *   remove NOW_NS id=N                          the request was merged into another one
 *   timer NOW_NS                                -> the instant at which a request may go without another event, or none
 *   next NOW_NS                                 -> when a dispatch may give something at the earliest, or none
 *   piece NOW_NS                                -> the size of pieces of write-back in bytes; 0: any
 *   state NOW_NS                                -> the budget, and what reads lost
 *
 * `timer` repeats the answer of the last `dispatch`, as it is the dispatch that finds it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "../policy.h"

#define ITEMS_MAX (1 << 20)

static struct sio_policy policy;
static struct sio_item *items[ITEMS_MAX];
static bool is_started;
static unsigned long line_number;

static void fail(const char *what)
{
	fprintf(stderr, "line %lu: %s\n", line_number, what);
	exit(2);
}

static u64 number(const char *text, const char *what)
{
	char *end;
	u64 value = strtoull(text ? text : "", &end, 10);

	if (!text || end == text || *end)
		fail(what);
	return value;
}

/* The value of `key=VALUE` among the words. */
static u64 valued(char **words, const char *key)
{
	size_t length = strlen(key);

	for (; *words; words++)
		if (!strncmp(*words, key, length) && (*words)[length] == '=')
			return number(*words + length + 1, key);
	fail(key);
	return 0;
}

static void set(struct sio_settings *settings, char *word)
{
	char *value = strchr(word, '=');
	u64 n;

	if (!value)
		fail("a setting is KEY=VALUE");
	*value++ = 0;
	n = number(value, word);
	value[-1] = '=';
#define IS(name) (!strncmp(word, name "=", sizeof(name)))
	if (IS("seq_read")) settings->limits[SIO_SEQ_READ] = n;
	else if (IS("rand_read")) settings->limits[SIO_RAND_READ] = n;
	else if (IS("seq_write")) settings->limits[SIO_SEQ_WRITE] = n;
	else if (IS("rand_write")) settings->limits[SIO_RAND_WRITE] = n;
	else if (IS("slice_ns")) settings->slice_ns = n;
	else if (IS("has_level_slices")) settings->has_level_slices = n;
	else if (IS("sync_bound_ns")) settings->sync_bound_ns = n;
	else if (IS("class_bound_ns")) settings->class_bound_ns = n;
	else if (IS("turn_wait_ns")) settings->turn_wait_ns = n;
	else if (IS("turn_reads")) settings->turn_reads = n;
	else if (IS("hold_max_ns")) settings->hold_max_ns = n;
	else if (IS("quantum")) settings->quantum = n;
	else if (IS("in_flight_max")) settings->in_flight_max = n;
	else if (IS("read_percent")) settings->read_percent = n;
	else if (IS("write_back_percent")) settings->write_back_percent = n;
	else if (IS("pause_max_ns")) settings->pause_max_ns = n;
	else if (IS("write_wait_ns")) settings->write_wait_ns = n;
	else fail("there is no such setting");
#undef IS
}

static void start(char **words)
{
	struct sio_settings settings;

	if (is_started || !*words || strcmp(*words, "smartio"))
		fail("the first event is `scheduler smartio`");
	is_started = true;
	sio_settings_default(&settings, 0);
	for (words++; *words; words++) {
		if (!strcmp(*words, "study"))
			sio_settings_study(&settings);
		else
			set(&settings, *words);
	}
	sio_init(&policy, &settings, 0);
}

static struct sio_item *item_of(char **words, u8 state)
{
	u64 id = valued(words, "id");

	if (id >= ITEMS_MAX || !items[id] || items[id]->state != state)
		fail("there is no such request in that state");
	return items[id];
}

static void forget(char **words)
{
	u64 id = valued(words, "id");

	free(items[id]);
	items[id] = NULL;
}

static void insert(char **words, u64 now)
{
	u64 id = valued(words, "id");
	struct sio_item *item = calloc(1, sizeof(*item));
	char **word;

	if (!item || id >= ITEMS_MAX || items[id])
		fail("an id is used once, and is below 2^20");
	items[id] = item;
	item->sector = valued(words, "sector");
	item->bytes = valued(words, "bytes");
	item->process = valued(words, "process");
	item->class = SIO_BE;
	item->level = 4;
	for (word = words; *word; word++) {
		if (!strcmp(*word, "write") || !strcmp(*word, "discard"))
			item->is_write = 1;
		if (!strcmp(*word, "discard"))
			item->is_discard = 1;
		if (!strcmp(*word, "sync"))
			item->is_sync = 1;
		if (!strcmp(*word, "idle"))
			item->class = SIO_IDLE;
		if ((!strncmp(*word, "rt", 2) || !strncmp(*word, "be", 2)) && strlen(*word) == 3) {
			item->class = **word == 'r' ? SIO_RT : SIO_BE;
			item->level = (*word)[2] - '0';
		}
	}
	sio_insert(&policy, item, now);
}

int main(void)
{
	static char line[4096], copy[4096];
	u64 wake = SIO_NEVER;

	while (fgets(line, sizeof(line), stdin)) {
		char *words[64] = { NULL }, *word, *answer = strstr(line, "->");
		int count = 0;
		u64 now;

		line_number++;
		if (answer)
			*answer = 0;
		for (word = line + strlen(line); word > line && strchr(" \n", word[-1]); )
			*--word = 0;
		strcpy(copy, line);
		for (word = strtok(copy, " "); word && count < 63; word = strtok(NULL, " "))
			words[count++] = word;
		fputs(line, stdout);
		if (!count || words[0][0] == '#') {
			putchar('\n');
			continue;
		}
		if (!strcmp(words[0], "scheduler")) {
			start(words + 1);
			putchar('\n');
			fflush(stdout);
			continue;
		}
		if (!is_started)
			fail("the first event is `scheduler smartio`");
		now = number(words[1], "an instant in nanoseconds");
		if (!strcmp(words[0], "insert")) {
			insert(words + 2, now);
		} else if (!strcmp(words[0], "dispatch")) {
			struct sio_item *item = sio_dispatch(&policy, now, &wake);
			int id;

			for (id = 0; item && items[id] != item; id++)
				;
			if (item)
				printf(" -> %d", id);
			else
				printf(" -> none");
		} else if (!strcmp(words[0], "complete")) {
			sio_complete(&policy, item_of(words, SIO_ISSUED), now);
			forget(words);
		} else if (!strcmp(words[0], "withdraw")) {
			sio_withdraw(&policy, item_of(words, SIO_ISSUED), now);
			forget(words);
		} else if (!strcmp(words[0], "remove")) {
			sio_remove(&policy, item_of(words, SIO_QUEUED));
			forget(words);
		} else if (!strcmp(words[0], "timer")) {
			if (wake == SIO_NEVER)
				printf(" -> none");
			else
				printf(" -> %" PRIu64, wake);
		} else if (!strcmp(words[0], "next")) {
			u64 next = sio_next(&policy, now);

			if (next == SIO_NEVER)
				printf(" -> none");
			else
				printf(" -> %" PRIu64, next);
		} else if (!strcmp(words[0], "piece")) {
			printf(" -> %" PRIu32, sio_piece_bytes(&policy, now));
		} else if (!strcmp(words[0], "state")) {
			printf(" -> budget_ns=%" PRId64 " reads_lost_ns=%" PRIu64, policy.budgets[SIO_SYNC].ns,
			       policy.statistics.reads_lost_ns);
		} else {
			fail("there is no such event");
		}
		putchar('\n');
		fflush(stdout);
	}
	return 0;
}
