// Holds a process at one of its steps, by LD_PRELOAD, until a test has done what it does meanwhile. HOLD_AT is the number of the write to a place of a file, from
// 1 on, or 0 for the step that brings the whole file to the disk. The process then makes the file HOLD_BY with its number in it, and goes on when the file is
// gone.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void hold(const char *by) {
    char name[4096];
    snprintf(name, sizeof name, "%s.new", by);
    FILE *file = fopen(name, "w");
    if (!file || fprintf(file, "%d", getpid()) < 0 || fclose(file) || rename(name, by)) abort();
    while (!access(by, F_OK)) usleep(1000);
}

static void reach(int is_write) {
    static atomic_int writes;
    const char *at = getenv("HOLD_AT"), *by = getenv("HOLD_BY");
    if (at && by && atoi(at) == (is_write ? ++writes : 0)) hold(by);
}

int fsync(int file) {
    static int (*of_the_system)(int);
    if (!of_the_system) of_the_system = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    reach(0);
    return of_the_system(file);
}

ssize_t pwrite(int file, const void *bytes, size_t count, off_t place) {
    static ssize_t (*of_the_system)(int, const void *, size_t, off_t);
    if (!of_the_system) of_the_system = (ssize_t(*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite");
    reach(1);
    return of_the_system(file, bytes, count, place);
}
