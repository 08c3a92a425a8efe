/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Weights of control groups: the file `io.smartio.weight` of each group. Part of smartio.c.
 *
 * A weight moves the requests of a group to another level of their class: 200 is one level higher than 100, 400 two, 50 one lower.
 * A group without a weight has the weight of its parent. We need a file of our own, because `io.weight` belongs to io.cost and
 * `io.bfq.weight` to BFQ, and neither lets other code read its value.
 */
#ifndef SMARTIO_WEIGHTS_H
#define SMARTIO_WEIGHTS_H

#ifdef CONFIG_BLK_CGROUP
#include <linux/cgroup.h>

#include "blk-cgroup.h"

struct smartio_group {
	struct blkcg_policy_data common;
	/* 0: the weight of the parent. */
	u16 weight;
	/* The levels that result from `weight`, and the value of `smartio_weights_set` when they were computed. */
	s8 levels;
	u32 seen;
};

static struct blkcg_policy smartio_weights;
/* The number of times that a weight was set; 0: never, and requests need no look at their group. */
static atomic_t smartio_weights_set;
static bool has_weights;

static struct smartio_group *group_of(struct blkcg *blkcg)
{
	struct blkcg_policy_data *common = blkcg_to_cpd(blkcg, &smartio_weights);

	return common ? container_of(common, struct smartio_group, common) : NULL;
}

/* Returns the number of levels above the default; below it if negative. */
static s8 levels_of(u32 weight)
{
	s8 levels = 0;

	for (; weight >= CGROUP_WEIGHT_DFL * 3 / 2; weight /= 2)
		levels++;
	for (; weight <= CGROUP_WEIGHT_DFL * 3 / 4; weight *= 2)
		levels--;
	return levels;
}

/* Returns the level of a request whose program has `level`. */
static u8 weighted_level(const struct request *rq, u8 level)
{
	u32 set = atomic_read(&smartio_weights_set);
	struct smartio_group *group, *with_weight;
	struct blkcg *blkcg;
	int moved;

	/* A group exists as long as one of its bios. */
	if (!set || !rq->bio || !rq->bio->bi_blkg)
		return level;
	blkcg = rq->bio->bi_blkg->blkcg;
	group = group_of(blkcg);
	if (!group)
		return level;
	if (READ_ONCE(group->seen) != set) {
		for (with_weight = group; with_weight && !with_weight->weight; with_weight = blkcg ? group_of(blkcg) : NULL)
			blkcg = blkcg->css.parent ? css_to_blkcg(blkcg->css.parent) : NULL;
		/* Two processors may do this at the same time; both write the same values, or the next request computes them again. */
		WRITE_ONCE(group->levels, with_weight ? levels_of(with_weight->weight) : 0);
		WRITE_ONCE(group->seen, set);
	}
	moved = level - READ_ONCE(group->levels);
	return clamp(moved, 0, SIO_LEVELS - 1);
}

static struct blkcg_policy_data *group_alloc(gfp_t gfp)
{
	struct smartio_group *group = kzalloc(sizeof(*group), gfp);

	return group ? &group->common : NULL;
}

static void group_free(struct blkcg_policy_data *common)
{
	kfree(container_of(common, struct smartio_group, common));
}

static u64 weight_show(struct cgroup_subsys_state *css, struct cftype *file)
{
	const struct smartio_group *group = group_of(css_to_blkcg(css));

	return group ? READ_ONCE(group->weight) : 0;
}

static int weight_store(struct cgroup_subsys_state *css, struct cftype *file, u64 weight)
{
	struct smartio_group *group = group_of(css_to_blkcg(css));

	if (weight > CGROUP_WEIGHT_MAX)
		return -ERANGE;
	if (!group)
		return -ENODEV;
	WRITE_ONCE(group->weight, weight);
	/* A full barrier: a processor that sees the new number sees the weight. */
	if (!atomic_inc_return(&smartio_weights_set))
		atomic_inc(&smartio_weights_set);
	return 0;
}

static struct cftype smartio_group_files[] = {
	{
		.name = "smartio.weight",
		.flags = CFTYPE_NOT_ON_ROOT,
		.read_u64 = weight_show,
		.write_u64 = weight_store,
	},
	{},
};

static struct blkcg_policy smartio_weights = {
	.dfl_cftypes = smartio_group_files,
	.cpd_alloc_fn = group_alloc,
	.cpd_free_fn = group_free,
};

/* Registers the weights. If that fails, the scheduler works without them. */
static void weights_init(void)
{
	int error = blkcg_policy_register(&smartio_weights);

	has_weights = !error;
	if (error)
		pr_warn("smartio: control groups have no io.smartio.weight (error %d)\n", -error);
}

static void weights_exit(void)
{
	if (has_weights)
		blkcg_policy_unregister(&smartio_weights);
}
#else
static u8 weighted_level(const struct request *rq, u8 level)
{
	return level;
}

static void weights_init(void)
{
}

static void weights_exit(void)
{
}
#endif

#endif
