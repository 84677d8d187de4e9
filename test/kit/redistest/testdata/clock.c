// Shifts the time of day of the program that it is loaded into (LD_PRELOAD) by the microseconds
// that the file of the variable TEST_CLOCK has, as eight bytes. They may change while it runs.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t none;
static volatile int64_t *offset = &none; // in microseconds

__attribute__((constructor)) static void open_offset(void) {
	const char *path = getenv("TEST_CLOCK");
	int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *at = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
	if (at == MAP_FAILED)
		abort();
	offset = at;
	close(file);
}

int clock_gettime(clockid_t clock, struct timespec *t) {
	int failed = syscall(SYS_clock_gettime, clock, t);
	if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
		int64_t us = t->tv_sec * INT64_C(1000000) + t->tv_nsec / 1000 + *offset;
		t->tv_nsec = us % 1000000 * 1000 + t->tv_nsec % 1000;
		t->tv_sec = us / 1000000;
	}
	return failed;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
	struct timespec now;
	(void)zone;
	int failed = clock_gettime(CLOCK_REALTIME, &now);
	t->tv_sec = now.tv_sec;
	t->tv_usec = now.tv_nsec / 1000;
	return failed;
}

time_t time(time_t *t) {
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	if (t)
		*t = now.tv_sec;
	return now.tv_sec;
}
