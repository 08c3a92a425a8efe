import os, random, sys, time
random.seed(int(sys.argv[2]))
while True:
    for end in ('', '-wal', '-journal'):
        try:
            fd = os.open(sys.argv[1] + end, os.O_RDONLY)
        except FileNotFoundError:
            continue
        if random.random() < 0.5:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)
    time.sleep(random.random() * 0.05)
