/* Moves the wall clock of a process by the seconds in a file, while the monotonic clocks stay.

   LONGHAUL_TEST_DIALS names a file of doubles that is mapped; the third is the offset. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile double *dials;
static int (*real_clock)(clockid_t, struct timespec *);
static int (*real_day)(struct timeval *, void *);

__attribute__((constructor)) static void open_dials(void) {
    real_clock = dlsym(RTLD_NEXT, "clock_gettime");
    real_day = dlsym(RTLD_NEXT, "gettimeofday");
    const char *path = getenv("LONGHAUL_TEST_DIALS");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *mapped = mmap(NULL, 3 * sizeof(double), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED) dials = mapped;
}

static time_t offset(void) { return dials ? (time_t)dials[2] : 0; }

int clock_gettime(clockid_t clock, struct timespec *now) {
    int found = real_clock(clock, now);
    if (!found && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += offset();
    return found;
}

int gettimeofday(struct timeval *now, void *zone) {
    int found = real_day(now, zone);
    if (!found) now->tv_sec += offset();
    return found;
}

time_t time(time_t *where) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (where) *where = now.tv_sec;
    return now.tv_sec;
}
