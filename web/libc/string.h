/* What the reader in C needs of <string.h>. Copies and fills become instructions of WebAssembly. */
#include <stddef.h>

#define memcpy __builtin_memcpy
#define memset __builtin_memset

static inline int memcmp(const void *a, const void *b, size_t length)
{
    const unsigned char *x = a, *y = b;
    while (length > 0 && *x == *y)
        x++, y++, length--;
    return length > 0 ? *x - *y : 0;
}
