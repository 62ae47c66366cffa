/* The checksum of streams (§3): zlib's crc32, bit by bit. */
#include "quire_reader.h"

uint32_t quire_crc32(uint32_t crc, const unsigned char *bytes, size_t length)
{
    crc = ~crc;
    for (size_t i = 0; i < length; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);  /* 04C11DB7, reflected */
    }
    return ~crc;
}
