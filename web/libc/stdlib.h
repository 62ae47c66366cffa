/* What the reader in C needs of <stdlib.h>. */
#include <stddef.h>
void *malloc(size_t size);
void *calloc(size_t count, size_t size);
void free(void *block);
