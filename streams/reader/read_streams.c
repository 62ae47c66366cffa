/* Tests the reader with the streams of a folder, which its table streams.csv lists, or decodes one stream to a file:

   read_streams FOLDER            exit code 0 if every valid stream gives its values and every faulty one is refused
   read_streams --one FILE OUT    exit code 0 if the stream was decoded, otherwise 1 and the reason on stderr */
#include "quire_reader.h"

#include <errno.h>
#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_NAME, ABOUT, TYPE, ORDER, DIMS, BYTES, VALUES_CRC, FILE_CRC, SECTION, MESSAGE, COLUMNS };

static const uint64_t longest_chunk = (uint64_t)1 << 30;

typedef struct {
    unsigned char *bytes;
    size_t length;
} Buffer;

/* Returns NULL or what went wrong. The buffer has exactly the file's length, so that a sanitizer sees what is read
   beyond it. */
static const char *load(const char *name, Buffer *buffer)
{
    const char *fault = NULL;
    long length = -1;
    FILE *file = fopen(name, "rb");

    buffer->bytes = NULL;
    if (file == NULL)
        return strerror(errno);
    if (fseek(file, 0, SEEK_END) == 0)
        length = ftell(file);
    if (length < 0 || fseek(file, 0, SEEK_SET) != 0)
        fault = "the file has no length";
    else if ((buffer->bytes = malloc(length > 0 ? (size_t)length : 1)) == NULL)
        fault = "no memory for the file";
    else if (fread(buffer->bytes, 1, (size_t)length, file) != (size_t)length)
        fault = "the file cannot be read";
    buffer->length = (size_t)length;
    fclose(file);
    return fault;
}

static const char *save(const char *name, const Buffer *buffer)
{
    FILE *file = fopen(name, "wb");
    size_t written;

    if (file == NULL)
        return strerror(errno);
    written = fwrite(buffer->bytes, 1, buffer->length, file);
    return fclose(file) == 0 && written == buffer->length ? NULL : "the values cannot be written";
}

/* Decodes a stream whose header says how long its values are, once its checksum is known to be right. */
static const char *decode(const Buffer *stream, quire_chunk *chunk, Buffer *values)
{
    const char *fault = quire_describe(stream->bytes, stream->length, chunk);

    values->bytes = NULL;
    if (fault != NULL)
        return fault;
    if (chunk->bytes > longest_chunk)
        return "the values are longer than 1 GiB";
    values->length = (size_t)chunk->bytes;
    values->bytes = malloc(values->length);
    if (values->bytes == NULL)
        return "no memory for the values";
    return quire_read(stream->bytes, stream->length, values->bytes, values->length);
}

/* An unknown version is named beside the reason why the stream was refused. */
static void print_refusal(const char *name, const Buffer *stream, const char *fault)
{
    unsigned major, minor;
    if (quire_version(stream->bytes, stream->length, &major, &minor))
        fprintf(stderr, "%s: %s (version %u.%u)\n", name, fault, major, minor);
    else
        fprintf(stderr, "%s: %s\n", name, fault);
}

static int decode_one(const char *stream_name, const char *values_name)
{
    Buffer stream, values = {NULL, 0};
    quire_chunk chunk;
    const char *fault = load(stream_name, &stream);

    if (fault != NULL)
        fprintf(stderr, "%s: %s\n", stream_name, fault);
    else if ((fault = decode(&stream, &chunk, &values)) != NULL)
        print_refusal(stream_name, &stream, fault);
    else if ((fault = save(values_name, &values)) != NULL)
        fprintf(stderr, "%s: %s\n", values_name, fault);
    free(stream.bytes);
    free(values.bytes);
    return fault == NULL ? 0 : 1;
}

/* Cuts a line of the table into its fields. Returns how many there are. */
static int split(char *line, char *fields[COLUMNS])
{
    int count = 0;
    line[strcspn(line, "\r\n")] = '\0';
    while (line != NULL && count < COLUMNS) {
        fields[count++] = line;
        line = strchr(line, ';');
        if (line != NULL)
            *line++ = '\0';
    }
    return line == NULL ? count : COLUMNS + 1;
}

/* Whether a field has the CRC-32 of a buffer. */
static int has_crc(const char *field, const Buffer *buffer)
{
    char digits[9];
    snprintf(digits, sizeof digits, "%08lx", (unsigned long)quire_crc32(0, buffer->bytes, buffer->length));
    return strcmp(field, digits) == 0;
}

/* Whether the table and the header say the same of the chunk. */
static int has_described_chunk(char *fields[COLUMNS], const quire_chunk *chunk)
{
    static const char *const names[14] = {"f32", "f64", "f16", "bf16",
                                          "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "c64", "c128"};
    char dims[100] = "", bytes[24];
    size_t length = 0;

    for (unsigned axis = 0; axis < chunk->rank; axis++)
        length += (size_t)snprintf(dims + length, sizeof dims - length, axis == 0 ? "%llu" : "x%llu",
                                   (unsigned long long)chunk->extents[axis]);
    snprintf(bytes, sizeof bytes, "%llu", (unsigned long long)chunk->bytes);
    return strcmp(fields[TYPE], names[chunk->value_type]) == 0 && strcmp(fields[DIMS], dims) == 0
        && strcmp(fields[BYTES], bytes) == 0 && strcmp(fields[ORDER], chunk->big_endian ? "big" : "little") == 0;
}

/* Whether the reader refuses a valid stream where values of another length are expected. */
static int refuses_other_lengths(const Buffer *stream, const quire_chunk *chunk)
{
    const size_t length = (size_t)chunk->bytes, size = (size_t)(chunk->bytes / chunk->count);
    const size_t others[] = {0, length - size, length - 1, length + 1, length + size, 2 * length};

    for (unsigned i = 0; i < sizeof others / sizeof *others; i++) {
        unsigned char *values = malloc(others[i] > 0 ? others[i] : 1);
        int refused = values != NULL && quire_read(stream->bytes, stream->length, values, others[i]) != NULL;
        free(values);
        if (!refused)
            return 0;
    }
    return 1;
}

/* Returns NULL if the reader does with a stream what the table says, otherwise what went wrong. */
static const char *check(const Buffer *stream, char *fields[COLUMNS], int verbose)
{
    quire_chunk chunk;
    Buffer values;
    const char *fault, *wrong = NULL;

    if (!has_crc(fields[FILE_CRC], stream))
        return "the file has not the CRC-32 of the table";
    fault = decode(stream, &chunk, &values);
    if (fields[SECTION][0] != '\0') {
        wrong = fault == NULL ? "a faulty stream was not refused" : NULL;
        if (verbose)
            printf("%s | %s | %s | %s\n", fields[FILE_NAME], fields[SECTION], fields[MESSAGE],
                   fault == NULL ? "accepted" : fault);
    } else if (fault != NULL) {
        wrong = fault;
    } else if (!has_described_chunk(fields, &chunk)) {
        wrong = "type, order, extents or length are not those of the table";
    } else if (!has_crc(fields[VALUES_CRC], &values)) {
        wrong = "the values are not those of the table";
    } else if (!refuses_other_lengths(stream, &chunk)) {
        wrong = "the stream was read where another length was expected";
    }
    free(values.bytes);
    return wrong;
}

static const char *check_line(const char *folder, char *fields[COLUMNS], int verbose)
{
    char name[1000];
    Buffer stream;
    const char *wrong;

    if (snprintf(name, sizeof name, "%s/%s", folder, fields[FILE_NAME]) >= (int)sizeof name)
        return "the name is too long";
    wrong = load(name, &stream);
    if (wrong == NULL)
        wrong = check(&stream, fields, verbose);
    free(stream.bytes);
    return wrong;
}

static int check_all(const char *folder, int verbose)
{
    unsigned valid = 0, faulty = 0, wrong = 0;
    char name[1000], line[2000], *fields[COLUMNS];
    FILE *table;

    snprintf(name, sizeof name, "%s/streams.csv", folder);
    table = fopen(name, "r");
    if (table == NULL || fgets(line, sizeof line, table) == NULL) {
        fprintf(stderr, "%s: cannot be read\n", name);
        return 1;
    }
    while (fgets(line, sizeof line, table) != NULL) {
        const char *fault = "the line of the table has not ten fields";
        if (split(line, fields) == COLUMNS) {
            *(fields[SECTION][0] == '\0' ? &valid : &faulty) += 1;
            fault = check_line(folder, fields, verbose);
        }
        if (fault != NULL) {
            wrong++;
            printf("%s: %s\n", fields[FILE_NAME], fault);
        }
    }
    fclose(table);
    printf("%u valid streams, %u faulty ones: %u went wrong\n", valid, faulty, wrong);
    return wrong == 0 && valid > 0 && faulty > 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    fesetround(FE_UPWARD);  /* values do not depend on the caller's mode */
    if (argc == 4 && strcmp(argv[1], "--one") == 0)
        return decode_one(argv[2], argv[3]);
    if (argc == 2 && argv[1][0] != '-')
        return check_all(argv[1], 0);
    if (argc == 3 && strcmp(argv[1], "--reasons") == 0)  /* beside those of the table */
        return check_all(argv[2], 1);
    fprintf(stderr, "usage: read_streams FOLDER | --reasons FOLDER | --one FILE OUT\n");
    return 2;
}
