/* The checksum of streams (§3): zlib's crc32. */
#include "quire_reader.h"

/* What a byte makes of the checksum. */
static uint32_t after_byte(uint32_t crc, unsigned byte)
{
    crc ^= byte;
    for (int bit = 0; bit < 8; bit++)
        crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);  /* 04C11DB7, reflected */
    return crc;
}

enum { STEP = 16 };  /* bytes */

/* Table k has what a byte makes of the checksum if k bytes of 0 follow. */
static void make_tables(uint32_t tables[STEP][256])
{
    for (unsigned byte = 0; byte < 256; byte++)
        tables[0][byte] = after_byte(0, byte);
    for (unsigned k = 1; k < STEP; k++)
        for (unsigned byte = 0; byte < 256; byte++)
            tables[k][byte] = tables[k - 1][byte] >> 8 ^ tables[0][tables[k - 1][byte] & 255];
}

/* STEP bytes at once. Each call makes the tables anew: they take as long as some hundred bytes, and C99 has no lock under
   which threads could make them once. */
static uint32_t after_steps(uint32_t crc, const unsigned char *bytes, size_t steps)
{
    uint32_t tables[STEP][256];

    make_tables(tables);
    for (; steps > 0; steps--, bytes += STEP) {
        uint32_t next = tables[STEP - 1][(bytes[0] ^ crc) & 255] ^ tables[STEP - 2][(bytes[1] ^ crc >> 8) & 255]
            ^ tables[STEP - 3][(bytes[2] ^ crc >> 16) & 255] ^ tables[STEP - 4][bytes[3] ^ crc >> 24];
        for (unsigned i = 4; i < STEP; i++)
            next ^= tables[STEP - 1 - i][bytes[i]];
        crc = next;
    }
    return crc;
}

uint32_t quire_crc32(uint32_t crc, const unsigned char *bytes, size_t length)
{
    size_t done = 0;

    crc = ~crc;
    if (length >= 1024) {
        done = length / STEP * STEP;
        crc = after_steps(crc, bytes, length / STEP);
    }
    for (; done < length; done++)
        crc = after_byte(crc, bytes[done]);
    return ~crc;
}
