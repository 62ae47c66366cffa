/* A driver that fails, to be found as libcuda.so.1. All else is the real driver's: it is linked under the name libcuda_real.so, which a link in the same folder
 * leads to the real file.
 *
 *     cc -shared -fPIC -Wl,-soname,libcuda_real.so -x c /dev/null -o libcuda_real.so
 *     cc -shared -fPIC -Wl,-soname,libcuda.so.1 failing_cuda.c -Wl,--no-as-needed libcuda_real.so -o libcuda.so.1 -ldl
 *
 * The first QUIRE_TEST_LAUNCHES launches of graphs succeed, and all later ones fail. A test that has loaded this library learns from quire_test_launched how
 * many there were, and says by quire_test_allow and quire_test_place what else fails.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

enum { CUDA_ERROR_OUT_OF_MEMORY = 2, CUDA_ERROR_LAUNCH_FAILED = 719, POINTER_DEVICE_ORDINAL = 9 };

/* Launches of graphs so far, whether they failed or not. */
static atomic_int graphs;
/* How many more succeed; below 0 all do. */
static atomic_int kernels_left = -1, allocations_left = -1;
/* How many allocations fail then, before all succeed again; below 0 all fail. And how many have failed. */
static atomic_int refusals_left = -1, refused;
/* An array that is said to be in the memory of another GPU. */
static uint64_t placed_at, placed_bytes;
static int placed_on;

static void *real(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    return found ? found : dlsym(dlopen("libcuda_real.so", RTLD_NOW), name);
}

static int is_spent(atomic_int *left) {
    int now = atomic_load(left);
    while (now > 0 && !atomic_compare_exchange_weak(left, &now, now - 1)) {}
    return now == 0;
}

static int is_refused(void) {
    if (!is_spent(&allocations_left) || is_spent(&refusals_left)) return 0;
    refused++;
    return 1;
}

void quire_test_allow(int kernels, int allocations, int refusals) {
    kernels_left = kernels;
    allocations_left = allocations;
    refusals_left = refusals;
}

int quire_test_refused(void) { return refused; }

int quire_test_launched(void) { return graphs; }

void quire_test_place(uint64_t address, uint64_t bytes, int device) {
    placed_at = address;
    placed_bytes = bytes;
    placed_on = device;
}

int cuGraphLaunch(void *graph, void *stream) {
    const char *allowed = getenv("QUIRE_TEST_LAUNCHES");
    if (graphs++ >= (allowed ? atoi(allowed) : 0)) return CUDA_ERROR_LAUNCH_FAILED;
    int (*launch)(void *, void *) = (int (*)(void *, void *))real("cuGraphLaunch");
    return launch(graph, stream);
}

int cuLaunchKernel(void *kernel, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned rows, unsigned slices, unsigned shared, void *stream,
                   void **arguments, void **more) {
    if (is_spent(&kernels_left)) return CUDA_ERROR_LAUNCH_FAILED;
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **) =
        (int (*)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **))real("cuLaunchKernel");
    return launch(kernel, x, y, z, threads, rows, slices, shared, stream, arguments, more);
}

int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
    if (is_refused()) return CUDA_ERROR_OUT_OF_MEMORY;
    int (*allocate)(uint64_t *, size_t) = (int (*)(uint64_t *, size_t))real("cuMemAlloc_v2");
    return allocate(address, bytes);
}

int cuMemHostAlloc(void **address, size_t bytes, unsigned flags) {
    if (is_refused()) return CUDA_ERROR_OUT_OF_MEMORY;
    int (*allocate)(void **, size_t, unsigned) = (int (*)(void **, size_t, unsigned))real("cuMemHostAlloc");
    return allocate(address, bytes, flags);
}

int cuPointerGetAttribute(void *value, int attribute, uint64_t address) {
    int (*ask)(void *, int, uint64_t) = (int (*)(void *, int, uint64_t))real("cuPointerGetAttribute");
    int code = ask(value, attribute, address);
    if (!code && attribute == POINTER_DEVICE_ORDINAL && address - placed_at < placed_bytes) *(int *)value = placed_on;
    return code;
}
