// Says where a process crashed or hung: the C stack goes to stderr, one line a frame, with the object that the frame is in.
#include <execinfo.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

static char own_stack[1 << 16];

static void say_where(int number)
{
    void *frames[64];
    backtrace_symbols_fd(frames, backtrace(frames, 64), 2);
    _exit(128 + number);
}

// SIGPROF stands for a hang: the program limits its processor time.
void watch_for_crashes(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGPROF};
    // A stack overflow leaves no room on the usual stack.
    const stack_t stack = {.ss_sp = own_stack, .ss_size = sizeof own_stack};
    struct sigaction action = {.sa_handler = say_where, .sa_flags = SA_ONSTACK};
    void *frame;

    backtrace(&frame, 1); // loads what it needs now, as a handler must not
    sigaltstack(&stack, NULL);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaction(signals[i], &action, NULL);
}
