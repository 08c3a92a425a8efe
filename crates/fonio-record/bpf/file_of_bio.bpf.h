// Finds the file whose data a bio carries, from the bio's pages.

// include/linux/blk_types.h: the bit for operations that write.
enum { TO_DEVICE = 1 };
// include/uapi/linux/magic.h: file systems that keep metadata in files of their own, and the numbers of these files.
enum { F2FS = 0xf2f52010, F2FS_NODES = 1, F2FS_META = 2 };
enum { BTRFS = 0x9123683e, BTRFS_TREES = 1 };
enum { NILFS = 0x3434, NILFS_FIRST = 3, NILFS_LAST = 6 };
// The largest of these numbers.
enum { OWN_LAST = NILFS_LAST };
// include/linux/page-flags.h: the low bits of `mapping` of a page without a file.
enum { NOT_OF_FILE = 3 };

struct gendisk {
	int major;
	int first_minor;
} KERNEL;
struct block_device {
	struct gendisk *bd_disk;
	u32 bd_dev;
} KERNEL;
struct address_space {
	struct inode *host;
} KERNEL;
struct page {
	unsigned long compound_head;
	struct address_space *mapping;
} KERNEL;
// Since Linux 7.0.
struct page___with_info {
	unsigned long compound_info;
} KERNEL;
struct bio_vec {
	struct page *bv_page;
	u32 bv_offset;
} KERNEL;
struct bvec_iter {
	u64 bi_sector;
	u32 bi_size;
} KERNEL;
struct bio {
	struct block_device *bi_bdev;
	u32 bi_opf;
	struct bvec_iter bi_iter;
	void *bi_private;
	u16 bi_vcnt;
	struct bio_vec *bi_io_vec;
} KERNEL;

INLINE u32 partition_of(struct bio *bio)
{
	struct block_device *device = bio->bi_bdev;
	return device ? device->bd_dev : 0;
}

// Returns the first page of a page's folio, which has the file.
//
// The lowest bit of a field marks a later page. The rest is the address of the first page. Since Linux 7.0, it is a mask that
// yields that address from the page's own. A folio is smaller than 4 GiB, and no address has such upper bits.
INLINE struct page *first_page(u64 page)
{
	u64 info = 0;
	if (EXISTS(struct page, compound_head))
		READ(info, ((struct page *)page)->compound_head);
	else if (EXISTS(struct page___with_info, compound_info))
		READ(info, ((struct page___with_info *)page)->compound_info);
	if (!(info & 1))
		return (struct page *)page;
	return (struct page *)(info >> 32 == 0xffffffff ? page & info : info - 1);
}

// Returns the file of a page in the middle of a bio, or 0. The log of nilfs2 begins and may end with pages of the device, which
// are metadata, and has data of files between them.
INLINE struct inode *inode_of(struct bio *bio)
{
	// A value read with a call is a number, so the kernel allows calculation with it.
	u64 vectors = 0, number = 0;
	if (!bio->bi_vcnt || READ(vectors, bio->bi_io_vec) || !vectors)
		return 0;
	vectors += bio->bi_vcnt / 2 * (OFFSET(struct bio_vec, bv_offset) + sizeof(u32));
	if (READ(number, ((struct bio_vec *)vectors)->bv_page) || !number)
		return 0;
	struct page *page = first_page(number);
	struct address_space *mapping = 0;
	struct inode *inode = 0;
	if (READ(mapping, page->mapping) || !mapping || (u64)mapping & NOT_OF_FILE || READ(inode, mapping->host))
		return 0;
	return inode;
}

// Whether a file belongs to the file system itself.
INLINE int is_own_file(struct inode *inode, u64 number)
{
	struct super_block *fs = 0;
	unsigned long magic = 0;
	if (number > OWN_LAST || READ(fs, inode->i_sb) || READ(magic, fs->s_magic))
		return 0;
	return (magic == F2FS && (number == F2FS_NODES || number == F2FS_META)) ||
	       (magic == BTRFS && number == BTRFS_TREES) ||
	       (magic == NILFS && number >= NILFS_FIRST && number <= NILFS_LAST);
}
