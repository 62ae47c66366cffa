/* A driver whose launches fail from the QUIRE_TEST_LAUNCHES-th on, to be found as libcuda.so.1. All else is the real driver's: it is
 * linked under the name libcuda_real.so, which a link in the same folder leads to the real file.
 *
 *     cc -shared -fPIC -Wl,-soname,libcuda_real.so -x c /dev/null -o libcuda_real.so
 *     cc -shared -fPIC failing_cuda.c -Wl,--no-as-needed libcuda_real.so -o libcuda.so.1 -ldl
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { CUDA_ERROR_LAUNCH_FAILED = 719 };

static atomic_int launches;

int cuGraphLaunch(void *graph, void *stream) {
    const char *allowed = getenv("QUIRE_TEST_LAUNCHES");
    if (launches++ >= (allowed ? atoi(allowed) : 0)) return CUDA_ERROR_LAUNCH_FAILED;
    int (*launch)(void *, void *) = (int (*)(void *, void *))dlsym(RTLD_NEXT, "cuGraphLaunch");
    if (!launch) launch = (int (*)(void *, void *))dlsym(dlopen("libcuda_real.so", RTLD_NOW), "cuGraphLaunch");
    return launch(graph, stream);
}
