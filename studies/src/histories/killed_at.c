// Runs a program, and kills it at its call number N that writes: `killed_at N PROGRAM ARGUMENT...`
//
// A seccomp filter reports only these calls, so all other calls run at full speed; strace would stop the program
// twice at every call, and a simulated processor needs long for each stop. The calls of all threads of the program
// count; the calls of programs that it starts do not. Returns when the program and all programs that it started
// have ended, with the exit code of a shell: 137 if the program was killed.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const int WRITES[] = {
    SYS_write,   SYS_pwrite64,  SYS_writev,    SYS_rename, SYS_renameat, SYS_renameat2, SYS_unlink,
    SYS_unlinkat, SYS_fsync,    SYS_fdatasync, SYS_ftruncate, SYS_mkdir, SYS_mkdirat,   SYS_link,
    SYS_linkat,  SYS_fchown,    SYS_fchmod,    SYS_mount,  SYS_umount2,
};
enum { COUNT = sizeof WRITES / sizeof *WRITES };

static void fail(const char *what) {
    fprintf(stderr, "killed_at: cannot %s: %s\n", what, strerror(errno));
    _exit(125);
}

// Returns a descriptor on which the kernel reports the calls of this process from now on.
static int report_writes(void) {
    struct sock_filter filter[COUNT + 3];
    filter[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int at = 0; at < COUNT; at++) {
        filter[at + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, WRITES[at], COUNT - at, 0);
    }
    filter[COUNT + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    filter[COUNT + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
    struct sock_fprog program = {COUNT + 3, filter};
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
}

static int is_thread_of(pid_t program, pid_t thread) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d", program, thread);
    return access(path, F_OK) == 0;
}

int main(int count, char **words) {
    long left = count > 2 ? atol(words[1]) : 0;
    if (left < 1) {
        fprintf(stderr, "usage: killed_at N PROGRAM ARGUMENT...\n");
        return 125;
    }
    int *listener = mmap(NULL, sizeof *listener, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (listener == MAP_FAILED) fail("map memory");
    *listener = -1;
    // The descriptors are shared until the program begins, so that this process also has the listener.
    pid_t program = syscall(SYS_clone, CLONE_FILES | SIGCHLD, NULL, NULL, NULL, NULL);
    if (program < 0) fail("fork");
    if (program == 0) {
        *listener = report_writes();
        kill(getpid(), SIGSTOP);
        execvp(words[2], words + 2);
        _exit(127);
    }
    int status;
    if (waitpid(program, &status, WUNTRACED) != program || *listener < 0) fail("filter calls");
    kill(program, SIGCONT);
    struct pollfd wait = {*listener, POLLIN, 0};
    while (poll(&wait, 1, -1) > 0 && (wait.revents & POLLIN)) {
        struct seccomp_notif call = {0};
        // The call is gone if its thread was killed meanwhile.
        if (ioctl(*listener, SECCOMP_IOCTL_NOTIF_RECV, &call)) continue;
        if (left > 0 && is_thread_of(program, call.pid) && --left == 0) {
            kill(program, SIGKILL);
            continue;
        }
        struct seccomp_notif_resp go_on = {.id = call.id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
        ioctl(*listener, SECCOMP_IOCTL_NOTIF_SEND, &go_on);
    }
    if (waitpid(program, &status, 0) != program) fail("wait");
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
