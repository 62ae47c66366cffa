/* Writes quire_books.h, the lengths of the dictionary's books (§8), from the file books.bin: make_books < books.bin */
#include "quire_reader.h"
#include <stdio.h>

enum { BOOKS = 75, SYMBOLS = 106, BEFORE_LENGTHS = 1 + 8 + 8, FILE_LENGTH = 1 + BOOKS * (BEFORE_LENGTHS + SYMBOLS) };

int main(void)
{
    static unsigned char file[FILE_LENGTH + 1];
    size_t length = fread(file, 1, sizeof file, stdin);

    if (length != FILE_LENGTH || quire_crc32(0, file, length) != 0x2AC90F3Cu || file[0] != BOOKS) {
        fprintf(stderr, "make_books: this is not the dictionary of version 1.0\n");
        return 1;
    }
    printf("/* Code lengths of the dictionary's books. Made by make_books from books.bin: do not edit. */\n");
    printf("static const unsigned char dictionary[%d][%d] = {", BOOKS, SYMBOLS);
    for (int book = 0; book < BOOKS; book++) {
        const unsigned char *lengths = file + 1 + book * (BEFORE_LENGTHS + SYMBOLS) + BEFORE_LENGTHS;
        printf("\n    {");
        for (int symbol = 0; symbol < SYMBOLS; symbol++)
            printf("%s%d,", symbol > 0 && symbol % 36 == 0 ? "\n     " : "", lengths[symbol]);
        printf("},");
    }
    printf("\n};\n");
    return fflush(stdout) != 0;
}
