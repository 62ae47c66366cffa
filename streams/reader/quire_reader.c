/* A reader of H5Z-Quire streams of version 1.0. Functions are in the order of FORMAT.md, so the file reads like it:
   bytes and bits (§1.3), the header (§3), codebooks (§8), tokens (§7), lanes and bit planes (§9), planes (§4),
   prediction (§6), values (§5), bodies (§2 and §4).

   A function that may find a fault returns NULL or the reason as a text. The reader is plain rather than fast. */
#include "quire_reader.h"
#include "quire_books.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

/* §5 asks for binary64, each operation rounded on its own: compile with -std=c99 -ffp-contract=off. */
#if FLT_RADIX != 2 || DBL_MANT_DIG != 53 || DBL_MAX_EXP != 1024 || (FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 1)
#error "double must be binary64, and its operations must be rounded to binary64"
#endif
#ifdef __FAST_MATH__
#error "the format needs strict arithmetic: do not compile with -ffast-math"
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
    for (unsigned i = 0; i < count; i++, bits->at++)
        if (bits->at < bits->length)
            value |= (uint64_t)(bits->bytes[bits->at / 8] >> bits->at % 8 & 1) << i;
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

static uint64_t low_bits(unsigned count)  /* a number whose lowest 1 to 64 bits are 1 */
{
    return ~(uint64_t)0 >> (64 - count);
}

/* The low `width` bits of a number as a two's complement one. (What a cast gives is the compiler's choice.) */
static int64_t as_signed(uint64_t value, unsigned width)
{
    value &= low_bits(width);
    return value >> (width - 1) == 0 ? (int64_t)value : -(int64_t)(low_bits(width) - value) - 1;
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
    void *integers;     /* allocated, of 4 or 8 bytes each */
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
    Plane plane = {0, {1, 1, 1, 1}, 0, 0, NULL, 0};
    plane.rank = chunk->rank;
    for (unsigned axis = 0; axis < chunk->rank; axis++)
        plane.extents[axis] = (size_t)chunk->extents[chunk->rank - 1 - axis];
    plane.count = (size_t)chunk->count;
    plane.width = width;
    return plane;
}

static Plane plane_of_exception_bits(size_t exceptions, unsigned width)
{
    Plane plane = {1, {1, 1, 1, 1}, 0, 0, NULL, 0};
    plane.extents[0] = plane.count = exceptions;
    plane.width = width;
    return plane;
}

/* Some of a plane's integers, which are coded together. The last block may be shorter than the others. */
typedef struct {
    Plane *plane;
    size_t first;
    size_t length;
    uint64_t lane_words;
    uint64_t extra_words;
} Block;

/* ---- Codebooks (§8) -------------------------------------------------------------------------------------------- */

/* For each string of 12 bits the symbol whose code begins it, and the length of that code. */
typedef struct {
    unsigned char symbol[1 << LONGEST_CODE];
    unsigned char length[1 << LONGEST_CODE];
} Book;

/* Canonical codes, ordered by length and then by symbol number, divide the strings of 12 bits among them in this order.
   The code is complete if they leave none and need no more. */
static const char *make_book(Book *book, const unsigned char lengths[SYMBOLS])
{
    unsigned next = 0;
    for (unsigned length = 1; length <= LONGEST_CODE; length++)
        for (unsigned symbol = 0; symbol < SYMBOLS; symbol++) {
            unsigned strings = 1u << (LONGEST_CODE - length);
            if (lengths[symbol] != length)
                continue;
            if (strings > (1u << LONGEST_CODE) - next)
                return "a book has more codes than there are bit strings";
            memset(book->symbol + next, (int)symbol, strings);
            memset(book->length + next, (int)length, strings);
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

/* ---- Tokens (§7) ----------------------------------------------------------------------------------------------- */

/* The difference that a token class encodes. */
static uint64_t read_difference(unsigned symbol, Bits *extra_bits)
{
    uint64_t start, extra;
    unsigned bits;

    if (symbol < 58) {
        unsigned o = 4 + (symbol - 46) / 2, h = (symbol - 46) % 2;
        start = (1u << o) + (h << (o - 1));
        bits = o;
    } else if (symbol < 64) {
        unsigned o = 10 + (symbol - 58);
        start = 1u << o;
        bits = o + 1;
    } else if (symbol < 75) {
        unsigned g = symbol - 64;
        start = (uint64_t)1 << (16 + 4 * g);
        bits = 21 + 4 * g;
    } else {
        start = (uint64_t)1 << 60;
        bits = 64;
    }
    extra = next_bits(extra_bits, bits);
    return extra % 2 == 0 ? start + extra / 2 : 0 - (start + extra / 2);
}

/* How many integers a run encodes; its symbol is counted from the first one of its kind. */
static size_t read_run(unsigned symbol, Bits *extra_bits)
{
    static const unsigned short start[15] = {2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256, 512, 1024, 2048};
    static const unsigned char bits[15] = {0, 0, 1, 1, 2, 2, 3, 3, 5, 6, 7, 8, 9, 10, 0};
    return start[symbol] + (size_t)next_bits(extra_bits, bits[symbol]);
}

/* Writes what a token encodes behind the `*filled` integers that the block has already. */
static const char *read_token(unsigned symbol, Bits *extra_bits, const Block *block, size_t *filled)
{
    uint64_t integer = 0;
    size_t run = 1;

    if (symbol < 15) {
        run = read_run(symbol, extra_bits);
    } else if (symbol < 46) {
        integer = (uint64_t)symbol - 30;
    } else if (symbol < 76) {
        integer = read_difference(symbol, extra_bits);
    } else if (symbol < 91) {
        integer = ~(uint64_t)0;
        run = read_run(symbol - 76, extra_bits);
    } else {
        integer = 1;
        run = read_run(symbol - 91, extra_bits);
    }
    if (run > block->length - *filled)
        return "a run reaches over the end of its block";
    put(block->plane, block->first + *filled, integer);  /* the run's zeros are there: planes begin as zeros */
    *filled += run;
    return NULL;
}

/* ---- Lanes (§9.1) ---------------------------------------------------------------------------------------------- */

typedef struct {
    const unsigned char *words;
    uint64_t count;  /* of the block's lane words */
    uint64_t at;
    unsigned lanes;  /* 8 or 32 */
    uint32_t buffer[32];
    unsigned available[32];
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
        lanes->available[l] = 32;
    }
}

static void refill_lanes(Lanes *lanes)
{
    for (unsigned l = 0; l < lanes->lanes; l++)
        if (lanes->available[l] <= 16) {
            lanes->buffer[l] |= next_word(lanes) << (16 - lanes->available[l]);
            lanes->available[l] += 16;
        }
}

static unsigned next_symbol(Lanes *lanes, unsigned l, const Book *book)
{
    unsigned begin = lanes->buffer[l] >> (32 - LONGEST_CODE);
    lanes->buffer[l] <<= book->length[begin];
    lanes->available[l] -= book->length[begin];  /* at least 17 before, as lanes are refilled */
    return book->symbol[begin];
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

static const char *read_block_of_tokens(Cursor *cursor, const Block *block, const Book *book, unsigned number_of_lanes)
{
    Lanes lanes = {NULL, block->lane_words, 0, number_of_lanes, {0}, {0}};
    Bits extra_bits = {NULL, block->extra_words * 16, 0};
    size_t filled = 0;

    TRY(take(cursor, block->lane_words * 2, &lanes.words));
    TRY(take(cursor, block->extra_words * 2, &extra_bits.bytes));
    start_lanes(&lanes);
    while (filled < block->length) {
        for (unsigned l = 0; l < lanes.lanes && filled < block->length; l++)
            TRY(read_token(next_symbol(&lanes, l, book), &extra_bits, block, &filled));
        if (filled < block->length)
            refill_lanes(&lanes);
    }
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

/* Prefix sums along each axis of the set. In C order each integer finds the sum before it ready. */
static void sum_up(Plane *plane, unsigned set)
{
    size_t stride = 1;
    for (unsigned axis = 0; axis < plane->rank; stride *= plane->extents[axis++])
        for (size_t i = stride; (set >> axis & 1) == 1 && i < plane->count; i++)
            if (i / stride % plane->extents[axis] != 0)
                put(plane, i, get(plane, i) + get(plane, i - stride));
}

/* ---- Prediction by interpolation (§6.2) ------------------------------------------------------------------------ */

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
} Interpolation;

static int64_t divide_down(int64_t dividend, int64_t divisor)
{
    return dividend >= 0 ? dividend / divisor : -((divisor - 1 - dividend) / divisor);
}

/* 16 times the prediction along one axis, for the value at `index`; `*has_c` says whether the neighbour c exists. */
static uint32_t predict_along(const Interpolation *ip, size_t index, size_t coordinate, unsigned axis, int *has_c)
{
    const size_t next = ip->strides[axis] << ip->level, extent = ip->level_extents[axis];
    const int has_a = coordinate >= 3, has_d = coordinate + 3 < extent;
    const uint32_t a = has_a ? ip->positions[index - 3 * next] : 0;
    const uint32_t b = ip->positions[index - next];
    uint32_t c, d;

    *has_c = coordinate + 1 < extent;
    if (!*has_c)
        return has_a && !ip->linear ? 24 * b - 8 * a : 16 * b;
    c = ip->positions[index + next];
    d = has_d ? ip->positions[index + 3 * next] : 0;
    if (ip->linear || (!has_a && !has_d))
        return 8 * b + 8 * c;
    if (has_a && has_d)
        return 9 * b + 9 * c - a - d;
    return has_a ? 12 * b + 6 * c - 2 * a : 6 * b + 12 * c - 2 * d;
}

/* The position of the grid (§5.2) that is nearest to a position. */
static uint32_t on_grid(const Interpolation *ip, uint32_t position)
{
    const uint32_t magnitude = position >> 31 == 0 ? position : 0 - position;
    uint32_t apart = 1;

    if (ip->spacing_grows)
        apart = magnitude < 1 << 13 ? 1 : magnitude < 1 << 14 ? 2 : magnitude < 1 << 15 ? 4 : 8;
    return (position + apart / 2) & ~(apart - 1);
}

/* The prediction of a value of parity class `set` from all axes that count. */
static uint32_t predict(const Interpolation *ip, size_t index, const size_t at[4], unsigned set)
{
    unsigned axes = (set & ~ip->rough) != 0 ? set & ~ip->rough : set;
    uint32_t sum[2] = {0, 0}, count[2] = {0, 0};  /* of the axes along which c is missing, and of the others */
    int has_c;

    for (unsigned axis = 0; axis < 4; axis++)
        if ((axes >> axis & 1) == 1) {
            uint32_t sixteenfold = predict_along(ip, index, at[axis], axis, &has_c);
            sum[has_c] += sixteenfold;
            count[has_c]++;
        }
    has_c = count[1] > 0;
    return (uint32_t)divide_down(as_signed(sum[has_c] + 8 * count[has_c], 32), 16 * (int64_t)count[has_c]);
}

/* S: the positions that a residual of 1 is worth. */
static uint32_t worth_at(const Interpolation *ip, uint32_t prediction)
{
    static const uint32_t of_levels[3][4] = {{8, 8, 8, 8}, {8, 6, 4, 3}, {8, 4, 2, 1}};
    const uint32_t magnitude = prediction >> 31 == 0 ? prediction : 0 - prediction;

    return ip->spacing_grows && magnitude >= 1 << 13 ? 8 : of_levels[ip->worth][ip->level < 3 ? ip->level : 3];
}

static uint32_t position_of_residual(const Interpolation *ip, uint32_t prediction, uint32_t residual)
{
    int64_t e = as_signed(residual, 32);
    return on_grid(ip, e > -65536 && e < 65536 ? prediction + worth_at(ip, prediction) * residual : prediction + residual - 98304);
}

/* Restores the values of a parity class, in C order: coordinates are odd along the axes of the set, otherwise even. */
static void restore_class(Interpolation *ip, unsigned set)
{
    const size_t *extents = ip->level_extents;
    size_t at[4];

    for (at[3] = set >> 3 & 1; at[3] < extents[3]; at[3] += 2)
        for (at[2] = set >> 2 & 1; at[2] < extents[2]; at[2] += 2)
            for (at[1] = set >> 1 & 1; at[1] < extents[1]; at[1] += 2)
                for (at[0] = set & 1; at[0] < extents[0]; at[0] += 2) {
                    size_t index = 0;
                    for (unsigned axis = 0; axis < 4; axis++)
                        index += (at[axis] << ip->level) * ip->strides[axis];
                    ip->positions[index] = position_of_residual(ip, predict(ip, index, at, set), *ip->residuals++);
                }
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
    Interpolation ip = {0};
    size_t stride = 1;

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
    ip.positions[0] = position_of_residual(&ip, 0, *ip.residuals++);
    while (ip.level-- > 0)
        restore_level(&ip);
    free(plane->integers);
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
    plane->integers = calloc(plane->count, plane->width / 8);
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
    int has_lower_limit;    /* quantized */
    int has_upper_limit;
    uint64_t lower_limit;   /* its value */
    uint64_t upper_limit;
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

/* §5.1 */
static uint64_t value_of_difference_grid(const Grid *grid, uint64_t code)
{
    return round_to_type((double)as_signed(code, grid->type->width) * grid->step, grid->type);
}

/* §5.2: the fine grid of interpolation. Sums wrap to 32 bits. */
static uint64_t value_of_position(const Grid *grid, uint32_t position)
{
    double spacing = grid->step * double_of_bits(0x3FBFF7F9FB7C9D76u);
    int64_t steps = divide_down(as_signed((uint32_t)(position + 4), 32), 8);
    int64_t rest = as_signed((uint32_t)(position - 8 * (uint32_t)steps), 32);
    double whole = (double)steps * grid->step, part = (double)rest * spacing;
    return round_to_type(whole + part, grid->type);
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
static double rounded_power_of_2(double y, int last)
{
    const double ln_2 = double_of_bits(0x3FE62E42FEFA39EFu), no_fraction = 6755399441055744.0;
    double terms[15] = {1}, n, f, p;

    y = y < -2000 ? -2000 : y > 2000 ? 2000 : y;
    n = y + no_fraction;
    n -= no_fraction;
    f = y - n;
    for (int i = 1; i <= last; i++) {
        double product = terms[i - 1] * ln_2;
        terms[i] = product / i;
    }
    p = terms[last];
    for (int i = last - 1; i >= 0; i--) {
        double product = p * f;
        p = product + terms[i];
    }
    return p * power_of_2((int)n);
}

/* §5.5 */
static uint64_t value_of_logarithm(const Grid *grid, uint64_t code)
{
    const int64_t c = as_signed(code, grid->type->width);
    const uint64_t magnitude = c < 0 ? 0 - (uint64_t)c : (uint64_t)c;
    double y, value;

    if (c == 0)
        return 0;
    y = (double)as_signed(magnitude + grid->offset, 64) * grid->step;
    value = rounded_power_of_2(y, type_of_values(grid->chunk) == BINARY64 ? 14 : 8);
    return round_to_type(c < 0 ? -value : value, grid->type);
}

/* §5.6 */
static uint64_t value_of_decimal(const Grid *grid, uint64_t code)
{
    double quotient = (double)as_signed(code, grid->type->width) / (double)grid->divisor;
    return round_to_type(quotient, grid->type);
}

static uint64_t value_of_integer(const Grid *grid, const Plane *plane, size_t index)
{
    uint64_t integer = get(plane, index);
    if (plane->interpolated)
        return value_of_position(grid, (uint32_t)integer);
    switch (grid->chunk->coding) {
    case QUANTIZED: return value_of_difference_grid(grid, integer);
    case STEPS: return value_of_steps(grid, integer);
    case LOGARITHMIC: return value_of_logarithm(grid, integer);
    case DECIMAL: return value_of_decimal(grid, integer);
    default: return value_of_exact_code(grid, integer);
    }
}

/* What values order by: their exact codes (§5.3). No value of a chunk with a fine grid is NaN or −0 before exceptions
   come. */
static int64_t order_of_value(const Grid *grid, uint64_t value)
{
    return as_signed(value_of_exact_code(grid, value), 8u * grid->type->size);
}

/* §5.1: a value below the lower limit becomes that, then one above the upper limit that one. */
static uint64_t within_limits(const Grid *grid, uint64_t value)
{
    if (grid->has_lower_limit && order_of_value(grid, value) < order_of_value(grid, grid->lower_limit))
        value = grid->lower_limit;
    if (grid->has_upper_limit && order_of_value(grid, value) > order_of_value(grid, grid->upper_limit))
        value = grid->upper_limit;
    return value;
}

/* The low bits of `bits` become a value of the chunk, in its byte order. */
static void write_value(unsigned char *values, const Grid *grid, size_t index, uint64_t bits)
{
    const unsigned size = grid->type->size;
    for (unsigned j = 0; j < size; j++)
        values[index * size + j] = (unsigned char)(bits >> 8 * (grid->chunk->big_endian ? size - 1 - j : j));
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

static const char *read_limits(Cursor *cursor, Grid *grid)
{
    uint64_t lower, upper;

    TRY(take_number(cursor, 4, &lower));
    TRY(take_number(cursor, 4, &upper));
    if (fine_grid_of(grid) == 0)
        return "there are limits, but no fine grid";
    if (as_signed(lower, 32) > as_signed(upper, 32))
        return "the lower limit is above the upper one";
    grid->has_lower_limit = as_signed(lower, 32) > INT32_MIN;
    grid->has_upper_limit = as_signed(upper, 32) < INT32_MAX;
    grid->lower_limit = value_of_position(grid, (uint32_t)lower);
    grid->upper_limit = value_of_position(grid, (uint32_t)upper);
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

/* The plane of exception bits, behind the mask. */
static const char *read_exception_bits(Cursor *cursor, const Plane *mask, size_t exceptions, const Grid *grid,
                                       unsigned char *values)
{
    Plane bits = plane_of_exception_bits(exceptions, grid->type->width);
    const char *fault = read_plane(cursor, &bits, 0);
    size_t next = 0;

    if (fault == NULL)
        for (size_t i = 0; i < mask->count; i++)
            if (get(mask, i) % 2 == 1)
                write_value(values, grid, i, get(&bits, next++));
    free(bits.integers);
    return fault;
}

static const char *count_exceptions(const Plane *mask, uint64_t exceptions)
{
    uint64_t ones = 0;
    for (size_t i = 0; i < mask->count; i++)
        ones += get(mask, i) % 2;
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

/* The plane of codes or of residuals, and the values that it gives. */
static const char *read_values(Cursor *cursor, const Grid *grid, unsigned char *values)
{
    Plane plane = plane_of_chunk(grid->chunk, grid->type->width);
    const char *fault = read_plane(cursor, &plane, fine_grid_of(grid));

    if (fault == NULL)
        for (size_t i = 0; i < plane.count; i++)
            write_value(values, grid, i, within_limits(grid, value_of_integer(grid, &plane, i)));
    free(plane.integers);
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

const char *quire_read(const unsigned char *stream, size_t stream_length, void *values, size_t length)
{
    quire_chunk chunk;
    Cursor cursor = {stream, stream_length, 0};

    TRY(quire_describe(stream, stream_length, &chunk));
    if (chunk.bytes != length)
        return "the chunk has not the expected length";
    cursor.at = chunk.body;
    TRY(has_pairs(&chunk) ? read_pairs(&cursor, &chunk, values) : read_body(&cursor, &chunk, values));
    return cursor.at == cursor.length ? NULL : "bytes follow the body";
}
