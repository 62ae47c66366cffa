/* A reader of H5Z-Quire streams of version 1.0, written from FORMAT.md alone. "§" in comments names its sections. */
#ifndef QUIRE_READER_H
#define QUIRE_READER_H

#include <stddef.h>
#include <stdint.h>

/* What the header of a stream says of its chunk (§3). */
typedef struct {
    unsigned value_type;  /* 0 to 13 */
    int big_endian;       /* the byte order of the values in the chunk */
    unsigned coding;      /* 0 to 6 (§2) */
    unsigned rank;        /* 1 to 4 */
    uint64_t extents[4];  /* the first `rank` of them count, slowest first */
    uint64_t count;       /* number of values, the product of the extents: at most 2^48; a pair has two */
    uint64_t bytes;       /* length of the values */
    size_t body;          /* where the body begins in the stream */
} quire_chunk;

/* These functions return NULL if all is well, otherwise a text that says what is wrong with the stream. They trust no byte
   of it, keep nothing between calls, and may run in any number of threads. */

/* Checks the stream's checksum, and says what the header says. */
const char *quire_describe(const unsigned char *stream, size_t stream_length, quire_chunk *chunk);

/* Decodes a stream into the `length` bytes at `values`, as they were in the chunk; another length than the stream's is
   an error. `values` must be memory from malloc, as the codes are there first. Memory is allocated only behind that
   check, and never more than 12 bytes for each value; for pairs, `length` bytes besides. After an error what is in
   `values` means nothing. */
const char *quire_read(const unsigned char *stream, size_t stream_length, void *values, size_t length);

/* The second half of quire_read: decodes a stream that quire_describe found to be right into the `chunk->bytes` bytes at
   `values`. */
const char *quire_read_body(const unsigned char *stream, size_t stream_length, const quire_chunk *chunk, void *values);

/* Whether the words that a dataset keeps, its cd_values, say the same of its chunks as a stream (§10). A stream can be read
   without them: words that the reader does not know say nothing. They keep a damaged stream from asking for more memory
   than its chunk needs. */
int quire_agrees(const quire_chunk *chunk, size_t count, const unsigned words[]);

/* The version of a stream of this format, also of one that the reader refuses; 0 if the stream has no version. */
int quire_version(const unsigned char *stream, size_t stream_length, unsigned *major, unsigned *minor);

/* The CRC-32 of §3 of some bytes, continued from that of the bytes before them; 0 to begin with. */
uint32_t quire_crc32(uint32_t crc, const unsigned char *bytes, size_t length);

#endif
