// A clock and a number of cores that a test sets, for a process that has this library in LD_PRELOAD. Time stands still, but for what the test adds: no
// rule of time depends on how fast the machine is or on what else it does.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

// Nanoseconds since some time.
static _Atomic long long now = 1000 * SECOND;
// What each reading by the thread adds.
static _Thread_local long long tick;

void set_clock_tick(long long nanoseconds) { tick = nanoseconds; }
void set_clock_advance(long long nanoseconds) { now += nanoseconds; }

int clock_gettime(clockid_t clock, struct timespec *time) {
  if (clock != CLOCK_MONOTONIC) return (int)syscall(SYS_clock_gettime, clock, time);
  const long long read = atomic_fetch_add(&now, tick);
  *time = (struct timespec){.tv_sec = read / SECOND, .tv_nsec = read % SECOND};
  return 0;
}

// Threads beside the first one sleep until the test has added as much. The first one is the test's, which would wait for itself: it sleeps for as long as it
// says.
int clock_nanosleep(clockid_t clock, int flags, const struct timespec *wanted, struct timespec *left) {
  if (gettid() == getpid()) return syscall(SYS_clock_nanosleep, clock, flags, wanted, left) ? errno : 0;
  const long long end = wanted->tv_sec * SECOND + wanted->tv_nsec + (flags & TIMER_ABSTIME ? 0 : now);
  while (now < end) usleep(1000);
  return 0;
}

// SET_CLOCK_CORES is the number of cores, if it is set.
long sysconf(int name) {
  static long (*of_the_system)(int);
  const char *cores = getenv("SET_CLOCK_CORES");
  if (name == _SC_NPROCESSORS_ONLN && cores) return atol(cores);
  if (!of_the_system) of_the_system = (long (*)(int))dlsym(RTLD_NEXT, "sysconf");
  return of_the_system(name);
}
