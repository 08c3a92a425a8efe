/*
 * Attaches a BPF program that returns at once to each named tracepoint, and waits until a signal ends it.
 *
 *     nothing TRACEPOINT...
 *
 * `cargo xtask bench recorders` measures with it what any recorder at these tracepoints costs at least.
 */

#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int bpf(int command, union bpf_attr *attributes)
{
    return syscall(SYS_bpf, command, attributes, sizeof *attributes);
}

int main(int count, char **words)
{
    const struct bpf_insn instructions[] = {
        { .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0 },
        { .code = BPF_JMP | BPF_EXIT },
    };
    for (int at = 1; at < count; at++) {
        /* One program for each tracepoint, as a recorder has, so that the kernel counts them separately. */
        union bpf_attr program;
        memset(&program, 0, sizeof program);
        program.prog_type = BPF_PROG_TYPE_RAW_TRACEPOINT;
        program.insns = (unsigned long)instructions;
        program.insn_cnt = sizeof instructions / sizeof *instructions;
        program.license = (unsigned long)"GPL";
        int loaded = bpf(BPF_PROG_LOAD, &program);
        union bpf_attr link;
        memset(&link, 0, sizeof link);
        link.raw_tracepoint.name = (unsigned long)words[at];
        link.raw_tracepoint.prog_fd = loaded;
        if (loaded < 0 || bpf(BPF_RAW_TRACEPOINT_OPEN, &link) < 0) {
            fprintf(stderr, "cannot attach to %s: %s\n", words[at], strerror(errno));
            return 1;
        }
    }
    pause();
    return 0;
}
