/* Gives the reader damaged streams, under sanitizers: mutate SEED ROUNDS SECONDS FILE…

   A round takes one of the files, damages it in one to four places, makes its checksum right and reads it, into a buffer
   of the length that its header promises. Stream and values are in memory of exactly their length, so that the sanitizer
   sees each byte beyond. In one round of eight an allocation fails (link with -Wl,--wrap=calloc). After that many seconds
   no round begins. */
#include "quire_reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const uint64_t longest_chunk = (uint64_t)1 << 22;

static uint64_t state;
static int allocations_left = -1;  /* until one fails; below 0: none fails */

static uint32_t random_below(size_t limit)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((state >> 32) * limit >> 32);
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

void *__wrap_calloc(size_t count, size_t size)
{
    if (allocations_left >= 0 && allocations_left-- == 0)
        return NULL;
    return __real_calloc(count, size);
}

/* Damages one place, more often at the begin, where the fields are that say how the others are read. */
static void damage(unsigned char *stream, size_t *length)
{
    static const unsigned char ends[] = {0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF};
    size_t at = random_below(random_below(2) == 0 || *length < 64 ? *length : 64);
    size_t from = random_below(*length), count = 1 + random_below(8);

    switch (random_below(6)) {
    case 0:
    case 1:
        stream[at] = (unsigned char)(stream[at] ^ 1u << random_below(8));
        break;
    case 2:
        stream[at] = (unsigned char)random_below(256);
        break;
    case 3:
        for (size_t i = at; i < *length && i < at + count; i++)
            stream[i] = ends[random_below(sizeof ends)];
        break;
    case 4:
        count = count < *length - (at > from ? at : from) ? count : *length - (at > from ? at : from);
        memmove(stream + at, stream + from, count);
        break;
    default:
        if (random_below(4) == 0 && *length > 12)
            *length -= 1 + random_below(random_below(2) == 0 ? 8 : *length - 12) % (*length - 11);
    }
}

static void make_checksum_right(unsigned char *stream, size_t length)
{
    uint32_t crc;
    if (length < 8)
        return;
    crc = quire_crc32(quire_crc32(0, stream, 4), stream + 8, length - 8);
    for (unsigned i = 0; i < 4; i++)
        stream[4 + i] = (unsigned char)(crc >> 8 * i);
}

/* Whether the reader accepts a stream. */
static int reads(const unsigned char *stream, size_t length)
{
    quire_chunk chunk;
    unsigned char *values;
    int accepted;

    if (quire_describe(stream, length, &chunk) != NULL)
        return 0;
    values = malloc(chunk.bytes <= longest_chunk ? (size_t)chunk.bytes : 1);
    accepted = quire_read(stream, length, values, chunk.bytes <= longest_chunk ? (size_t)chunk.bytes : 1) == NULL;
    free(values);
    return accepted;
}

static int round_accepts(const unsigned char *file, size_t length)
{
    unsigned char *copy = malloc(length + 1), *stream;
    int accepted;

    memcpy(copy, file, length);
    if (random_below(16) == 0)
        copy[length++] = (unsigned char)random_below(2);
    for (uint32_t places = 1 + random_below(4); places > 0 && length > 0; places--)
        damage(copy, &length);
    if (random_below(64) != 0)
        make_checksum_right(copy, length);
    stream = malloc(length > 0 ? length : 1);
    memcpy(stream, copy, length);
    free(copy);
    allocations_left = random_below(8) == 0 ? (int)random_below(4) : -1;
    accepted = reads(stream, length);
    allocations_left = -1;
    free(stream);
    return accepted;
}

static unsigned char *load(const char *name, size_t *length)
{
    static unsigned char bytes[1 << 21];
    unsigned char *copy;
    FILE *file = fopen(name, "rb");

    if (file == NULL)
        exit(2);
    *length = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    copy = malloc(*length + 1);
    memcpy(copy, bytes, *length);
    return copy;
}

int main(int argc, char **argv)
{
    size_t files = (size_t)argc - 4, *lengths;
    unsigned char **streams;
    unsigned long rounds, done, accepted = 0;
    time_t end;

    if (argc < 5)
        return 2;
    state = strtoul(argv[1], NULL, 10);
    rounds = strtoul(argv[2], NULL, 10);
    end = time(NULL) + strtol(argv[3], NULL, 10);
    streams = malloc(files * sizeof *streams);
    lengths = malloc(files * sizeof *lengths);
    for (size_t i = 0; i < files; i++)
        streams[i] = load(argv[i + 4], &lengths[i]);
    for (done = 0; done < rounds && time(NULL) < end; done++) {
        size_t file = random_below(files);
        accepted += (unsigned long)round_accepts(streams[file], lengths[file]);
    }
    printf("%lu damaged streams, %lu of them accepted\n", done, accepted);
    for (size_t i = 0; i < files; i++)
        free(streams[i]);
    free(streams);
    free(lengths);
    return 0;
}
