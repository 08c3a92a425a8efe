// A FUSE server that answers without doing anything: `nothing device DIR` or `nothing uring DIR`
//
// It mounts an empty directory at DIR and serves it until DIR is unmounted or SIGTERM or SIGINT arrives. The files of
// the directory are numbers in memory, empty and with fixed attributes. Their names are decimal numbers below 10,000.
// The only system calls of a request are those that receive it and send the answer. So the time of an operation is the
// time of its round trips through the kernel, which no server over the same transport can avoid.
//
// Requests come through /dev/fuse to one thread, or through io_uring to two threads on each processor. The features,
// the time-outs and the threads over io_uring are those of `fonio mount`, so the kernel sends the same requests.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

// The headers of Debian 12 do not have these parts of linux/fuse.h of Linux 6.14.
#define CREATE_SUPP_GROUP (1ull << 34)
#define OVER_IO_URING (1ull << 41)
enum { REGISTER = 1, COMMIT_AND_FETCH = 2 };
struct command {
    uint64_t flags, commit_id;
    uint16_t queue, padding[3];
};
struct headers {
    char header[128], record[128];
    uint64_t flags, commit_id;
    uint32_t payload_bytes, padding;
    uint64_t reserved;
};

static const uint64_t FEATURES = FUSE_ASYNC_READ | FUSE_ATOMIC_O_TRUNC | FUSE_BIG_WRITES | FUSE_DONT_MASK |
    FUSE_AUTO_INVAL_DATA | FUSE_DO_READDIRPLUS | FUSE_READDIRPLUS_AUTO | FUSE_PARALLEL_DIROPS | FUSE_POSIX_ACL |
    FUSE_MAX_PAGES | FUSE_HANDLE_KILLPRIV_V2 | FUSE_SETXATTR_EXT | FUSE_INIT_EXT | CREATE_SUPP_GROUP;
static const char PARAMETER[] = "/sys/module/fuse/parameters/enable_uring";
enum { FILES = 10000, PAGE = 4096, IO_BYTES = 1 << 20, SECONDS_VALID = 1, THREADS_PER_QUEUE = 2, PAUSE_US = 2000 };

static const char *dir;
static int device, over_ring, is_mounted;
// The kernel's parameter that allows io_uring to new connections: its open file, locked, and its value before.
static int parameter = -1;
static char was_allowed;
// The node IDs of the files, and 0 for files that do not exist. An ID is never used again, because the kernel may
// still know the file that had it.
static _Atomic uint64_t nodes[FILES];
static _Atomic uint64_t last_node = FUSE_ROOT_ID;
// Whether files were created or removed since the directory was last opened.
static atomic_int is_changed = 1;

static void restore_parameter(void) {
    if (parameter >= 0 && pwrite(parameter, &was_allowed, 1, 0) != 1) perror("nothing: cannot restore enable_uring");
    if (parameter >= 0) close(parameter);
    parameter = -1;
}

static void end(int code) {
    restore_parameter();
    if (is_mounted) umount2(dir, MNT_DETACH);
    _exit(code);
}

static void fail(const char *what) {
    fprintf(stderr, "nothing: cannot %s: %s\n", what, strerror(errno));
    end(1);
}

static int is_end(int error) {
    return error == ENODEV || error == ENOTCONN || error == ECONNABORTED || error == ECANCELED;
}

// Returns the number that a name stands for, or -1 if it is not the name of a file that can exist.
static int number_of(const char *name) {
    int number = 0;
    if (!*name || (*name == '0' && name[1])) return -1;
    for (; *name; name++) {
        if (*name < '0' || *name > '9') return -1;
        number = number * 10 + (*name - '0');
        if (number >= FILES) return -1;
    }
    return number;
}

static struct fuse_attr attributes_of(uint64_t node) {
    int is_root = node == FUSE_ROOT_ID;
    return (struct fuse_attr){
        .ino = node,
        .mode = is_root ? S_IFDIR | 0755 : S_IFREG | 0644,
        .nlink = is_root ? 2 : 1,
        .blksize = PAGE,
    };
}

static int write_entry(struct fuse_entry_out *out, uint64_t node) {
    struct fuse_attr attributes = attributes_of(node);
    *out = (struct fuse_entry_out){node, 0, SECONDS_VALID, SECONDS_VALID, 0, 0, attributes};
    return sizeof *out;
}

static int write_opened(struct fuse_open_out *out, uint32_t flags) {
    *out = (struct fuse_open_out){.open_flags = flags};
    return sizeof *out;
}

// Lists the files from the number `from` in at most `room` bytes.
static int list(char *out, uint64_t from, size_t room, int with_attributes) {
    size_t before = with_attributes ? sizeof(struct fuse_entry_out) : 0, used = 0;
    for (uint64_t number = from; number < FILES; number++) {
        uint64_t node = nodes[number];
        if (!node) continue;
        char name[8] = {0};
        struct fuse_dirent entry = {node, number + 1, snprintf(name, sizeof name, "%d", (int)number), S_IFREG >> 12};
        size_t length = before + FUSE_NAME_OFFSET + sizeof name;
        if (used + length > room) break;
        if (with_attributes) write_entry((struct fuse_entry_out *)(out + used), node);
        memcpy(out + used + before, &entry, FUSE_NAME_OFFSET);
        memcpy(out + used + before + FUSE_NAME_OFFSET, name, sizeof name);
        used += length;
    }
    return used;
}

// Writes the answer to a request, without the header. Returns its length, or an error number below 0. The answer may
// overwrite the name.
static int answer(const struct fuse_in_header *header, const void *record, const char *name, void *out) {
    int number;
    uint64_t node;
    switch (header->opcode) {
    case FUSE_LOOKUP:
        number = number_of(name);
        node = number < 0 ? 0 : nodes[number];
        return node ? write_entry(out, node) : -ENOENT;
    case FUSE_CREATE:
        number = number_of(name);
        if (number < 0) return -EINVAL;
        node = nodes[number] = atomic_fetch_add(&last_node, 1) + 1;
        is_changed = 1;
        write_opened((void *)((struct fuse_entry_out *)out + 1), 0);
        return write_entry(out, node) + sizeof(struct fuse_open_out);
    case FUSE_UNLINK:
        number = number_of(name);
        is_changed = 1;
        return number >= 0 && atomic_exchange(&nodes[number], 0) ? 0 : -ENOENT;
    case FUSE_GETATTR: {
        struct fuse_attr attributes = attributes_of(header->nodeid);
        *(struct fuse_attr_out *)out = (struct fuse_attr_out){SECONDS_VALID, 0, 0, attributes};
        return sizeof(struct fuse_attr_out);
    }
    case FUSE_OPEN: return write_opened(out, 0);
    case FUSE_OPENDIR:
        // The kernel may keep the names that it knows while no file is created or removed.
        return write_opened(out, FOPEN_CACHE_DIR | (atomic_exchange(&is_changed, 0) ? 0 : FOPEN_KEEP_CACHE));
    case FUSE_READDIR:
    case FUSE_READDIRPLUS: {
        const struct fuse_read_in *read = record;
        size_t room = read->size < IO_BYTES ? read->size : IO_BYTES;
        return list(out, read->offset, room, header->opcode == FUSE_READDIRPLUS);
    }
    case FUSE_RELEASE:
    case FUSE_RELEASEDIR: return 0;
    case FUSE_STATFS:
        *(struct fuse_statfs_out *)out = (struct fuse_statfs_out){.st = {.bsize = PAGE, .frsize = PAGE, .namelen = 255}};
        return sizeof(struct fuse_statfs_out);
    default: return -ENOSYS;
    }
}

static struct fuse_out_header header_of(int answer, uint64_t unique) {
    int length = answer < 0 ? 0 : answer;
    return (struct fuse_out_header){sizeof(struct fuse_out_header) + length, answer < 0 ? answer : 0, unique};
}

// Answers requests from /dev/fuse. If io_uring is used, these are the requests that arrive before it is ready, and all
// messages about forgotten files, which get no answer. Forgotten files that are reported during the pause need no
// wake-up.
static void *serve_device(void *nothing) {
    static _Alignas(8) char in[IO_BYTES + PAGE], out[IO_BYTES + PAGE];
    const struct fuse_in_header *header = (const void *)in;
    const char *record = in + sizeof *header;
    for (;;) {
        if (read(device, in, sizeof in) < 0) {
            if (errno == ENOENT || errno == EINTR || errno == EAGAIN) continue;
            if (is_end(errno)) end(0);
            fail("read a request");
        }
        if (header->opcode == FUSE_FORGET || header->opcode == FUSE_BATCH_FORGET) {
            if (over_ring) usleep(PAUSE_US);
            continue;
        }
        const char *name = header->opcode == FUSE_CREATE ? record + sizeof(struct fuse_create_in) : record;
        struct fuse_out_header *answered = (void *)out;
        *answered = header_of(answer(header, record, name, answered + 1), header->unique);
        if (write(device, out, answered->len) < 0 && errno != ENOENT && !is_end(errno)) fail("send an answer");
    }
    return nothing;
}

// An io_uring ring with room for one command.
struct ring {
    int file;
    unsigned *submitted, *taken, *completed, *seen, mask;
    struct io_uring_sqe *command;
    struct io_uring_cqe *outcomes;
};

static struct ring make_ring(void) {
    struct io_uring_params made = {
        .flags = IORING_SETUP_SQE128 | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN};
    int file = syscall(SYS_io_uring_setup, 1, &made);
    if (file < 0) fail("make a ring");
    size_t bytes = made.cq_off.cqes + made.cq_entries * sizeof(struct io_uring_cqe);
    size_t other = made.sq_off.array + made.sq_entries * sizeof(unsigned);
    int access = PROT_READ | PROT_WRITE, kind = MAP_SHARED | MAP_POPULATE;
    char *shared = mmap(NULL, bytes > other ? bytes : other, access, kind, file, IORING_OFF_SQ_RING);
    void *command = mmap(NULL, 2 * sizeof(struct io_uring_sqe), access, kind, file, IORING_OFF_SQES);
    if (shared == MAP_FAILED || command == MAP_FAILED) fail("map a ring");
    return (struct ring){
        file,
        (unsigned *)(shared + made.sq_off.tail),
        (unsigned *)(shared + made.sq_off.head),
        (unsigned *)(shared + made.cq_off.tail),
        (unsigned *)(shared + made.cq_off.head),
        *(unsigned *)(shared + made.cq_off.ring_mask),
        command,
        (struct io_uring_cqe *)(shared + made.cq_off.cqes),
    };
}

// Submits the ring's command, waits until it is complete, and returns its outcome.
static int complete(struct ring *ring) {
    __atomic_store_n(ring->submitted, *ring->submitted + 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(ring->completed, __ATOMIC_ACQUIRE) == *ring->seen) {
        unsigned waiting = *ring->submitted - __atomic_load_n(ring->taken, __ATOMIC_ACQUIRE);
        long entered = syscall(SYS_io_uring_enter, ring->file, waiting, 1, IORING_ENTER_GETEVENTS, NULL, 0);
        if (entered < 0 && errno != EINTR) return -errno;
    }
    int outcome = ring->outcomes[*ring->seen & ring->mask].res;
    __atomic_store_n(ring->seen, *ring->seen + 1, __ATOMIC_RELEASE);
    return outcome;
}

// Answers the requests of the processor with this number over io_uring.
static void *serve_queue(void *number) {
    uint16_t queue = (uintptr_t)number;
    cpu_set_t processors;
    CPU_ZERO(&processors);
    CPU_SET(queue, &processors);
    sched_setaffinity(0, sizeof processors, &processors);
    // As in `fonio mount`: with this policy, Linux wakes a caller on its own processor and does not move it.
    sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0});
    struct ring ring = make_ring();
    struct headers *headers = calloc(1, sizeof *headers);
    char *payload = calloc(1, IO_BYTES + PAGE);
    if (!headers || !payload) fail("allocate memory");
    struct iovec places[2] = {{headers, sizeof *headers}, {payload, IO_BYTES + PAGE}};
    for (int kind = REGISTER;; kind = COMMIT_AND_FETCH) {
        struct command command = {.commit_id = headers->commit_id, .queue = queue};
        memset(ring.command, 0, 2 * sizeof *ring.command);
        ring.command->opcode = IORING_OP_URING_CMD;
        ring.command->fd = device;
        ring.command->cmd_op = kind;
        ring.command->addr = (uintptr_t)places;
        ring.command->len = kind == REGISTER ? 2 : 0;
        memcpy(ring.command->cmd, &command, sizeof command);
        int outcome = complete(&ring);
        if (is_end(-outcome)) return NULL;
        errno = -outcome;
        if (outcome < 0) fail("receive a request over io_uring");
        struct fuse_in_header header;
        memcpy(&header, headers->header, sizeof header);
        int length = answer(&header, headers->record, payload, payload);
        struct fuse_out_header answered = header_of(length, header.unique);
        memcpy(headers->header, &answered, sizeof answered);
        headers->payload_bytes = length < 0 ? 0 : length;
    }
}

// The kernel has a queue for each processor that can exist.
static unsigned count_queues(void) {
    unsigned last = 0;
    FILE *file = fopen("/sys/devices/system/cpu/possible", "r");
    if (!file) fail("read the number of processors");
    while (fscanf(file, "%u%*c", &last) == 1) {
    }
    fclose(file);
    return last + 1;
}

static void allow_rings(void) {
    parameter = open(PARAMETER, O_RDWR | O_CLOEXEC);
    if (parameter < 0 || flock(parameter, LOCK_EX) || pread(parameter, &was_allowed, 1, 0) != 1) {
        fail("read enable_uring");
    }
    if (pwrite(parameter, "Y", 1, 0) != 1) fail("allow io_uring");
}

// Receives the kernel's first request, and agrees to the features.
static void shake_hands(void) {
    static _Alignas(8) char in[IO_BYTES];
    if (read(device, in, sizeof in) < 0) fail("read the first request");
    const struct fuse_in_header *header = (const void *)in;
    const struct fuse_init_in *offer = (const void *)(header + 1);
    uint64_t offered = offer->flags | (offer->flags & FUSE_INIT_EXT ? (uint64_t)offer->flags2 << 32 : 0);
    uint64_t agreed = offered & (FEATURES | (over_ring ? OVER_IO_URING : 0));
    errno = ENOSYS;
    if (over_ring && !(agreed & OVER_IO_URING)) fail("agree on io_uring");
    struct {
        struct fuse_out_header header;
        struct fuse_init_out init;
    } out = {header_of(sizeof out.init, header->unique), {
        .major = FUSE_KERNEL_VERSION,
        .minor = FUSE_KERNEL_MINOR_VERSION,
        .max_readahead = offer->max_readahead,
        .flags = agreed,
        .flags2 = agreed >> 32,
        .max_background = 64,
        .congestion_threshold = 48,
        .max_write = IO_BYTES,
        .max_pages = IO_BYTES / PAGE,
        .time_gran = 1,
    }};
    if (write(device, &out, sizeof out) != sizeof out) fail("answer the first request");
}

static void start(void *(*work)(void *), uintptr_t argument) {
    pthread_t thread;
    errno = pthread_create(&thread, NULL, work, (void *)argument);
    if (errno) fail("start a thread");
}

int main(int count, char **words) {
    if (count != 3 || (strcmp(words[1], "device") && strcmp(words[1], "uring"))) {
        fprintf(stderr, "usage: nothing device|uring DIR\n");
        return 2;
    }
    over_ring = !strcmp(words[1], "uring");
    dir = words[2];
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (device < 0) fail("open /dev/fuse");
    if (over_ring) allow_rings();
    char options[128];
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0,default_permissions,allow_other", device);
    if (mount("nothing", dir, "fuse.nothing", MS_NOSUID | MS_NODEV, options)) fail("mount");
    is_mounted = 1;
    shake_hands();
    restore_parameter();
    start(serve_device, 0);
    for (unsigned queue = 0; over_ring && queue < count_queues(); queue++) {
        for (int thread = 0; thread < THREADS_PER_QUEUE; thread++) start(serve_queue, queue);
    }
    int signal;
    sigwait(&signals, &signal);
    end(0);
}
