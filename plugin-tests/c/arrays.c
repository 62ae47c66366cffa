/* Compresses arrays with the plugin's C functions, without HDF5, and checks what comes back. Ends with 0 and a line, or with 1 and the reason on
 * standard error. Linked with the plugin. */

#include <h5z_quire.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUST(condition)                                                                                      \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "arrays.c:%d: failed: %s\n", __LINE__, #condition);                              \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

enum { ROWS = 50, COLUMNS = 60, VALUES = ROWS * COLUMNS };

/* What a call delivered contains a text, and is then freed. */
static int says(quire_bytes *bytes, const char *text)
{
    int found = bytes->address && strlen((char *)bytes->address) == bytes->length && strstr((char *)bytes->address, text);
    quire_free(bytes);
    return found && !bytes->address && !bytes->length;
}

int main(void)
{
    const uint64_t extents[] = {ROWS, 1, COLUMNS};
    const double bound = 1e-3, fill = -9999.25;
    static double values[VALUES], decoded[VALUES];
    quire_bytes stream, text;
    quire_layout layout;

    for (int place = 0; place < VALUES; place++)
        values[place] = place % 17 ? sin(place * 0.01) * 100 : fill;
    MUST(quire_compress("abs=1e-3", QUIRE_F64, 3, extents, &fill, values, sizeof values, &stream) == QUIRE_OK);
    MUST(stream.length < sizeof values / 2 && !memcmp(stream.address, "QUI\x90", 4));

    MUST(quire_read_layout(stream.address, stream.length, &layout, &text) == QUIRE_OK);
    quire_free(&text);
    MUST(layout.value_type == QUIRE_F64 && layout.rank == 2 && layout.extents[0] == ROWS && layout.extents[1] == COLUMNS);

    MUST(quire_decompress(stream.address, stream.length, decoded, sizeof decoded, &text) == QUIRE_OK);
    quire_free(&text);
    for (int place = 0; place < VALUES; place++)
        MUST(place % 17 ? fabs(values[place] - decoded[place]) <= bound : decoded[place] == fill);

    MUST(quire_describe(stream.address, stream.length, &text) == QUIRE_OK);
    MUST(says(&text, "\"coding\":\"quantized\",\"value_type\":\"f8\""));
    MUST(quire_info(&text) == QUIRE_OK);
    MUST(says(&text, "\"filter_id\":33791"));

    /* A status for each fault of the caller, of the stream, and of its version. */
    MUST(quire_compress("abs=-1", QUIRE_F64, 3, extents, NULL, values, sizeof values, &text) == QUIRE_INVALID);
    MUST(says(&text, "absolute error bound is -1"));
    MUST(quire_decompress(stream.address, stream.length - 1, decoded, sizeof decoded, &text) == QUIRE_DAMAGED);
    MUST(says(&text, "checksum"));
    stream.address[3] = 0x91;
    MUST(quire_decompress(stream.address, stream.length, decoded, sizeof decoded, &text) == QUIRE_VERSION);
    MUST(says(&text, "install a newer"));
    quire_free(&stream);

    /* Integers in the other byte order, of which the stream keeps the type. */
    const unsigned char counts[] = {0, 1, 0, 2, 0, 3, 1, 44};
    const uint64_t four = 4;
    MUST(quire_compress("lossless", QUIRE_U16 | QUIRE_BIG_ENDIAN, 1, &four, NULL, counts, sizeof counts, &stream) == QUIRE_OK);
    MUST(quire_read_layout(stream.address, stream.length, &layout, &text) == QUIRE_OK && layout.value_type == (QUIRE_U16 | QUIRE_BIG_ENDIAN));
    quire_free(&text);
    MUST(quire_decompress(stream.address, stream.length, decoded, sizeof counts, &text) == QUIRE_OK && !memcmp(decoded, counts, sizeof counts));
    quire_free(&text);
    quire_free(&stream);

    /* Many arrays at once, on two threads; and one that is damaged. */
    enum { COUNT = 20 };
    const void *arrays[COUNT], *addresses[COUNT];
    void *targets[COUNT];
    size_t lengths[COUNT];
    static double batch[COUNT][VALUES];
    quire_bytes streams[COUNT];
    for (int number = 0; number < COUNT; number++)
        arrays[number] = values;
    MUST(quire_compress_batch("abs=1e-3", QUIRE_F64, 3, extents, &fill, COUNT, arrays, sizeof values, 2, streams, &text) == QUIRE_OK);
    quire_free(&text);
    MUST(quire_compress("abs=1e-3", QUIRE_F64, 3, extents, &fill, values, sizeof values, &stream) == QUIRE_OK);
    for (int number = 0; number < COUNT; number++) {
        MUST(streams[number].length == stream.length && !memcmp(streams[number].address, stream.address, stream.length));
        addresses[number] = streams[number].address;
        lengths[number] = streams[number].length;
        targets[number] = batch[number];
    }
    MUST(quire_decompress_batch(COUNT, addresses, lengths, targets, sizeof values, 0, &text) == QUIRE_OK);
    quire_free(&text);
    MUST(quire_decompress(stream.address, stream.length, decoded, sizeof decoded, &text) == QUIRE_OK);
    quire_free(&text);
    for (int number = 0; number < COUNT; number++)
        MUST(!memcmp(batch[number], decoded, sizeof decoded));
    streams[7].address[50] ^= 1;
    MUST(quire_decompress_batch(COUNT, addresses, lengths, targets, sizeof values, 3, &text) == QUIRE_DAMAGED);
    MUST(says(&text, "chunk 7: stream is damaged"));
    for (int number = 0; number < COUNT; number++)
        quire_free(&streams[number]);
    quire_free(&stream);
    /* Without HDF5 in the process there is no dataset. */
    const quire_box box = {.value_type = QUIRE_F64, .rank = 3, .count = extents, .values = values};
    quire_transfer *transfer = (quire_transfer *)values;
    MUST(quire_h5_write(1, NULL, &box, 0, &text) == QUIRE_INVALID);
    MUST(says(&text, "no HDF5 library can be found in this process"));
    MUST(quire_h5_begin_read(1, NULL, &box, 0, &transfer, &text) == QUIRE_INVALID && !transfer);
    quire_free(&text);
    MUST(quire_transfer_step(NULL, NULL, NULL, &text) == QUIRE_INVALID);
    quire_free(&text);
    quire_transfer_wait(NULL, 1);
    quire_transfer_end(NULL);
    quire_transfer_end(&transfer);
    /* What a copy keeps: one value is off by 2. The array is one box. */
    quire_report *report = NULL;
    const char *field = "{\"shape\": [50, 60], \"bound\": 1.5}";
    MUST(quire_report_begin(QUIRE_F64, "{\"shape\": [50, 0]}", 0, &report, &text) == QUIRE_INVALID && !report);
    MUST(says(&text, "no array with values"));
    MUST(quire_report_begin(QUIRE_F64, field, 0, &report, &text) == QUIRE_OK);
    quire_free(&text);
    MUST(quire_report_next(report, &text) == QUIRE_OK && says(&text, "[[0,50],[0,60]]"));
    MUST(quire_report_add(report, values, values, 8, &text) == QUIRE_INVALID && says(&text, "the box has 8 bytes"));
    memcpy(decoded, values, sizeof values);
    decoded[61] += 2;
    MUST(quire_report_add(report, values, decoded, sizeof values, &text) == QUIRE_OK);
    quire_free(&text);
    MUST(quire_report_next(report, &text) == QUIRE_OK && says(&text, "null"));
    MUST(quire_report_add(report, values, decoded, sizeof values, &text) == QUIRE_INVALID);
    quire_free(&text);
    MUST(quire_report_write(report, QUIRE_TEXT, "", &text) == QUIRE_OK && says(&text, "2.0000e0 at [1, 1]"));
    MUST(quire_report_write(report, QUIRE_JSON, "", &text) == QUIRE_OK && says(&text, "\"greatest_error\":2.0,\"greatest_error_at\":[1,1]"));
    MUST(quire_report_write(report, QUIRE_HTML, "a < b", &text) == QUIRE_OK && says(&text, "<h1>a &lt; b</h1>"));
    MUST(quire_report_write(report, 4, "", &text) == QUIRE_INVALID && says(&text, "format 4 is unknown"));
    quire_report_end(&report);
    MUST(!report && quire_report_next(report, &text) == QUIRE_INVALID);
    quire_free(&text);
    printf("arrays come back\n");
    return 0;
}
