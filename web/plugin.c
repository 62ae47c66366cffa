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

/* Bytes of the chunk by the words that the filter has added to a dataset's parameters (FORMAT.md, section 10); 0 if there
   are none. */
static uint64_t bytes_of_words(size_t words, const unsigned *word)
{
    static const unsigned char sizes[14] = {4, 8, 2, 2, 1, 1, 2, 2, 4, 4, 8, 8, 4, 8};
    static const unsigned char mode_words[12] = {0, 2, 0, 2, 0, 2, 0, 2, 0, 2, 0, 4};
    if (words == 0 || (word[0] & 255) >= sizeof mode_words)
        return 0;
    size_t at = 1 + (word[0] >> 24) + mode_words[word[0] & 255];
    if (at >= words || word[at] >> 16 != 0x5101 || (word[at] >> 8 & 127) >= sizeof sizes || words - at <= (word[at] & 255))
        return 0;
    uint64_t bytes = sizes[word[at] >> 8 & 127];
    for (unsigned axis = 1; axis <= (word[at] & 255); axis++)
        bytes *= word[at + axis];
    return bytes;
}

/* Decodes the stream at *buffer and puts the chunk's values in its place. Returns their length, or 0 after an error. */
static size_t filter(unsigned flags, size_t words, const unsigned *word, size_t length, size_t *capacity, void **buffer)
{
    quire_chunk chunk;
    uint64_t expected = bytes_of_words(words, word);
    if (!(flags & REVERSE) || quire_describe(*buffer, length, &chunk) != NULL)
        return 0;
    if ((expected != 0 && chunk.bytes != expected) || chunk.bytes > SIZE_MAX)
        return 0;
    void *values = malloc((size_t)chunk.bytes);
    if (values == NULL)
        return 0;
    if (quire_read(*buffer, length, values, (size_t)chunk.bytes) != NULL) {
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
