/* A driver library that is no driver, to be found as libcuda.so.1.
 *
 *     cc -shared -fPIC -DRESULT=100 fake_cuda.c    cuInit fails with CUDA_ERROR_NO_DEVICE
 *     cc -shared -fPIC -DRESULT=0 fake_cuda.c      cuInit succeeds; there are no devices
 *     cc -shared -fPIC fake_cuda.c                 no function at all, as in a driver that is too old */

#include <stdio.h>

__attribute__((constructor)) static void say(void) { fputs("the fake libcuda is loaded\n", stderr); }

#ifdef RESULT
int cuInit(unsigned int flags) {
    (void)flags;
    return RESULT;
}

int cuDeviceGetCount(int *count) {
    *count = 0;
    return 0;
}

int cuGetErrorName(int error, const char **text) {
    *text = error == 100 ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_OF_THE_FAKE";
    return 0;
}

int cuGetErrorString(int error, const char **text) {
    (void)error;
    *text = "said by the fake libcuda";
    return 0;
}
#endif
