// Reports the files of writes on some file systems, for recordings. Their trace events do not show whose data a bio carries, so the
// pages of the bio do.

#include "common.bpf.h"
#include "file_of_bio.bpf.h"

// The following layouts are repeated in src/probes/bios/layout.rs.
enum { RING_BYTES = 1048576 };
enum { OF_METADATA = 1 };

struct noted {
	u64 queued_ns;
	u64 sector;
	u64 inode;
	u32 device;
	u32 fs;
	u32 tid;
	u32 generation;
	u32 flags;
	u32 zero;
};

// The devices of the file systems.
struct {
	UINT(type, MAP_HASH);
	UINT(max_entries, 64);
	TYPE(key, u32);
	TYPE(value, u32);
} followed SEC(".maps");

struct {
	UINT(type, MAP_ARRAY);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, u64);
} lost SEC(".maps");

struct {
	UINT(type, MAP_RINGBUF);
	UINT(max_entries, RING_BYTES);
} bios SEC(".maps");

SEC("tp_btf/block_bio_queue")
int queued(u64 *ctx)
{
	struct bio *bio = (void *)ctx[0];
	u64 now = now_ns(), inode = 0;
	u32 fs = 0, zero = 0;

	if (!(bio->bi_opf & TO_DEVICE) || !bio->bi_iter.bi_size)
		return 0;
	struct inode *file = inode_of(bio);
	if (!read_identity(file, &inode, &fs) || !map_lookup(&followed, &fs))
		return 0;
	struct noted *noted = ring_reserve(&bios, sizeof(*noted), 0);
	if (!noted) {
		u64 *count = map_lookup(&lost, &zero);
		if (count)
			__sync_fetch_and_add(count, 1);
		return 0;
	}
	noted->queued_ns = now;
	noted->sector = bio->bi_iter.bi_sector;
	noted->inode = inode;
	noted->device = partition_of(bio);
	noted->fs = fs;
	noted->tid = (u32)current_ids();
	noted->generation = 0;
	READ(noted->generation, file->i_generation);
	noted->flags = is_own_file(file, inode) ? OF_METADATA : 0;
	noted->zero = 0;
	ring_submit(noted, RINGBUF_NO_WAKEUP);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
