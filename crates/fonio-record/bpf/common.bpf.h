// Shared by the programs: the kernel types that they read, and how they read a file.
//
// The programs declare only the kernel fields that they read. Loading a program adapts the offsets (CO-RE),
// so one object serves all kernels and processors. `cargo xtask assets` compiles them.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef long long s64;

#define SEC(name) __attribute__((section(name), used))
#define KERNEL __attribute__((preserve_access_index))
#define INLINE static __attribute__((always_inline, unused))
#define UINT(name, value) int (*name)[value]
#define TYPE(name, value) value *name

// include/uapi/linux/bpf.h
enum { MAP_HASH = 1, MAP_ARRAY = 2, MAP_LRU_HASH = 9, MAP_RINGBUF = 27 };
enum { UPDATE_ANY = 0, UPDATE_NOEXIST = 1, UPDATE_EXIST = 2 };
enum { RINGBUF_NO_WAKEUP = 1 };
static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static long (*const map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*const map_delete)(void *map, const void *key) = (void *)3;
static u64 (*const now_ns)(void) = (void *)5;
static u32 (*const processor)(void) = (void *)8;
static u64 (*const current_ids)(void) = (void *)14;
static long (*const current_comm)(void *to, u32 size) = (void *)16;
static struct task_struct *(*const current_task)(void) = (void *)35;
static long (*const own_stack)(void *ctx, void *to, u32 size, u64 flags) = (void *)67;
static long (*const read_user)(void *to, u32 size, const void *from) = (void *)112;
static long (*const read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static long (*const read_user_text)(void *to, u32 size, const void *from) = (void *)114;
static void *(*const ring_reserve)(void *ring, u64 size, u64 flags) = (void *)131;
static void (*const ring_submit)(void *record, u64 flags) = (void *)132;
static void (*const ring_discard)(void *record, u64 flags) = (void *)133;
static long (*const task_stack)(void *task, void *to, u32 size, u64 flags) = (void *)141;
static struct task_struct *(*const typed_current_task)(void) = (void *)158;
static u64 (*const attach_cookie)(void *ctx) = (void *)174;
static void *(*const task_registers)(void *task) = (void *)175;

// The following types are declared as in the kernel, with only the fields that are read. A suffix that begins
// with `___` is not part of the type's name.
struct super_block {
	u32 s_dev;
	unsigned long s_magic;
} KERNEL;
struct inode {
	u16 i_mode;
	struct super_block *i_sb;
	unsigned long i_ino;
	s64 i_size;
	u32 i_generation;
} KERNEL;
struct qstr {
	u64 hash_len;
	const unsigned char *name;
} KERNEL;
struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
	struct inode *d_inode;
} KERNEL;
struct path {
	struct dentry *dentry;
} KERNEL;
struct file {
	struct path f_path;
	struct inode *f_inode;
	s64 f_pos;
	u32 f_flags;
	u32 f_mode;
} KERNEL;
struct fdtable {
	u32 max_fds;
	struct file **fd;
} KERNEL;
struct files_struct {
	struct fdtable *fdt;
} KERNEL;
// `atomic_t`, an unnamed type that CO-RE cannot adapt.
struct atomic {
	s32 counter;
};
struct signal_struct {
	struct atomic live;
} KERNEL;
struct raw_spinlock {
	u32 raw_lock;
} KERNEL;
struct sched_entity {
	u64 sum_exec_runtime;
	u8 sched_delayed;
} KERNEL;
struct thread_info {
	u32 status; // x86
} KERNEL;
struct mm_struct {
	void *ioctx_table;
} KERNEL;
// A request of io_uring, and the worker (`iou-wrk`) that carries it out.
struct io_wq_work {
	s32 cancel_seq;
} KERNEL;
struct io_kiocb {
	struct file *file;
	struct io_wq_work work;
} KERNEL;
struct io_worker {
	struct io_wq_work *cur_work;
} KERNEL;
struct task_struct {
	struct thread_info thread_info;
	u32 __state;
	u32 flags;
	int on_cpu;
	int on_rq;
	struct sched_entity se;
	struct raw_spinlock pi_lock;
	u32 pid;
	u32 tgid;
	char comm[16];
	unsigned int in_iowait : 1;
	struct task_struct *real_parent;
	u64 start_boottime;
	u64 self_exec_id;
	struct files_struct *files;
	struct signal_struct *signal;
	struct mm_struct *mm;
	void *io_uring;
	void *worker_private;
} KERNEL;
struct pt_regs___x86 {
	unsigned long r10;
	unsigned long dx;
	unsigned long si;
	unsigned long di;
	unsigned long orig_ax;
	unsigned long sp;
} KERNEL;
struct pt_regs___arm64 {
	u64 regs[31];
	u64 sp;
	u64 orig_x0;
	s32 syscallno;
} KERNEL;

// arch/x86/include/asm/thread_info.h: a 32-bit system call, which has other numbers.
enum { TS_COMPAT = 2 };

enum { COMM_MAX = 16 };

// The kinds of `__builtin_preserve_field_info` (llvm/lib/Target/BPF/BPFCORE.h).
#define FIELD_OFFSET 0
#define FIELD_BYTES 1
#define FIELD_EXISTS 2
#define FIELD_SHIFT_LEFT 4
#define FIELD_SHIFT_RIGHT 5
#define OFFSET(type, field) __builtin_preserve_field_info(((type *)0)->field, FIELD_OFFSET)
#define EXISTS(type, field) __builtin_preserve_field_info(((type *)0)->field, FIELD_EXISTS)
#define READ(to, from) read_kernel(&(to), sizeof(to), __builtin_preserve_access_index(&(from)))

// Returns the open file of a descriptor, or 0.
INLINE struct file *file_of(struct task_struct *task, u64 descriptor)
{
	struct files_struct *files = 0;
	struct fdtable *table = 0;
	struct file **open = 0;
	struct file *file = 0;
	u32 size = 0, at = (u32)descriptor;

	if (READ(files, task->files) || !files || READ(table, files->fdt) || READ(size, table->max_fds) || at >= size)
		return 0;
	if (READ(open, table->fd) || read_kernel(&file, sizeof(file), &open[at]))
		return 0;
	return file;
}

// Reads the inode of a file and the device of its file system. Returns 0 if they are not readable.
INLINE int read_identity(struct inode *inode, u64 *number, u32 *device)
{
	struct super_block *fs = 0;
	unsigned long ino = 0;

	if (!inode || READ(fs, inode->i_sb) || READ(ino, inode->i_ino) || READ(*device, fs->s_dev))
		return 0;
	*number = ino;
	return 1;
}
