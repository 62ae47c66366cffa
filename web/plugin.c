/* The reader in C as an HDF5 filter plugin for h5wasm. It only reads: writing through it fails. */
#include "quire_reader.h"

#include <stdlib.h>

enum { FILTER = 33791, REVERSE = 0x0100, DECODER_PRESENT = 1, PLUGIN_TYPE_FILTER = 0 };

/* H5Z_class2_t of HDF5's H5Zdevelop.h. */
typedef struct {
    int version;
    int id;
    unsigned encoder_present;
    unsigned decoder_present;
    const char *name;
    int (*can_apply)(int64_t dcpl, int64_t type, int64_t space);
    int (*set_local)(int64_t dcpl, int64_t type, int64_t space);
    size_t (*filter)(unsigned flags, size_t words, const unsigned *word, size_t length, size_t *capacity, void **buffer);
} Filter;

/* Decodes the stream at *buffer and puts the chunk's values in its place. Returns their length, or 0 after an error. */
static size_t filter(unsigned flags, size_t count, const unsigned *words, size_t length, size_t *capacity, void **buffer)
{
    quire_chunk chunk;
    void *values;
    if (!(flags & REVERSE) || quire_describe(*buffer, length, &chunk) != NULL || !quire_agrees(&chunk, count, words))
        return 0;
    if (chunk.bytes > SIZE_MAX || (values = malloc((size_t)chunk.bytes)) == NULL)
        return 0;
    if (quire_read_body(*buffer, length, &chunk, values) != NULL) {
        free(values);
        return 0;
    }
    free(*buffer);
    *buffer = values;
    return *capacity = (size_t)chunk.bytes;
}

static const Filter quire = {1, FILTER, 0, DECODER_PRESENT, "quire", NULL, NULL, filter};

int H5PLget_plugin_type(void)
{
    return PLUGIN_TYPE_FILTER;
}

const void *H5PLget_plugin_info(void)
{
    return &quire;
}
