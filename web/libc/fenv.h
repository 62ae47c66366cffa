/* What the reader in C needs of <fenv.h>: WebAssembly always rounds to even, so there is no mode to set. */
typedef int fenv_t;
#define FE_DFL_ENV ((const fenv_t *)0)

static inline int fegetenv(fenv_t *mode)
{
    return *mode = 0;
}

static inline int fesetenv(const fenv_t *mode)
{
    (void)mode;
    return 0;
}
