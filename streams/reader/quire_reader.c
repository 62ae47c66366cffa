/* A reader of H5Z-Quire streams of version 1.0. Functions are in the order of FORMAT.md, so the file reads like it:
   bytes and bits (§1.3), the header (§3), codebooks (§8), tokens (§7), lanes and bit planes (§9), planes (§4),
   prediction (§6), values (§5), bodies (§2 and §4).

   A function that may find a fault returns NULL or the reason as a text. Loops over many values do one thing each, over
   rows of integers without branches, so that compilers make vector instructions of them. */
#include "quire_reader.h"
#include "quire_books.h"

#include <fenv.h>
#include <float.h>
#include <stdlib.h>
#include <string.h>

/* §5 asks for binary64, each operation rounded on its own: compile with -std=c99 -ffp-contract=off. */
#if FLT_RADIX != 2 || DBL_MANT_DIG != 53 || DBL_MAX_EXP != 1024 || FLT_MANT_DIG != 24 || FLT_MAX_EXP != 128 \
    || (FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 1)
#error "float and double must be binary32 and binary64, and operations on double must be rounded to binary64"
#endif
#ifdef __FAST_MATH__
#error "the format needs strict arithmetic: do not compile with -ffast-math"
#endif

/* For loops over many values. In a function apart, their variables are in registers. A part of several such functions is
   copied into each. */
#if defined(_MSC_VER)
#define APART __declspec(noinline)
#define restrict __restrict  /* which only C11 knows there */
#define PART __forceinline
#elif defined(__GNUC__)
#define APART __attribute__((noinline))
#define PART inline __attribute__((always_inline))
#else
#define APART
#define PART inline
#endif

/* Where gcc can, it compiles such a function twice, the second time with the instructions of x86 processors that have AVX2.
   The one to call is chosen when the program is loaded. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__)
#define TWICE __attribute__((target_clones("default", "avx2")))
#else
#define TWICE
#endif

#define TRY(call) do { const char *fault_ = (call); if (fault_ != NULL) return fault_; } while (0)

enum { STORED, CONSTANT, QUANTIZED, EXACT, STEPS, LOGARITHMIC, DECIMAL };  /* codings (§2) */
enum { BINARY32 = 0, BINARY64 = 1 };                              /* the value types (§3) that have a fine grid */
enum { PAIRS_OF_BINARY32 = 12, PAIRS_OF_BINARY64 = 13 };          /* value types (§3) */
enum { SYMBOLS = 106, LONGEST_CODE = 12 };                        /* of a book (§7, §8) */
enum { NO_BOOK = 254, CUSTOM_BOOK = 255 };                        /* codebooks that are none of the dictionary (§4) */

static const char stream_ends[] = "the stream ends too early";
static const char no_memory[] = "no memory";

/* ---- Bytes and bits (§1.3) ------------------------------------------------------------------------------------- */

/* All that is read comes through a cursor, which no length in a stream can lead beyond the stream's end. */
typedef struct {
    const unsigned char *bytes;
    size_t length;
    size_t at;
} Cursor;

static const char *take(Cursor *cursor, uint64_t count, const unsigned char **bytes)
{
    if (count > cursor->length - cursor->at)
        return stream_ends;
    *bytes = cursor->bytes + cursor->at;
    cursor->at += (size_t)count;
    return NULL;
}

/* A little-endian number of `size` bytes, 8 at most. */
static uint64_t number(const unsigned char *bytes, unsigned size)
{
    uint64_t value = 0;
    while (size-- > 0)
        value = value << 8 | bytes[size];
    return value;
}

/* The same of 8 bytes, in the form that compilers make one load of. */
static uint64_t number_of_8(const unsigned char *bytes)
{
    return (uint64_t)bytes[0] | (uint64_t)bytes[1] << 8 | (uint64_t)bytes[2] << 16 | (uint64_t)bytes[3] << 24
        | (uint64_t)bytes[4] << 32 | (uint64_t)bytes[5] << 40 | (uint64_t)bytes[6] << 48 | (uint64_t)bytes[7] << 56;
}

static const char *take_number(Cursor *cursor, unsigned size, uint64_t *value)
{
    const unsigned char *bytes;
    TRY(take(cursor, size, &bytes));
    *value = number(bytes, size);
    return NULL;
}

/* Padding of 0 up to a multiple of 4 bytes. A cursor begins at such a multiple of the stream. */
static const char *take_padding(Cursor *cursor)
{
    const unsigned char *bytes;
    while (cursor->at % 4 != 0) {
        TRY(take(cursor, 1, &bytes));
        if (*bytes != 0)
            return "padding is not 0";
    }
    return NULL;
}

static uint64_t low_bits(unsigned count)  /* a number whose lowest 1 to 64 bits are 1 */
{
    return ~(uint64_t)0 >> (64 - count);
}

/* A string of bits, which fill each byte from its least significant bit on. Behind its end bits are 0. They are counted
   too, so that who has read all that there should be can say whether it was too much. */
typedef struct {
    const unsigned char *bytes;
    uint64_t length;
    uint64_t at;
} Bits;

static uint64_t next_bits(Bits *bits, unsigned count)
{
    uint64_t value = 0;
    unsigned taken;

    for (unsigned i = 0; i < count; i += taken, bits->at += taken) {
        const unsigned shift = bits->at % 8, left = count - i;
        taken = left < 8 - shift ? left : 8 - shift;
        if (bits->at < bits->length)
            value |= ((uint64_t)bits->bytes[bits->at / 8] >> shift & low_bits(taken)) << i;
    }
    return value;
}

/* Whether the bits that were read, filled up with bits 0 to a multiple of `unit` bits, are exactly the string. */
static int bits_end_here(Bits *bits, unsigned unit)
{
    if (bits->at > bits->length || bits->length - bits->at >= unit)
        return 0;
    while (bits->at < bits->length)
        if (next_bits(bits, 1) != 0)
            return 0;
    return 1;
}

/* The low `width` bits of a number as a two's complement one. (What a cast gives is the compiler's choice.) */
static int64_t as_signed(uint64_t value, unsigned width)
{
    value &= low_bits(width);
    return value >> (width - 1) == 0 ? (int64_t)value : -(int64_t)(low_bits(width) - value) - 1;
}

/* The same of a width of 32 or 64. gcc, clang and MSVC define these casts, and >> of negative numbers, as two's complement. */
static int32_t signed_32(uint32_t value)
{
    return (int32_t)value;
}

static int64_t signed_64(uint64_t value)
{
    return (int64_t)value;
}

/* The magnitude of a number in two's complement; that of the least one is 2^31 − 1 here. */
static int32_t magnitude_of(uint32_t value)
{
    const int32_t number = signed_32(value);
    return number < 0 ? -(number + (number == INT32_MIN)) : number;
}

static double double_of_bits(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t bits_of_double(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static int is_finite(double value)
{
    return value - value == 0;
}

/* ---- Header (§3) ----------------------------------------------------------------------------------------------- */

typedef struct {
    unsigned char size;           /* bytes of a value */
    unsigned char width;          /* bits of a code */
    unsigned char exponent_bits;  /* 0 for integers */
    unsigned char has_sign;
} Type;

static const Type types[12] = {  /* by value type; of pairs, by that of their parts */
    {4, 32, 8, 1},  {8, 64, 11, 1},                                  /* binary32, binary64 */
    {2, 32, 5, 1},  {2, 32, 8, 1},                                   /* binary16, bfloat16 */
    {1, 32, 0, 1},  {1, 32, 0, 0}, {2, 32, 0, 1},  {2, 32, 0, 0},    /* integers of 8 and 16 bits */
    {4, 32, 0, 1},  {4, 32, 0, 0}, {8, 64, 0, 1},  {8, 64, 0, 0},    /* integers of 32 and 64 bits */
};

static int has_pairs(const quire_chunk *chunk)
{
    return chunk->value_type >= PAIRS_OF_BINARY32;
}

/* The number of a chunk's type among `types`: of pairs, that of their parts. */
static unsigned type_of_values(const quire_chunk *chunk)
{
    return has_pairs(chunk) ? chunk->value_type - PAIRS_OF_BINARY32 : chunk->value_type;
}

static const uint64_t most_values = (uint64_t)1 << 48;

/* From 0.6 on a version is in byte 3; before, "R" is there. */
int quire_version(const unsigned char *stream, size_t stream_length, unsigned *major, unsigned *minor)
{
    if (stream_length < 4 || memcmp(stream, "QUI", 3) != 0)
        return 0;
    if (stream[3] < 0x80 && (stream[3] != 'R' || stream_length < 6))
        return 0;
    *major = stream[3] < 0x80 ? stream[4] : stream[3] >> 4 & 7u;
    *minor = stream[3] < 0x80 ? stream[5] : stream[3] & 15u;
    return 1;
}

static const char *check_version(const unsigned char *stream, size_t length)
{
    unsigned major, minor;
    if (!quire_version(stream, length, &major, &minor))
        return "this is no Quire stream";
    if (stream[3] == 'R')
        return "the stream has a version up to 0.5, which H5Z-Quire 0.5 reads";
    if (major != 1 || minor != 0)
        return "the stream has a version that this reader does not know";
    return NULL;
}

static const char *check_checksum(const unsigned char *stream, size_t length)
{
    if (length < 8)
        return stream_ends;
    if (quire_crc32(quire_crc32(0, stream, 4), stream + 8, length - 8) != number(stream + 4, 4))
        return "the checksum is wrong";
    return NULL;
}

static const char *read_extent(Cursor *cursor, uint64_t *extent)
{
    uint64_t less_1 = 0, byte;
    unsigned bytes = 0;
    do {
        if (bytes == 7)
            return "an extent has more than 7 bytes";
        TRY(take_number(cursor, 1, &byte));
        less_1 |= (byte & 127) << 7 * bytes++;
    } while (byte >= 128);
    if (byte == 0 && bytes > 1)
        return "an extent has more bytes than it needs";
    *extent = less_1 + 1;
    return NULL;
}

/* All extents but that of the axis `left_out`; no axis has the number 4. */
static const char *read_extents(Cursor *cursor, quire_chunk *chunk, unsigned left_out)
{
    chunk->count = 1;
    for (unsigned axis = 0; axis < chunk->rank; axis++) {
        if (axis == left_out)
            continue;
        TRY(read_extent(cursor, &chunk->extents[axis]));
        if (chunk->extents[axis] > most_values / chunk->count)
            return "the chunk has more than 2^48 values";
        chunk->count *= chunk->extents[axis];
    }
    return NULL;
}

/* The left-out extent of a stored stream is what makes the chunk as long as the bytes behind the header. */
static const char *restore_left_out_extent(quire_chunk *chunk, unsigned left_out, uint64_t bytes)
{
    uint64_t layer = chunk->count * types[type_of_values(chunk)].size;
    uint64_t extent = bytes / layer;

    if (extent == 0 || bytes % layer != 0)
        return "a stored chunk has not the length of its values";
    if (extent > most_values / chunk->count)
        return "the chunk has more than 2^48 values";
    chunk->extents[left_out] = extent;
    chunk->count *= extent;
    for (unsigned axis = 0; axis < chunk->rank; axis++)
        if (chunk->extents[axis] > extent || (chunk->extents[axis] == extent && axis < left_out))
            return "the left-out extent is not the greatest, or there is a slower one that is as great";
    return NULL;
}

static const char *check_coding(const quire_chunk *chunk)
{
    int floating = types[type_of_values(chunk)].exponent_bits > 0;
    if (chunk->coding > DECIMAL)
        return "the coding is reserved";
    if ((chunk->coding == QUANTIZED || chunk->coding == LOGARITHMIC || chunk->coding == DECIMAL) && !floating)
        return "the coding is for floating-point types only";
    if (chunk->coding == STEPS && floating)
        return "the coding is for integers only";
    return NULL;
}

const char *quire_describe(const unsigned char *stream, size_t stream_length, quire_chunk *chunk)
{
    Cursor cursor = {stream, stream_length, 8};
    const unsigned char *bytes;
    unsigned left_out;

    memset(chunk, 0, sizeof *chunk);
    TRY(check_version(stream, stream_length));
    TRY(check_checksum(stream, stream_length));
    TRY(take(&cursor, 2, &bytes));
    chunk->value_type = bytes[0] & 127;
    chunk->big_endian = bytes[0] >> 7;
    chunk->coding = bytes[1] & 15;
    chunk->rank = (bytes[1] >> 4 & 3) + 1u;
    left_out = bytes[1] >> 6;
    if (chunk->value_type > PAIRS_OF_BINARY64)
        return "the value type is reserved";
    TRY(check_coding(chunk));
    if (left_out >= (chunk->coding == STORED ? chunk->rank : 1))
        return "the axis of the left-out extent is not 0, or not below the rank of a stored chunk";

    TRY(read_extents(&cursor, chunk, chunk->coding == STORED ? left_out : 4));
    TRY(take_padding(&cursor));
    if (chunk->coding == STORED)
        TRY(restore_left_out_extent(chunk, left_out, stream_length - cursor.at));
    if (has_pairs(chunk) && chunk->extents[0] % 2 != 0)
        return "the slowest extent of pairs is odd";
    chunk->bytes = chunk->count * types[type_of_values(chunk)].size;
    chunk->body = cursor.at;
    return NULL;
}

/* ---- A plane's integers (§4) ----------------------------------------------------------------------------------- */

/* Integers are modulo 2^width, so all arithmetic on them is that of unsigned numbers. Axes have the numbers that they
   have as bits of a set (§6.1): 0 is the fastest. */
typedef struct {
    unsigned rank;
    size_t extents[4];  /* by axis; 1 from the rank on */
    size_t count;       /* their product */
    unsigned width;     /* 32 or 64 */
    void *memory;       /* for the integers, or NULL if they are to be allocated */
    void *integers;     /* of 4 or 8 bytes each */
    int interpolated;   /* they are positions (§5.2) */
} Plane;

static uint64_t get(const Plane *plane, size_t index)
{
    return plane->width == 32 ? ((const uint32_t *)plane->integers)[index] : ((const uint64_t *)plane->integers)[index];
}

static void put(Plane *plane, size_t index, uint64_t integer)
{
    if (plane->width == 32)
        ((uint32_t *)plane->integers)[index] = (uint32_t)integer;
    else
        ((uint64_t *)plane->integers)[index] = integer;
}

static Plane plane_of_chunk(const quire_chunk *chunk, unsigned width)
{
    Plane plane = {0, {1, 1, 1, 1}, 0, 0, NULL, NULL, 0};
    plane.rank = chunk->rank;
    for (unsigned axis = 0; axis < chunk->rank; axis++)
        plane.extents[axis] = (size_t)chunk->extents[chunk->rank - 1 - axis];
    plane.count = (size_t)chunk->count;
    plane.width = width;
    return plane;
}

static Plane plane_of_exception_bits(size_t exceptions, unsigned width)
{
    Plane plane = {1, {1, 1, 1, 1}, 0, 0, NULL, NULL, 0};
    plane.extents[0] = plane.count = exceptions;
    plane.width = width;
    return plane;
}

static void free_integers(Plane *plane)
{
    if (plane->integers != plane->memory)
        free(plane->integers);
}

/* Some of a plane's integers, which are coded together. The last block may be shorter than the others. */
typedef struct {
    Plane *plane;
    size_t first;
    size_t length;
    uint64_t lane_words;
    uint64_t extra_words;
} Block;

/* ---- Tokens (§7) ----------------------------------------------------------------------------------------------- */

/* What tokens with a symbol encode: an integer and, in runs, zeros behind it. The integer is a magnitude times 2, and 1 if
   it is negative. The extra bits are added to the length of a run, or else to that number. */
typedef struct {
    uint64_t doubled;
    uint64_t mask;          /* as many bits 1 as there are extra bits */
    uint16_t run;
    uint16_t run_mask;      /* all bits 1 if the extra bits are those of a run */
    uint8_t extra_bits;
    uint8_t unused[11];     /* so that a token has 32 bytes */
} Token;

#define TOKEN(doubled, bits, run, run_mask) \
    {doubled, (bits) > 0 ? ~(uint64_t)0 >> (64 - (bits)) % 64 : 0, run, run_mask, bits, {0}}
#define INTEGER(magnitude) TOKEN(2 * (magnitude), 0, 1, 0)
#define NEGATIVE(magnitude) TOKEN(2 * (magnitude) + 1, 0, 1, 0)
#define CLASS(start, bits) TOKEN(2 * (uint64_t)(start), bits, 1, 0)
#define POWER(exponent, bits) TOKEN((uint64_t)2 << (exponent), bits, 1, 0)
#define RUN(doubled, start, bits) TOKEN(doubled, bits, start, 0xFFFF)
#define RUNS(doubled) \
    RUN(doubled, 2, 0), RUN(doubled, 3, 0), RUN(doubled, 4, 1), RUN(doubled, 6, 1), RUN(doubled, 8, 2), \
    RUN(doubled, 12, 2), RUN(doubled, 16, 3), RUN(doubled, 24, 3), RUN(doubled, 32, 5), RUN(doubled, 64, 6), \
    RUN(doubled, 128, 7), RUN(doubled, 256, 8), RUN(doubled, 512, 9), RUN(doubled, 1024, 10), RUN(doubled, 2048, 0)

static const Token tokens[SYMBOLS] = {
    RUNS(0),
    NEGATIVE(15), NEGATIVE(14), NEGATIVE(13), NEGATIVE(12), NEGATIVE(11), NEGATIVE(10), NEGATIVE(9), NEGATIVE(8),
    NEGATIVE(7), NEGATIVE(6), NEGATIVE(5), NEGATIVE(4), NEGATIVE(3), NEGATIVE(2), NEGATIVE(1), INTEGER(0),
    INTEGER(1), INTEGER(2), INTEGER(3), INTEGER(4), INTEGER(5), INTEGER(6), INTEGER(7), INTEGER(8),
    INTEGER(9), INTEGER(10), INTEGER(11), INTEGER(12), INTEGER(13), INTEGER(14), INTEGER(15),
    CLASS(16, 4), CLASS(24, 4), CLASS(32, 5), CLASS(48, 5), CLASS(64, 6), CLASS(96, 6),
    CLASS(128, 7), CLASS(192, 7), CLASS(256, 8), CLASS(384, 8), CLASS(512, 9), CLASS(768, 9),
    POWER(10, 11), POWER(11, 12), POWER(12, 13), POWER(13, 14), POWER(14, 15), POWER(15, 16),
    POWER(16, 21), POWER(20, 25), POWER(24, 29), POWER(28, 33), POWER(32, 37), POWER(36, 41),
    POWER(40, 45), POWER(44, 49), POWER(48, 53), POWER(52, 57), POWER(56, 61), POWER(60, 64),
    RUNS(3),  /* of -1 */
    RUNS(2),  /* of 1 */
};

/* ---- Codebooks (§8) -------------------------------------------------------------------------------------------- */

/* For each string of 12 bits the symbol whose code begins it, times 32, and the length of that code. Two more bits say what
   the symbol's tokens may be besides an integer from −15 to 15. Long tokens have more than 56 extra bits. */
enum { HAS_EXTRA_BITS = 1 << 14, IS_RUN_OR_LONG = 1 << 15 };

typedef struct {
    uint16_t codes[1 << LONGEST_CODE];
} Book;

static unsigned kind_of_symbol(unsigned symbol)
{
    if (symbol >= 15 && symbol < 46)
        return 0;
    return symbol >= 46 && symbol < 73 ? HAS_EXTRA_BITS : HAS_EXTRA_BITS | IS_RUN_OR_LONG;
}

/* Canonical codes, ordered by length and then by symbol number, divide the strings of 12 bits among them in this order.
   The code is complete if they leave none and need no more. */
static const char *make_book(Book *book, const unsigned char lengths[SYMBOLS])
{
    unsigned next = 0;
    for (unsigned length = 1; length <= LONGEST_CODE; length++)
        for (unsigned symbol = 0; symbol < SYMBOLS; symbol++) {
            const unsigned strings = 1u << (LONGEST_CODE - length);
            if (lengths[symbol] != length)
                continue;
            if (strings > (1u << LONGEST_CODE) - next)
                return "a book has more codes than there are bit strings";
            for (unsigned i = 0; i < strings; i++)
                book->codes[next + i] = (uint16_t)(symbol << 5 | length | kind_of_symbol(symbol));
            next += strings;
        }
    return next == 1u << LONGEST_CODE ? NULL : "the code of a book is not complete";
}

/* The difference of a length and the one before, modulo 13: from 0 to 12. */
static unsigned next_length_difference(Bits *bits)
{
    unsigned magnitude = 0;
    while (magnitude < 6 && next_bits(bits, 1) == 1)
        magnitude++;
    return magnitude > 0 && next_bits(bits, 1) == 1 ? 13 - magnitude : magnitude;
}

static const char *read_custom_book(Cursor *cursor, Book *book)
{
    unsigned char lengths[SYMBOLS];
    unsigned length = 0;
    Bits bits = {cursor->bytes + cursor->at, (uint64_t)(cursor->length - cursor->at) * 8, 0};
    const unsigned char *bytes;

    for (unsigned symbol = 0; symbol < SYMBOLS; symbol++) {
        length = (length + next_length_difference(&bits)) % 13;
        lengths[symbol] = (unsigned char)length;
    }
    TRY(take(cursor, (bits.at + 31) / 32 * 4, &bytes));
    bits.length = (bits.at + 31) / 32 * 32;
    if (!bits_end_here(&bits, 32))
        return "the padding of a custom book is not 0";
    return make_book(book, lengths);
}

/* ---- Lanes (§9.1) ---------------------------------------------------------------------------------------------- */

enum { MOST_LANES = 32 };

typedef struct {
    const unsigned char *words;
    uint64_t count;  /* of the block's lane words */
    uint64_t at;
    unsigned lanes;  /* 8 or 32 */
    uint32_t buffer[MOST_LANES];
    uint8_t lacks[MOST_LANES];   /* 48 more than the bits that the buffer lacks; from 64 on, it needs a word */
    uint16_t codes[MOST_LANES];  /* those that begin the lanes, of Book */
} Lanes;

static uint32_t next_word(Lanes *lanes)
{
    uint64_t at = lanes->at++;
    return at < lanes->count ? (uint32_t)number(lanes->words + 2 * at, 2) : 0;
}

static void start_lanes(Lanes *lanes)
{
    for (unsigned l = 0; l < lanes->lanes; l++)
        lanes->buffer[l] = next_word(lanes) << 16;
    for (unsigned l = 0; l < lanes->lanes; l++) {
        lanes->buffer[l] |= next_word(lanes);
        lanes->lacks[l] = 48;
    }
}

static void look_up(Lanes *lanes, const Book *book)
{
    for (unsigned l = 0; l < lanes->lanes; l++)
        lanes->codes[l] = book->codes[lanes->buffer[l] >> (32 - LONGEST_CODE)];
}

/* Where a round finds the next words, one for each lane. Those behind the block's words, which are 0, are in the copy. */
static const unsigned char *next_words(const Lanes *lanes, unsigned char copy[2 * MOST_LANES])
{
    const uint64_t left = lanes->at < lanes->count ? lanes->count - lanes->at : 0;

    if (left >= MOST_LANES)
        return lanes->words + 2 * lanes->at;
    memset(copy, 0, 2 * MOST_LANES);
    if (left > 0)
        memcpy(copy, lanes->words + 2 * lanes->at, 2 * (size_t)left);
    return copy;
}

/* Takes the codes of all lanes, refills these, and looks up the next codes, without a branch for each lane. A word that a
   lane does not need is shifted beyond its buffer. */
static PART void advance_all(Lanes *lanes, const Book *book, unsigned count)
{
    unsigned char copy[2 * MOST_LANES];
    const unsigned char *words = next_words(lanes, copy);
    uint8_t needs[MOST_LANES];  /* bytes of words */

    for (unsigned l = 0; l < count; l++) {
        lanes->lacks[l] = (uint8_t)(lanes->lacks[l] + lanes->codes[l] % 32);
        needs[l] = lanes->lacks[l] >= 64 ? 2 : 0;
    }
    for (unsigned l = 0; l < count; l++) {
        const uint64_t word = words[0] | (uint64_t)words[1] << 8;
        const uint32_t buffer = lanes->buffer[l] << lanes->codes[l] % 32 | (uint32_t)(word << lanes->lacks[l] % 64);

        lanes->buffer[l] = buffer;
        lanes->codes[l] = book->codes[buffer >> (32 - LONGEST_CODE)];
        words += needs[l];
    }
    for (unsigned l = 0; l < count; l++) {
        lanes->lacks[l] = (uint8_t)(lanes->lacks[l] - 8 * needs[l]);
        lanes->at += needs[l] / 2;
    }
}

APART TWICE static void advance_lanes(Lanes *lanes, const Book *book)
{
    if (lanes->lanes == MOST_LANES)
        advance_all(lanes, book, MOST_LANES);
    else
        advance_all(lanes, book, 8);
}

static const char *check_end_of_lanes(const Lanes *lanes)
{
    for (unsigned l = 0; l < lanes->lanes; l++)
        if (lanes->buffer[l] != 0)
            return "a lane has bits behind its last code";
    if (lanes->at < lanes->count)
        return "a block has lane words that no lane asks for";
    if (lanes->count > 0 && number(lanes->words + 2 * (lanes->count - 1), 2) == 0)
        return "the last lane word of a block is 0";
    return NULL;
}

/* The extra bits of a token. Far from the end of the stream, one load of 8 bytes has up to 56 of them. What is behind the
   block's extra words is no fault yet: bits_end_here finds it. */
static PART uint64_t extra_of_token(const Token *token, Bits *bits, int far_from_end)
{
    uint64_t extra;

    if (!far_from_end || token->extra_bits > 56)
        return next_bits(bits, token->extra_bits);
    extra = number_of_8(bits->bytes + bits->at / 8) >> bits->at % 8 & token->mask;
    bits->at += token->extra_bits;
    return extra;
}

/* In two's complement. */
static PART uint64_t integer_of_magnitude(uint64_t magnitude, uint64_t is_negative)
{
    return (magnitude ^ (0 - is_negative)) + is_negative;
}

/* Writes an integer of a plane of 32 or 64 bits. */
static PART void put_integer(void *integers, int is_narrow, size_t at, uint64_t integer)
{
    if (is_narrow)
        ((uint32_t *)integers)[at] = (uint32_t)integer;
    else
        ((uint64_t *)integers)[at] = integer;
}

enum { GROUP = 8 };  /* lanes whose tokens are looked at together */

/* What the tokens of a group may be, of the two bits of Book. */
static PART unsigned kinds_of_group(const uint16_t codes[GROUP])
{
    unsigned all = 0;
    for (unsigned i = 0; i < GROUP; i++)
        all |= codes[i];
    return all & (HAS_EXTRA_BITS | IS_RUN_OR_LONG);
}

/* Writes what a round's tokens encode behind the `*filled` integers that a block has already. Returns how many tokens it
   took to fill the block, or all. The zeros of runs are there: planes begin as zeros. `end` is that of the stream.

   Processors cannot foresee the kind of a token. So there is a branch for a group of tokens, the fewer kinds it has the
   faster, and none for a token. Near the end of the block or the stream, every group is taken as one of all kinds. */
static PART unsigned write_round(void *integers, int is_narrow, size_t length, const Lanes *lanes,
                                 Bits *extra_bits, const unsigned char *end, size_t *filled)
{
    const int far_from_end = extra_bits->at / 8 + 8 * (MOST_LANES + 1) <= (size_t)(end - extra_bits->bytes);
    Bits bits = *extra_bits;
    size_t at = *filled;
    unsigned l = 0;

    while (l < lanes->lanes && at < length) {
        const uint16_t *const codes = lanes->codes + l;
        const unsigned kinds = far_from_end && length - at >= GROUP ? kinds_of_group(codes) : IS_RUN_OR_LONG;

        if (kinds == 0) {
            for (unsigned i = 0; i < GROUP; i++, l++)
                put_integer(integers, is_narrow, at++, (uint64_t)(codes[i] >> 5) - 30);
        } else if ((kinds & IS_RUN_OR_LONG) == 0) {
            for (unsigned i = 0; i < GROUP; i++, l++) {
                const Token *const token = &tokens[codes[i] >> 5 & 127];
                const uint64_t doubled = token->doubled + extra_of_token(token, &bits, 1);
                put_integer(integers, is_narrow, at++, integer_of_magnitude(doubled / 2, doubled % 2));
            }
        } else {
            for (unsigned i = 0; i < GROUP && at < length; i++, l++) {
                const Token *const token = &tokens[codes[i] >> 5 & 127];
                const uint64_t extra = extra_of_token(token, &bits, far_from_end);
                const uint64_t of_run = extra & token->run_mask, others = extra - of_run;
                const uint64_t magnitude = token->doubled / 2 + others / 2;  /* twice as much might not fit */
                put_integer(integers, is_narrow, at, integer_of_magnitude(magnitude, (token->doubled + others) % 2));
                at += token->run + (size_t)of_run;
            }
        }
    }
    extra_bits->at = bits.at;
    *filled = at;
    return l;
}

APART static unsigned write_narrow_round(uint32_t *integers, size_t length, const Lanes *lanes,
                                         Bits *extra_bits, const unsigned char *end, size_t *filled)
{
    return write_round(integers, 1, length, lanes, extra_bits, end, filled);
}

APART static unsigned write_wide_round(uint64_t *integers, size_t length, const Lanes *lanes,
                                       Bits *extra_bits, const unsigned char *end, size_t *filled)
{
    return write_round(integers, 0, length, lanes, extra_bits, end, filled);
}

static const char *read_block_of_tokens(Cursor *cursor, const Block *block, const Book *book, unsigned number_of_lanes)
{
    Lanes lanes = {NULL, block->lane_words, 0, number_of_lanes, {0}, {0}, {0}};
    Bits extra_bits = {NULL, block->extra_words * 16, 0};
    const unsigned char *const end = cursor->bytes + cursor->length;
    void *const integers = block->plane->integers;
    size_t filled = 0;
    unsigned count;

    TRY(take(cursor, block->lane_words * 2, &lanes.words));
    TRY(take(cursor, block->extra_words * 2, &extra_bits.bytes));
    start_lanes(&lanes);
    look_up(&lanes, book);
    for (;;) {
        if (block->plane->width == 32)
            count = write_narrow_round((uint32_t *)integers + block->first, block->length, &lanes,
                                       &extra_bits, end, &filled);
        else
            count = write_wide_round((uint64_t *)integers + block->first, block->length, &lanes,
                                     &extra_bits, end, &filled);
        if (filled >= block->length)
            break;
        advance_lanes(&lanes, book);
    }
    if (filled > block->length)
        return "a run reaches over the end of its block";
    for (unsigned l = 0; l < count; l++)
        lanes.buffer[l] <<= lanes.codes[l] % 32;
    TRY(check_end_of_lanes(&lanes));
    return bits_end_here(&extra_bits, 16) ? NULL : "the extra words of a block are not those of its extra bits";
}

/* ---- Bit planes (§9.2) ----------------------------------------------------------------------------------------- */

enum { ALL_0, DENSE, SPARSE };  /* modes */

typedef struct {
    unsigned planes;            /* P */
    unsigned words;             /* of a bit plane: ceil(n / 32) */
    unsigned char modes[64];
    uint64_t flags[64];         /* of sparse bit planes, otherwise 0 */
    Bits halves;                /* the four bits of each flagged word */
} BitPlanes;

static const char *read_modes(Cursor *cursor, BitPlanes *planes, unsigned width)
{
    uint64_t count, byte = 0;
    TRY(take_number(cursor, 1, &count));
    if (count < 1 || count > width)
        return "the number of bit planes is 0, or above the width of the integers";
    planes->planes = (unsigned)count;
    for (unsigned k = 0; k < planes->planes; k++, byte >>= 2) {
        if (k % 4 == 0)
            TRY(take_number(cursor, 1, &byte));
        planes->modes[k] = byte & 3;
        if (planes->modes[k] == 3)
            return "the mode of a bit plane is reserved";
    }
    if (byte != 0)
        return "a bit plane that is not there has a mode";
    if (planes->modes[planes->planes - 1] == ALL_0)
        return "the last bit plane is 0";
    return NULL;
}

static const char *read_flags(Cursor *cursor, BitPlanes *planes)
{
    unsigned flagged = 0;
    for (unsigned k = 0; k < planes->planes; k++) {
        planes->flags[k] = 0;
        if (planes->modes[k] != SPARSE)
            continue;
        TRY(take_number(cursor, 8, &planes->flags[k]));
        if (planes->flags[k] == 0)
            return "a sparse bit plane has no flag";
        if ((planes->flags[k] & ~low_bits(planes->words)) != 0)
            return "a flag is of a word that is not there";
        for (unsigned g = 0; g < planes->words; g++)
            flagged += (unsigned)(planes->flags[k] >> g & 1);
    }
    TRY(take(cursor, (flagged + 1) / 2, &planes->halves.bytes));
    planes->halves.length = (flagged + 1) / 2 * 8;
    planes->halves.at = 0;
    if (flagged % 2 != 0 && planes->halves.bytes[flagged / 2] >> 4 != 0)
        return "the unused half of a byte is not 0";
    return NULL;
}

/* A word of a sparse bit plane: only those of its bytes are there that are not 0. */
static const char *read_sparse_word(Cursor *cursor, Bits *halves, uint64_t *word)
{
    unsigned four_bits = (unsigned)next_bits(halves, 4);
    uint64_t byte;

    *word = 0;
    if (four_bits == 0)
        return "a word with a flag has no bytes";
    for (unsigned j = 0; j < 4; j++) {
        if ((four_bits >> j & 1) == 0)
            continue;
        TRY(take_number(cursor, 1, &byte));
        if (byte == 0)
            return "a byte of a sparse bit plane is 0";
        *word |= byte << 8 * j;
    }
    return NULL;
}

/* Adds bit plane k to the block's integers, which are still the numbers u. */
static const char *read_bit_plane(Cursor *cursor, const Block *block, BitPlanes *planes, unsigned k)
{
    uint64_t any = 0;
    for (unsigned g = 0; g < planes->words; g++) {
        uint64_t word = 0;
        size_t left = block->length - 32 * g;  /* integers that have a bit in the word, if below 32 */

        if (planes->modes[k] == DENSE)
            TRY(take_number(cursor, 4, &word));
        else if ((planes->flags[k] >> g & 1) == 1)
            TRY(read_sparse_word(cursor, &planes->halves, &word));
        if (left < 32 && word >> left != 0)
            return "a bit plane has bits behind the last integer";
        any |= word;
        for (size_t i = block->first + 32 * g; word != 0; i++, word >>= 1)
            put(block->plane, i, get(block->plane, i) | (word & 1) << k);
    }
    return any != 0 || k < planes->planes - 1 ? NULL : "the last bit plane is 0";
}

/* 0, 1, 2, 3, 4, 5 … are 0, 1, −1, 2, −2, 3 …; this wraps to the least integer where it must. */
static uint64_t integer_of_u(uint64_t u)
{
    return u % 2 == 1 ? u / 2 + 1 : 0 - u / 2;
}

static const char *read_block_of_bit_planes(Cursor *cursor, const Block *block)
{
    Cursor bytes = {NULL, (size_t)block->lane_words * 2, 0};
    BitPlanes planes;

    if (block->lane_words % 2 != 0)
        return "the bytes of a block of bit planes are no multiple of 4";
    TRY(take(cursor, block->lane_words * 2, &bytes.bytes));
    if (block->lane_words == 0)
        return NULL;  /* all integers are 0 */
    planes.words = (unsigned)((block->length + 31) / 32);
    TRY(read_modes(&bytes, &planes, block->plane->width));
    TRY(read_flags(&bytes, &planes));
    for (unsigned k = 0; k < planes.planes; k++)
        if (planes.modes[k] != ALL_0)
            TRY(read_bit_plane(&bytes, block, &planes, k));
    TRY(take_padding(&bytes));
    if (bytes.at < bytes.length)
        return "a block has bytes behind its bit planes";
    for (size_t i = block->first; i < block->first + block->length; i++)
        put(block->plane, i, integer_of_u(get(block->plane, i)));
    return NULL;
}

/* ---- Prediction by differences (§6.1) -------------------------------------------------------------------------- */

/* Prefix sums along rows of the fastest axis, or of rows along another axis: each gets the one before added. */
APART TWICE static void sum_up_narrow(uint32_t *integers, size_t row, size_t end)
{
    uint32_t sum = 0;

    if (row == 1)
        for (size_t i = 0; i < end; i++)
            integers[i] = sum += integers[i];
    else
        for (size_t at = row; at < end; at += row)
            for (size_t i = 0; i < row; i++)
                integers[at + i] += integers[at + i - row];
}

APART TWICE static void sum_up_wide(uint64_t *integers, size_t row, size_t end)
{
    uint64_t sum = 0;

    if (row == 1)
        for (size_t i = 0; i < end; i++)
            integers[i] = sum += integers[i];
    else
        for (size_t at = row; at < end; at += row)
            for (size_t i = 0; i < row; i++)
                integers[at + i] += integers[at + i - row];
}

/* Prefix sums along each axis of the set. */
static void sum_up(Plane *plane, unsigned set)
{
    size_t row = 1, rows;
    for (unsigned axis = 0; axis < plane->rank; axis++, row = rows) {
        rows = row * plane->extents[axis];
        for (size_t first = 0; (set >> axis & 1) == 1 && rows > row && first < plane->count; first += rows)
            if (plane->width == 32)
                sum_up_narrow((uint32_t *)plane->integers + first, row, rows);
            else
                sum_up_wide((uint64_t *)plane->integers + first, row, rows);
    }
}

/* ---- Prediction by interpolation (§6.2) ------------------------------------------------------------------------ */

enum { STRIP = 256 };  /* values that a step of a loop has in arrays of its own */

typedef struct {
    size_t index;  /* of the first value */
    size_t count;
} Row;

typedef struct {
    unsigned rough;             /* set of axes */
    int linear;
    unsigned worth;             /* bits 5 and 6 of the predictor */
    int spacing_grows;          /* the grid is that of binary32 (§5.2) */
    const size_t *extents;      /* those of the chunk, by axis */
    size_t strides[4];
    unsigned level;             /* the one that is being restored */
    size_t level_extents[4];    /* G */
    const uint32_t *residuals;  /* the next one */
    uint32_t *positions;
    size_t rows_ready;          /* of this class, with predictions, but without positions */
    size_t values_ready;
    Row rows[STRIP];
    uint32_t predictions[STRIP];
} Interpolation;

/* The neighbours of values along one axis. */
typedef struct {
    size_t next;  /* how far b and c are from the value; a and d are thrice as far */
    int has_a;
    int has_c;
    int has_d;
} Neighbours;

static Neighbours neighbours_of(const Interpolation *ip, unsigned axis, size_t coordinate)
{
    const size_t extent = ip->level_extents[axis];
    Neighbours found = {0, 0, 0, 0};

    found.next = ip->strides[axis] << ip->level;
    found.has_a = coordinate >= 3;
    found.has_c = coordinate + 1 < extent;
    found.has_d = coordinate + 3 < extent;
    return found;
}

/* Adds 16 times the prediction along an axis to the sums of `count` values, which have the same neighbours. The first one
   is at `value`, and each is `apart` from the one before. */
static PART void predict_apart(const Neighbours *axis, int linear, const uint32_t *value, size_t apart, size_t count,
                               uint32_t *restrict sums)
{
    const size_t next = axis->next;
    const uint32_t *a = axis->has_a ? value - 3 * next : value, *b = value - next;
    const uint32_t *c = axis->has_c ? value + next : value, *d = axis->has_d ? value + 3 * next : value;

    if (!axis->has_c && (linear || !axis->has_a))
        for (size_t i = 0; i < count; i++)
            sums[i] += 16 * b[i * apart];
    else if (!axis->has_c)
        for (size_t i = 0; i < count; i++)
            sums[i] += 24 * b[i * apart] - 8 * a[i * apart];
    else if (linear || (!axis->has_a && !axis->has_d))
        for (size_t i = 0; i < count; i++)
            sums[i] += 8 * (b[i * apart] + c[i * apart]);
    else if (!axis->has_d)
        for (size_t i = 0; i < count; i++)
            sums[i] += 12 * b[i * apart] + 6 * c[i * apart] - 2 * a[i * apart];
    else if (!axis->has_a)
        for (size_t i = 0; i < count; i++)
            sums[i] += 6 * b[i * apart] + 12 * c[i * apart] - 2 * d[i * apart];
    else
        for (size_t i = 0; i < count; i++)
            sums[i] += 9 * (b[i * apart] + c[i * apart]) - a[i * apart] - d[i * apart];
}

/* The same. Most values are those of level 0, for which compilers make vector instructions. */
APART TWICE static void predict_along(const Neighbours *axis, int linear, const uint32_t *value, size_t apart, size_t count,
                                uint32_t *sums)
{
    if (apart == 2)
        predict_apart(axis, linear, value, 2, count, sums);
    else
        predict_apart(axis, linear, value, apart, count, sums);
}

/* The same along the row itself, from a coordinate on: a and d are missing at its ends. */
static void predict_along_row(const Interpolation *ip, size_t coordinate, const uint32_t *value, size_t count,
                              uint32_t *sums)
{
    const size_t apart = (size_t)2 << ip->level, extent = ip->level_extents[0];
    size_t equal;  /* values with the same neighbours */

    for (size_t i = 0; i < count; i += equal, coordinate += 2 * equal) {
        const Neighbours found = neighbours_of(ip, 0, coordinate);
        equal = found.has_a && found.has_d ? (extent - 4 - coordinate) / 2 + 1 : 1;
        equal = equal < count - i ? equal : count - i;
        predict_along(&found, ip->linear, value + i * apart, apart, equal, sums + i);
    }
}

/* The sums of `axes` axes become predictions. */
APART TWICE static void divide_sums(uint32_t *sums, size_t count, unsigned axes)
{
    for (size_t i = 0; i < count; i++)
        sums[i] += 8 * axes;
    if (axes == 3)
        for (size_t i = 0; i < count; i++)
            sums[i] = (uint32_t)(signed_32(sums[i]) / 48 - (signed_32(sums[i]) % 48 < 0));
    else
        for (size_t i = 0; i < count; i++)
            sums[i] = (uint32_t)(signed_32(sums[i]) >> (axes == 1 ? 4 : axes == 2 ? 5 : 6));
}

/* The positions of `count` values from their predictions and residuals, in place of the predictions: the prediction and
   `worth` times the residual, or what an escape says. Where spacing grows, a residual is worth 8 from 2^13 on, and the
   position becomes the nearest one of the grid (§5.2). */
APART TWICE static void positions_of_residuals(uint32_t *positions, const uint32_t *residuals, size_t count, uint32_t worth,
                                         int spacing_grows)
{
    const uint32_t growing = spacing_grows ? 7 : 0;

    for (size_t i = 0; i < count; i++) {
        const uint32_t prediction = positions[i], residual = residuals[i];
        const int32_t magnitude = magnitude_of(prediction), size = magnitude_of(residual);
        const uint32_t units = residual * (growing != 0 && magnitude >= 1 << 13 ? 8 : worth);
        const uint32_t position = prediction + (size < 65536 ? units : residual - 98304);
        const int32_t far = magnitude_of(position);
        const int less_1 = (far >= 1 << 13) + 2 * (far >= 1 << 14) + 4 * (far >= 1 << 15);
        const uint32_t apart_less_1 = (uint32_t)less_1 & growing;

        positions[i] = (position + (apart_less_1 + 1) / 2) & ~apart_less_1;
    }
}

/* S: the positions that a residual of 1 is worth. */
static uint32_t worth_of_level(const Interpolation *ip)
{
    static const uint32_t of_levels[3][4] = {{8, 8, 8, 8}, {8, 6, 4, 3}, {8, 4, 2, 1}};
    return of_levels[ip->worth][ip->level < 3 ? ip->level : 3];
}

/* Restores the values that have predictions. */
APART TWICE static void restore_rows(Interpolation *ip)
{
    const size_t apart = (size_t)2 << ip->level;
    const uint32_t *positions = ip->predictions;

    positions_of_residuals(ip->predictions, ip->residuals, ip->values_ready, worth_of_level(ip), ip->spacing_grows);
    ip->residuals += ip->values_ready;
    for (size_t row = 0; row < ip->rows_ready; row++) {
        uint32_t *value = ip->positions + ip->rows[row].index;
        for (size_t i = 0; i < ip->rows[row].count; i++)
            value[i * apart] = *positions++;
    }
    ip->rows_ready = ip->values_ready = 0;
}

/* Along which axes the values of a row of a parity class are interpolated: its own, and others, with the neighbours there. */
typedef struct {
    int along_row;
    unsigned others;
    Neighbours across[3];
    int across_has_c;  /* along one of the others */
} Axes;

/* Predicts values of a row, from the coordinate x on. If no axis across has c, all of them have c along the row, or none. */
static void predict_row(Interpolation *ip, Row row, const Axes *axes, size_t x)
{
    const uint32_t *value = ip->positions + row.index;
    const size_t with_c = (ip->level_extents[0] - x) / 2;
    const int has_c = axes->across_has_c || (axes->along_row && with_c > 0);
    size_t along = axes->along_row ? row.count : 0;  /* values for which the row's axis counts */
    uint32_t *sums;
    unsigned used = 0;

    if (axes->across_has_c && along > with_c)
        along = with_c;
    if (ip->values_ready + row.count > STRIP)
        restore_rows(ip);
    sums = ip->predictions + ip->values_ready;
    ip->rows[ip->rows_ready++] = row;
    ip->values_ready += row.count;
    memset(sums, 0, row.count * sizeof *sums);
    for (unsigned i = 0; i < axes->others; i++)
        if (axes->across[i].has_c == has_c) {
            predict_along(&axes->across[i], ip->linear, value, (size_t)2 << ip->level, row.count, sums);
            used++;
        }
    if (along > 0)
        predict_along_row(ip, x, value, along, sums);
    divide_sums(sums, along, used + 1);
    divide_sums(sums + along, row.count - along, used);
}

/* Predicts the values of a parity class with these coordinates along all axes but the fastest. */
static void predict_rows(Interpolation *ip, unsigned set, const size_t at[4])
{
    const unsigned counted = (set & ~ip->rough) != 0 ? set & ~ip->rough : set;
    const size_t extent = ip->level_extents[0];
    Axes axes = {0};
    Row row = {0, 0};

    axes.along_row = counted & 1;
    for (unsigned axis = 1; axis < 4; axis++) {
        row.index += (at[axis] << ip->level) * ip->strides[axis];
        if ((counted >> axis & 1) == 1) {
            axes.across[axes.others] = neighbours_of(ip, axis, at[axis]);
            axes.across_has_c |= axes.across[axes.others++].has_c;
        }
    }
    row.index += (size_t)(set & 1) << ip->level;
    for (size_t x = set & 1; x < extent; x += 2 * row.count, row.index += row.count * ((size_t)2 << ip->level)) {
        row.count = (extent - x + 1) / 2;
        if (axes.along_row && axes.others > 0 && !axes.across_has_c && row.count > 1 && extent % 2 == 0)
            row.count--;  /* the last value has no c */
        row.count = row.count < STRIP ? row.count : STRIP;
        predict_row(ip, row, &axes, x);
    }
}

/* Restores the values of a parity class, in C order: coordinates are odd along the axes of the set, otherwise even. */
static void restore_class(Interpolation *ip, unsigned set)
{
    const size_t *extents = ip->level_extents;
    size_t at[4];

    for (at[3] = set >> 3 & 1; at[3] < extents[3]; at[3] += 2)
        for (at[2] = set >> 2 & 1; at[2] < extents[2]; at[2] += 2)
            for (at[1] = set >> 1 & 1; at[1] < extents[1]; at[1] += 2)
                predict_rows(ip, set, at);
    restore_rows(ip);
}

static unsigned axes_of(unsigned set)
{
    return (set & 1) + (set >> 1 & 1) + (set >> 2 & 1) + (set >> 3 & 1);
}

static void restore_level(Interpolation *ip)
{
    for (unsigned axis = 0; axis < 4; axis++)
        ip->level_extents[axis] = ((ip->extents[axis] - 1) >> ip->level) + 1;
    for (unsigned axes = 1; axes <= 4; axes++)
        for (unsigned set = 1; set < 16; set++)
            if (axes_of(set) == axes)
                restore_class(ip, set);  /* a class has no values if an axis of its set has an extent of 1 */
}

/* The last level is the first one of a single value. */
static unsigned last_level(const size_t extents[4])
{
    size_t longest_less_1 = 0;
    unsigned level = 0;
    for (unsigned axis = 0; axis < 4; axis++)
        if (extents[axis] - 1 > longest_less_1)
            longest_less_1 = extents[axis] - 1;
    for (; longest_less_1 > 0; longest_less_1 >>= 1)
        level++;
    return level;
}

/* Replaces a plane's residuals by the positions in C order. */
static const char *interpolate(Plane *plane, unsigned predictor, int spacing_grows)
{
    Interpolation ip;
    size_t stride = 1;

    ip.rows_ready = ip.values_ready = 0;
    ip.positions = calloc(plane->count, sizeof *ip.positions);
    if (ip.positions == NULL)
        return no_memory;
    ip.rough = predictor & 15;
    ip.linear = predictor >> 4 & 1;
    ip.worth = predictor >> 5 & 3;
    ip.spacing_grows = spacing_grows;
    ip.residuals = plane->integers;
    ip.extents = plane->extents;
    for (unsigned axis = 0; axis < 4; stride *= plane->extents[axis++])
        ip.strides[axis] = stride;
    ip.level = last_level(ip.extents);
    positions_of_residuals(ip.positions, ip.residuals++, 1, worth_of_level(&ip), spacing_grows);
    while (ip.level-- > 0)
        restore_level(&ip);
    free_integers(plane);
    plane->integers = ip.positions;
    return NULL;
}

/* ---- Planes (§4) ----------------------------------------------------------------------------------------------- */

typedef struct {
    unsigned predictor;
    unsigned codebook;
    size_t block_length;
    unsigned index_bits;        /* W */
    unsigned extra_index_bits;  /* E */
    unsigned lanes;
    Book book;
} PlaneHeader;

static const char *check_predictor(unsigned predictor, unsigned rank, int may_be_interpolated)
{
    unsigned axes = predictor < 128 ? predictor : predictor & 15;
    if (axes >> rank != 0)
        return "the predictor has an axis that the plane has not";
    if (predictor >= 224)
        return "the predictor is reserved";
    if (predictor >= 128 && !may_be_interpolated)
        return "the plane may not be interpolated";
    return NULL;
}

static const char *read_plane_header(Cursor *cursor, unsigned rank, int may_be_interpolated, PlaneHeader *header)
{
    const unsigned char *bytes;
    unsigned fields;

    TRY(take(cursor, 4, &bytes));
    header->predictor = bytes[0];
    header->codebook = bytes[1];
    fields = (unsigned)number(bytes + 2, 2);
    header->block_length = (size_t)2048 << (fields & 7);
    header->index_bits = fields >> 3 & 63;
    header->extra_index_bits = fields >> 9 & 63;
    header->lanes = fields >> 15 == 0 ? 32 : 8;

    TRY(check_predictor(header->predictor, rank, may_be_interpolated));
    if ((fields & 7) > 5)
        return "the block length is reserved";
    if (header->index_bits > 32 || header->extra_index_bits > 32)
        return "the width of a field of the block index is reserved";
    if (header->codebook == NO_BOOK && ((fields & 7) != 0 || header->extra_index_bits != 0 || header->lanes != 32))
        return "bit planes have another block length than 2048, extra words or 8 lanes";
    if (header->codebook == NO_BOOK)
        return NULL;
    if (header->codebook == CUSTOM_BOOK)
        return read_custom_book(cursor, &header->book);
    if (header->codebook >= sizeof dictionary / sizeof *dictionary)
        return "the codebook is reserved";
    return make_book(&header->book, dictionary[header->codebook]);
}

static const char *read_block_index(Cursor *cursor, const PlaneHeader *header, size_t count, Bits *index)
{
    uint64_t blocks = (count - 1) / header->block_length + 1;
    uint64_t bits = blocks * (header->index_bits + header->extra_index_bits);
    Bits padding = {NULL, (bits + 31) / 32 * 32, bits};

    TRY(take(cursor, padding.length / 8, &padding.bytes));
    if (!bits_end_here(&padding, 32))
        return "the padding of a block index is not 0";
    index->bytes = padding.bytes;
    index->length = bits;
    index->at = 0;
    return NULL;
}

/* Allocates the integers only when the block index is known to be there, and leaves them to the caller to free, also
   after a fault. They are the differences or residuals that the blocks code. */
static const char *read_blocks(Cursor *cursor, const PlaneHeader *header, Plane *plane)
{
    Block block = {0};
    Bits index;

    TRY(read_block_index(cursor, header, plane->count, &index));
    plane->integers = plane->memory != NULL ? memset(plane->memory, 0, plane->count * plane->width / 8)
                                            : calloc(plane->count, plane->width / 8);
    if (plane->integers == NULL)
        return no_memory;
    block.plane = plane;
    for (; block.first < plane->count; block.first += block.length) {
        size_t left = plane->count - block.first;
        block.length = left < header->block_length ? left : header->block_length;
        block.lane_words = next_bits(&index, header->index_bits);
        block.extra_words = next_bits(&index, header->extra_index_bits);
        if (header->codebook == NO_BOOK)
            TRY(read_block_of_bit_planes(cursor, &block));
        else
            TRY(read_block_of_tokens(cursor, &block, &header->book, header->lanes));
    }
    return take_padding(cursor);
}

/* `fine_grid`: the size of the values of the fine grid on which the plane may be interpolated, 0 if it may not. */
static const char *read_plane(Cursor *cursor, Plane *plane, unsigned fine_grid)
{
    PlaneHeader header;
    TRY(read_plane_header(cursor, plane->rank, fine_grid != 0, &header));
    plane->interpolated = header.predictor >= 128;
    if (plane->interpolated)
        plane->width = 32;  /* residuals of all types */
    TRY(read_blocks(cursor, &header, plane));
    if (plane->interpolated)
        return interpolate(plane, header.predictor, fine_grid == 4);
    sum_up(plane, header.predictor);
    return NULL;
}

/* ---- Values (§5) ----------------------------------------------------------------------------------------------- */

/* What gives codes their values. */
typedef struct {
    const quire_chunk *chunk;
    const Type *type;
    double step;            /* quantized, logarithmic */
    double lower_limit;     /* quantized; infinite if there is none */
    double upper_limit;
    uint64_t integer_step;  /* steps */
    uint64_t offset;        /* logarithmic */
    uint64_t divisor;       /* decimal */
} Grid;

/* The bits of a binary64 that is rounded to a floating-point type: half to even, to infinity beyond the range. They are
   those of exponent and fraction as one number. The leading bit of a normal value, which is not stored, adds 1 to the
   exponent; rounding up to the next exponent is right by itself. No value is NaN before exceptions come. */
static uint64_t round_to_type(double value, const Type *type)
{
    const unsigned fraction_bits = 8u * type->size - 1 - type->exponent_bits;
    const uint64_t bits = bits_of_double(value), infinity = low_bits(type->exponent_bits) << fraction_bits;
    const uint64_t sign = bits >> 63 << (8 * type->size - 1);
    int exponent = (int)(bits >> 52 & 2047) - 1023 + (int)(low_bits(type->exponent_bits) >> 1);
    uint64_t significand = (bits & low_bits(52)) | (uint64_t)1 << 52, rounded, rest, half;
    unsigned dropped = 52 - fraction_bits;

    if (type->exponent_bits == 11)
        return bits;
    if (exponent < 1) {  /* subnormal in the type: more bits go */
        dropped += exponent < -64 ? 64 : (unsigned)(1 - exponent);
        exponent = 1;
    }
    if (dropped > 54)
        return sign;  /* below half of the least value; binary64's own subnormal values are, too */
    rest = significand & low_bits(dropped);
    half = (uint64_t)1 << (dropped - 1);
    rounded = significand >> dropped;
    if (rest > half || (rest == half && rounded % 2 == 1))
        rounded++;
    rounded += (uint64_t)(exponent - 1) << fraction_bits;
    return sign | (rounded < infinity ? rounded : infinity);
}

/* §5.1: a value below the lower limit becomes that, then one above the upper limit that one. The limits are values of the
   type, so that it does not matter whether values are rounded to the type before or after this. */
static PART double within_limits(double value, double lower, double upper)
{
    value = value < lower ? lower : value;
    return value > upper ? upper : value;
}

/* Codes, converted to binary64. */
APART TWICE static void numbers_of_codes(const Plane *plane, size_t first, size_t count, double *numbers)
{
    const uint32_t *narrow = plane->integers;
    const uint64_t *wide = plane->integers;

    if (plane->width == 32)
        for (size_t i = 0; i < count; i++)
            numbers[i] = signed_32(narrow[first + i]);
    else
        for (size_t i = 0; i < count; i++)
            numbers[i] = (double)signed_64(wide[first + i]);
}

/* §5.1: codes become codes × step. */
APART TWICE static void values_of_difference_grid(const Grid *grid, size_t count, double *values)
{
    const double step = grid->step, lower = grid->lower_limit, upper = grid->upper_limit;
    for (size_t i = 0; i < count; i++)
        values[i] = within_limits(values[i] * step, lower, upper);
}

/* §5.2: the fine grid of interpolation. Sums wrap to 32 bits. */
APART TWICE static void values_of_positions(const Grid *grid, const uint32_t *positions, size_t count, double *values)
{
    const double step = grid->step, lower = grid->lower_limit, upper = grid->upper_limit;
    const double spacing = step * double_of_bits(0x3FBFF7F9FB7C9D76u);

    for (size_t i = 0; i < count; i++) {
        const int32_t steps = signed_32(positions[i] + 4) >> 3;
        const int32_t rest = signed_32(positions[i] - 8 * (uint32_t)steps);
        const double whole = steps * step, part = rest * spacing;
        values[i] = within_limits(whole + part, lower, upper);
    }
}

/* §5.3: an integer is its code; of a negative floating-point number all bits but the sign are inverted. */
static uint64_t value_of_exact_code(const Grid *grid, uint64_t code)
{
    unsigned sign = 8u * grid->type->size - 1;
    return grid->type->exponent_bits > 0 && (code >> sign & 1) == 1 ? code ^ low_bits(sign) : code;
}

/* §5.4: code × step, or the nearest end of the type's range. */
static uint64_t value_of_steps(const Grid *grid, uint64_t code)
{
    const unsigned bits = 8u * grid->type->size;
    const int64_t steps = as_signed(code, grid->type->width);
    const uint64_t magnitude = steps < 0 ? 0 - (uint64_t)steps : (uint64_t)steps;
    uint64_t end = low_bits(bits), product;  /* the range's end on this side of 0, its magnitude */

    if (grid->type->has_sign)
        end = steps < 0 ? end / 2 + 1 : end / 2;
    else if (steps < 0)
        end = 0;
    product = magnitude > end / grid->integer_step ? end : magnitude * grid->integer_step;
    return steps < 0 ? 0 - product : product;
}

static double power_of_2(int n)
{
    if (n > 1023)
        return double_of_bits((uint64_t)2047 << 52);  /* infinity */
    return n < -1022 ? 0.0 : double_of_bits((uint64_t)(n + 1023) << 52);
}

/* §5.5: exp2(y), which is 2^y, from the terms t_0 to t_last. A sum with 1.5 × 2^52 is rounded to an integer, half to even,
   as it has no bits for a fraction. */
static double rounded_power_of_2(double y, const double terms[15], int last)
{
    const double no_fraction = 6755399441055744.0;
    double n, f, p;

    y = y < -2000 ? -2000 : y > 2000 ? 2000 : y;
    n = y + no_fraction;
    n -= no_fraction;
    f = y - n;
    p = terms[last];
    for (int i = last - 1; i >= 0; i--) {
        double product = p * f;
        p = product + terms[i];
    }
    return p * power_of_2((int)n);
}

/* §5.5 */
static void values_of_logarithms(const Grid *grid, const Plane *plane, size_t first, size_t count, double *values)
{
    const double ln_2 = double_of_bits(0x3FE62E42FEFA39EFu);
    const int last = type_of_values(grid->chunk) == BINARY64 ? 14 : 8;
    double terms[15] = {1};

    for (int i = 1; i <= last; i++) {
        double product = terms[i - 1] * ln_2;
        terms[i] = product / i;
    }
    for (size_t i = 0; i < count; i++) {
        const int64_t code = as_signed(get(plane, first + i), plane->width);
        const uint64_t magnitude = code < 0 ? 0 - (uint64_t)code : (uint64_t)code;
        const double y = (double)signed_64(magnitude + grid->offset) * grid->step;
        const double value = rounded_power_of_2(y, terms, last);
        values[i] = code == 0 ? 0 : code < 0 ? -value : value;
    }
}

/* §5.6: codes become codes / divisor. */
APART TWICE static void values_of_decimals(const Grid *grid, size_t count, double *values)
{
    const double divisor = (double)grid->divisor;
    for (size_t i = 0; i < count; i++)
        values[i] /= divisor;
}

/* Whether this machine has the byte order that values have in the chunk. */
static int has_order_of_machine(const quire_chunk *chunk)
{
    const uint16_t one = 1;
    unsigned char first;
    memcpy(&first, &one, 1);
    return chunk->big_endian == (first == 0);
}

/* The low bits of `bits` become a value of the chunk, in its byte order. */
static void write_value(unsigned char *values, const Grid *grid, size_t index, uint64_t bits)
{
    const unsigned size = grid->type->size;
    const uint32_t low = (uint32_t)bits;

    if (size == 4 && has_order_of_machine(grid->chunk))
        memcpy(values + 4 * index, &low, 4);
    else if (size == 8 && has_order_of_machine(grid->chunk))
        memcpy(values + 8 * index, &bits, 8);
    else
        for (unsigned j = 0; j < size; j++)
            values[index * size + j] = (unsigned char)(bits >> 8 * (grid->chunk->big_endian ? size - 1 - j : j));
}

/* Rounds values to the type, and writes them from the value `first` of the chunk on. */
APART TWICE static void write_rounded(unsigned char *values, const Grid *grid, size_t first, size_t count, const double *numbers)
{
    float singles[STRIP];

    if (type_of_values(grid->chunk) == BINARY64 && has_order_of_machine(grid->chunk)) {
        memcpy(values + 8 * first, numbers, 8 * count);
    } else if (type_of_values(grid->chunk) == BINARY32 && has_order_of_machine(grid->chunk)) {
        for (size_t i = 0; i < count; i++)
            singles[i] = (float)numbers[i];
        memcpy(values + 4 * first, singles, 4 * count);
    } else {
        for (size_t i = 0; i < count; i++)
            write_value(values, grid, first + i, round_to_type(numbers[i], grid->type));
    }
}

/* Writes the values of exact codes. */
APART TWICE static void write_exact(unsigned char *values, const Grid *grid, const Plane *plane, size_t first, size_t count)
{
    const int is_float = grid->type->exponent_bits > 0, in_order = has_order_of_machine(grid->chunk);
    uint32_t narrow[STRIP];
    uint64_t wide[STRIP];

    if (in_order && grid->type->size == 4) {
        const uint32_t *codes = (const uint32_t *)plane->integers + first;
        for (size_t i = 0; i < count; i++)
            narrow[i] = codes[i] ^ (signed_32(codes[i]) < 0 && is_float ? 0x7FFFFFFF : 0);
        memcpy(values + 4 * first, narrow, 4 * count);
    } else if (in_order && grid->type->size == 8) {
        const uint64_t *codes = (const uint64_t *)plane->integers + first;
        for (size_t i = 0; i < count; i++)
            wide[i] = codes[i] ^ (signed_64(codes[i]) < 0 && is_float ? ~(uint64_t)0 >> 1 : 0);
        memcpy(values + 8 * first, wide, 8 * count);
    } else {
        for (size_t i = first; i < first + count; i++)
            write_value(values, grid, i, value_of_exact_code(grid, get(plane, i)));
    }
}

/* Writes the values of up to STRIP of a plane's integers. */
static void write_strip(unsigned char *values, const Grid *grid, const Plane *plane, size_t first, size_t count)
{
    double numbers[STRIP];

    switch (grid->chunk->coding) {
    case QUANTIZED:
        if (plane->interpolated) {
            values_of_positions(grid, (const uint32_t *)plane->integers + first, count, numbers);
        } else {
            numbers_of_codes(plane, first, count, numbers);
            values_of_difference_grid(grid, count, numbers);
        }
        break;
    case LOGARITHMIC:
        values_of_logarithms(grid, plane, first, count, numbers);
        break;
    case DECIMAL:
        numbers_of_codes(plane, first, count, numbers);
        values_of_decimals(grid, count, numbers);
        break;
    case STEPS:
        for (size_t i = first; i < first + count; i++)
            write_value(values, grid, i, value_of_steps(grid, get(plane, i)));
        return;
    default:
        write_exact(values, grid, plane, first, count);
        return;
    }
    write_rounded(values, grid, first, count, numbers);
}

/* ---- Bodies (§2, §4) ------------------------------------------------------------------------------------------- */

/* §5.2: the size of the values of the fine grid, 0 if there is none. */
static unsigned fine_grid_of(const Grid *grid)
{
    if (grid->chunk->coding != QUANTIZED)
        return 0;
    if (type_of_values(grid->chunk) == BINARY32)
        return grid->step >= 1e-28 ? 4 : 0;
    return type_of_values(grid->chunk) == BINARY64 && grid->step >= 1e-290 ? 8 : 0;
}

/* The value of a position, rounded to the type. */
static double value_of_limit(const Grid *grid, uint64_t position)
{
    const uint32_t positions[1] = {(uint32_t)position};
    double value;
    values_of_positions(grid, positions, 1, &value);
    return type_of_values(grid->chunk) == BINARY32 ? (float)value : value;
}

static const char *read_limits(Cursor *cursor, Grid *grid)
{
    uint64_t lower, upper;
    double lower_limit, upper_limit;

    TRY(take_number(cursor, 4, &lower));
    TRY(take_number(cursor, 4, &upper));
    if (fine_grid_of(grid) == 0)
        return "there are limits, but no fine grid";
    if (as_signed(lower, 32) > as_signed(upper, 32))
        return "the lower limit is above the upper one";
    lower_limit = as_signed(lower, 32) > INT32_MIN ? value_of_limit(grid, lower) : grid->lower_limit;
    upper_limit = as_signed(upper, 32) < INT32_MAX ? value_of_limit(grid, upper) : grid->upper_limit;
    grid->lower_limit = lower_limit;
    grid->upper_limit = upper_limit;
    return NULL;
}

/* Bit 63 of a quantized body's half step says that limits follow. */
static const char *read_half_step(Cursor *cursor, Grid *grid)
{
    uint64_t bits;
    double half_step;
    int has_limits;

    TRY(take_number(cursor, 8, &bits));
    has_limits = grid->chunk->coding == QUANTIZED && bits >> 63 == 1;
    half_step = double_of_bits(has_limits ? bits & low_bits(63) : bits);
    grid->step = 2 * half_step;
    if (!(half_step > 0) || !is_finite(half_step) || !is_finite(grid->step) || !is_finite(1 / grid->step))
        return "the half step is not above 0, or twice it or the inverse of that is not finite";
    return has_limits ? read_limits(cursor, grid) : NULL;
}

static const char *read_bound(Cursor *cursor, Grid *grid)
{
    uint64_t bound;
    TRY(take_number(cursor, 8, &bound));
    if (bound < 1 || bound > low_bits(grid->type->width - 1u))
        return "the bound of steps is 0 or too great";
    grid->integer_step = 2 * bound + 1;
    return NULL;
}

static const char *read_divisor(Cursor *cursor, Grid *grid)
{
    TRY(take_number(cursor, 8, &grid->divisor));
    if (grid->divisor < 1 || grid->divisor > (uint64_t)1 << 53)
        return "the divisor of decimals is 0 or too great";
    return NULL;
}

static const char *read_grid(Cursor *cursor, Grid *grid)
{
    if (grid->chunk->coding == STEPS)
        return read_bound(cursor, grid);
    if (grid->chunk->coding == DECIMAL)
        return read_divisor(cursor, grid);
    TRY(read_half_step(cursor, grid));
    return grid->chunk->coding == LOGARITHMIC ? take_number(cursor, 8, &grid->offset) : NULL;
}

/* The list of exceptions is in the stream before the values that they replace, so it is kept until these are there. */
typedef struct {
    uint64_t count;
    unsigned index_size;           /* bytes of the count and of an index */
    int few;
    const unsigned char *indices;  /* if few */
    const unsigned char *bits;     /* if few */
} Exceptions;

static const char *read_list(Cursor *cursor, const quire_chunk *chunk, Exceptions *exceptions)
{
    uint64_t least = 0;  /* that the next index can be */
    TRY(take(cursor, exceptions->count * exceptions->index_size, &exceptions->indices));
    TRY(take(cursor, exceptions->count * types[type_of_values(chunk)].size, &exceptions->bits));
    for (uint64_t i = 0; i < exceptions->count; i++) {
        uint64_t index = number(exceptions->indices + i * exceptions->index_size, exceptions->index_size);
        if (index < least || index >= chunk->count)
            return "the indices of exceptions do not ascend, or one is beyond the chunk";
        least = index + 1;
    }
    return take_padding(cursor);
}

static const char *read_exceptions(Cursor *cursor, const quire_chunk *chunk, Exceptions *exceptions)
{
    exceptions->index_size = chunk->count >> 32 == 0 ? 4 : 8;
    TRY(take_number(cursor, exceptions->index_size, &exceptions->count));
    if (exceptions->count > chunk->count)
        return "there are more exceptions than values";
    exceptions->few = exceptions->count >= 1 && exceptions->count <= 16 + chunk->count / 4096;
    return exceptions->few ? read_list(cursor, chunk, exceptions) : NULL;
}

static void write_list(const Exceptions *exceptions, const Grid *grid, unsigned char *values)
{
    for (uint64_t i = 0; i < exceptions->count; i++) {
        uint64_t index = number(exceptions->indices + i * exceptions->index_size, exceptions->index_size);
        uint64_t bits = number(exceptions->bits + i * grid->type->size, grid->type->size);
        write_value(values, grid, (size_t)index, bits);
    }
}

/* The plane of exception bits, behind the mask. Processors cannot foresee the mask's bits, so there is no branch for one. */
static const char *read_exception_bits(Cursor *cursor, const Plane *mask, size_t exceptions, const Grid *grid,
                                       unsigned char *values)
{
    Plane bits = plane_of_exception_bits(exceptions, grid->type->width);
    const char *fault = read_plane(cursor, &bits, 0);
    const uint32_t *is_exception = mask->integers;  /* bit 0 */
    size_t indices[STRIP], next = 0;

    for (size_t first = 0; fault == NULL && first < mask->count; first += STRIP) {
        size_t found = 0;
        for (size_t i = first; i < mask->count && i < first + STRIP; i++) {
            indices[found] = i;
            found += is_exception[i] & 1;
        }
        for (size_t i = 0; i < found; i++)
            write_value(values, grid, indices[i], get(&bits, next++));
    }
    free(bits.integers);
    return fault;
}

static const char *count_exceptions(const Plane *mask, uint64_t exceptions)
{
    const uint32_t *bits = mask->integers;
    size_t ones = 0;
    for (size_t i = 0; i < mask->count; i++)
        ones += bits[i] & 1;
    return ones == exceptions ? NULL : "the exception mask has not as many ones as there are exceptions";
}

static const char *read_mask_and_bits(Cursor *cursor, const Exceptions *exceptions, const Grid *grid,
                                      unsigned char *values)
{
    Plane mask = plane_of_chunk(grid->chunk, 32);
    const char *fault = read_plane(cursor, &mask, 0);

    if (fault == NULL)
        fault = count_exceptions(&mask, exceptions->count);
    if (fault == NULL)
        fault = read_exception_bits(cursor, &mask, (size_t)exceptions->count, grid, values);
    free(mask.integers);
    return fault;
}

/* The plane of codes or of residuals, and the values that it gives. These take the place of codes that are as long. */
static const char *read_values(Cursor *cursor, const Grid *grid, unsigned char *values)
{
    Plane plane = plane_of_chunk(grid->chunk, grid->type->width);
    const char *fault;

    plane.memory = 8u * grid->type->size == plane.width ? values : NULL;
    fault = read_plane(cursor, &plane, fine_grid_of(grid));
    if (fault == NULL)
        for (size_t first = 0; first < plane.count; first += STRIP)
            write_strip(values, grid, &plane, first, plane.count - first < STRIP ? plane.count - first : STRIP);
    free_integers(&plane);
    return fault;
}

static const char *read_body_with_grid(Cursor *cursor, Grid *grid, unsigned char *values)
{
    Exceptions exceptions = {0};
    TRY(read_grid(cursor, grid));
    TRY(read_exceptions(cursor, grid->chunk, &exceptions));
    TRY(read_values(cursor, grid, values));
    if (exceptions.few)
        write_list(&exceptions, grid, values);
    else if (exceptions.count > 0)
        return read_mask_and_bits(cursor, &exceptions, grid, values);
    return NULL;
}

static const char *read_stored(Cursor *cursor, const quire_chunk *chunk, unsigned char *values)
{
    const unsigned char *bytes;
    TRY(take(cursor, chunk->bytes, &bytes));
    memcpy(values, bytes, (size_t)chunk->bytes);
    return NULL;
}

static const char *read_constant(Cursor *cursor, const quire_chunk *chunk, unsigned char *values)
{
    const unsigned size = types[type_of_values(chunk)].size;
    const unsigned char *bytes;
    TRY(take(cursor, size, &bytes));
    for (size_t i = 0; i < (size_t)chunk->count; i++)
        memcpy(values + i * size, bytes, size);
    return NULL;
}

static const char *read_body(Cursor *cursor, const quire_chunk *chunk, unsigned char *values)
{
    Grid grid = {0};
    grid.chunk = chunk;
    grid.type = &types[type_of_values(chunk)];
    grid.upper_limit = power_of_2(1024);  /* infinity */
    grid.lower_limit = -grid.upper_limit;
    switch (chunk->coding) {
    case STORED: return read_stored(cursor, chunk, values);
    case CONSTANT: return read_constant(cursor, chunk, values);
    case EXACT: return read_values(cursor, &grid, values);
    default: return read_body_with_grid(cursor, &grid, values);
    }
}

/* The array of all first parts and all second parts becomes pairs (§3). */
static void put_side_by_side(const quire_chunk *chunk, const unsigned char *parts, unsigned char *pairs)
{
    const size_t size = types[type_of_values(chunk)].size, half = (size_t)chunk->bytes / 2;
    for (size_t at = 0; at < half; at += size) {
        memcpy(pairs + 2 * at, parts + at, size);
        memcpy(pairs + 2 * at + size, parts + half + at, size);
    }
}

static const char *read_pairs(Cursor *cursor, const quire_chunk *chunk, unsigned char *pairs)
{
    unsigned char *parts = calloc((size_t)chunk->bytes, 1);
    const char *fault = parts != NULL ? read_body(cursor, chunk, parts) : no_memory;
    if (fault == NULL)
        put_side_by_side(chunk, parts, pairs);
    free(parts);
    return fault;
}

const char *quire_read_body(const unsigned char *stream, size_t stream_length, const quire_chunk *chunk, void *values)
{
    Cursor cursor = {stream, stream_length, chunk->body};
    const char *fault;
    fenv_t mode;

    fegetenv(&mode);
    fesetenv(FE_DFL_ENV);  /* §5 asks for rounding to even */
    fault = has_pairs(chunk) ? read_pairs(&cursor, chunk, values) : read_body(&cursor, chunk, values);
    fesetenv(&mode);
    if (fault != NULL)
        return fault;
    return cursor.at == cursor.length ? NULL : "bytes follow the body";
}

const char *quire_read(const unsigned char *stream, size_t stream_length, void *values, size_t length)
{
    quire_chunk chunk;

    TRY(quire_describe(stream, stream_length, &chunk));
    if (chunk.bytes != length)
        return "the chunk has not the expected length";
    return quire_read_body(stream, stream_length, &chunk, values);
}

int quire_agrees(const quire_chunk *chunk, size_t count, const unsigned words[])
{
    static const unsigned char words_of_mode[12] = {0, 2, 0, 2, 0, 2, 0, 2, 0, 2, 0, 4};
    const unsigned mode = count > 0 ? words[0] & 255 : 12, value_type = chunk->value_type | (unsigned)chunk->big_endian << 7;
    uint64_t values = 1;
    size_t at, rank;

    if (mode >= 12 || (mode > 0 && mode % 2 == 0))
        return 1;
    at = 1 + (size_t)(words[0] >> 24) + 2 * (words[0] >> 20 & 15) + words_of_mode[mode];  /* behind a brick's extents and thresholds */
    if (at >= count || words[at] >> 16 != 0x5101)
        return 1;
    rank = words[at] & 255;
    if (rank < 1 || rank > 4 || count - at <= rank)
        return 1;
    for (size_t axis = 1; axis <= rank; axis++) {
        if (words[at + axis] == 0 || values > chunk->count / words[at + axis])
            return 0;
        values *= words[at + axis];
    }
    return values == chunk->count && (words[at] >> 8 & 255) == value_type;
}
