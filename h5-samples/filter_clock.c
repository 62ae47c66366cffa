/* A clock around the filter() that HDF5 calls, for measurements: how long this process has been in it, and how many chunks it has compressed.
 *
 *     cc -O2 -shared -fPIC filter_clock.c -o filter_clock.so
 *
 * mpi.py registers filter_clock_call in place of a filter's own function, for one filter after another. HDF5 calls filters from one thread of a
 * process, so that plain variables do. */

#include <stddef.h>
#include <time.h>

/* H5Z_func_t */
typedef size_t filter_function(unsigned flags, size_t count, const unsigned *cd_values, size_t length, size_t *room, void **buffer);

/* H5Z_FLAG_REVERSE: decompress */
enum { REVERSE = 0x0100 };

static filter_function *inner;

/* Since filter_clock_start. */
double filter_clock_seconds;
unsigned long filter_clock_compressed;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Sets the clock to 0, and has filter_clock_call call this filter. */
void filter_clock_start(filter_function *filter)
{
    inner = filter;
    filter_clock_seconds = 0;
    filter_clock_compressed = 0;
}

/* What HDF5 calls. */
size_t filter_clock_call(unsigned flags, size_t count, const unsigned *cd_values, size_t length, size_t *room, void **buffer)
{
    const double start = now();
    const size_t result = inner(flags, count, cd_values, length, room, buffer);
    filter_clock_seconds += now() - start;
    filter_clock_compressed += (flags & REVERSE) == 0;
    return result;
}
