/* Syncs files in a signal handler, and ends with 9 if the handler allocates or frees memory.
   Arguments: number of syncs, files. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void __libc_free(void *);

static volatile sig_atomic_t handles;
static int files[16], number, alarms;

static void check(void) {
    if (handles) _exit(9);
}

void *malloc(size_t bytes) { check(); return __libc_malloc(bytes); }
void *calloc(size_t items, size_t bytes) { check(); return __libc_calloc(items, bytes); }
void *realloc(void *old, size_t bytes) { check(); return __libc_realloc(old, bytes); }
void free(void *old) { check(); __libc_free(old); }

static void handle(int signal) {
    (void)signal;
    handles = 1;
    for (int i = 0; i < number; i++)
        if (fsync(files[i]) != 0) _exit(3);
    handles = 0;
}

/* Syncs at most 300 times, because a sync may take longer than the time to the next alarm. */
static void handle_alarm(int signal) {
    if (++alarms <= 300) handle(signal);
}

int main(int count, char **arguments) {
    for (int i = 2; i < count; i++)
        if ((files[number++] = open(arguments[i], O_RDWR)) < 0) return 2;
    signal(SIGUSR1, handle);
    for (int i = 0; i < atoi(arguments[1]); i++) raise(SIGUSR1);
    /* The handler interrupts memory functions and syncs, including its own library's. */
    signal(SIGALRM, handle_alarm);
    struct itimerval often = {{0, 500}, {0, 500}};
    setitimer(ITIMER_REAL, &often, NULL);
    for (int i = 0; i < 20000; i++) {
        free(malloc(i));
        if (i % 100 == 0 && fdatasync(files[i / 100 % number]) != 0) return 4;
    }
    struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &never, NULL);
    return 0;
}
