/* Writes datasets through the filter, reads them back, checks the bound, and copies chunks as they are.
 *
 *     round_trip write FILE
 *     round_trip read FILE      only reads what the other has written
 *
 * Built with h5cc. Ends with 0 and one line per dataset, or with 1 and the reason on standard error. */

#include <hdf5.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILTER_ID 33791
#define ROWS 37
#define COLUMNS 53
#define VALUES (ROWS * COLUMNS)

/* With the HDF5 error stack already printed by the library, the line number is all that is missing. */
#define MUST(condition)                                                                                      \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "round_trip.c:%d: failed: %s\n", __LINE__, #condition);                          \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

static const hsize_t extents[2] = {ROWS, COLUMNS};
static const hsize_t chunk[2] = {16, 20};

/* A wave with a block of fill values and every kind of special value. */
static double value_at(int i)
{
    static const double special[] = {NAN, INFINITY, -INFINITY, -0.0, 1e-310, 1e-42, 9.969209968386869e36, 1e35};
    if (i % 61 == 0)
        return special[(i / 61) % 8];
    if (i > VALUES / 2 && i < VALUES / 2 + 200)
        return 1e35;
    return sin(i * 0.01) * 10.0 + cos(i % COLUMNS * 0.2);
}

static hid_t create(hid_t file, const char *name, hid_t type, double bound)
{
    uint64_t bits;
    unsigned cd_values[3] = {1, 0, 0};
    memcpy(&bits, &bound, sizeof bits);
    cd_values[1] = (unsigned)(bits & 0xffffffffu);
    cd_values[2] = (unsigned)(bits >> 32);

    hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    MUST(H5Pset_chunk(properties, 2, chunk) >= 0);
    MUST(H5Pset_filter(properties, FILTER_ID, H5Z_FLAG_MANDATORY, 3, cd_values) >= 0);
    hid_t space = H5Screate_simple(2, extents, NULL);
    hid_t dataset = H5Dcreate2(file, name, type, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    MUST(dataset >= 0);
    MUST(H5Sclose(space) >= 0 && H5Pclose(properties) >= 0);
    return dataset;
}

static int same_bits(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

/* Largest error; the program ends if a value misses the bound. Both arrays hold f64 of the values as the file's type has them. */
static double check(const char *name, const double *wrote, const double *read, double bound)
{
    double largest = 0.0;
    for (int i = 0; i < VALUES; i++) {
        double error = fabs(wrote[i] - read[i]);
        if (isfinite(wrote[i]) ? !(error <= bound) : !same_bits(wrote[i], read[i])) {
            fprintf(stderr, "C program: %s: value %d: wrote %a, read %a, bound %g\n", name, i, wrote[i], read[i], bound);
            exit(1);
        }
        if (isfinite(wrote[i]) && error > largest)
            largest = error;
    }
    return largest;
}

/* Reads the stored bytes of each chunk and writes them into a second dataset; neither passes through the filter. */
static void copy_chunks(hid_t from, hid_t to)
{
    for (hsize_t row = 0; row < ROWS; row += chunk[0]) {
        for (hsize_t column = 0; column < COLUMNS; column += chunk[1]) {
            hsize_t offset[2] = {row, column}, stored = 0;
            uint32_t mask = 99;
            MUST(H5Dget_chunk_storage_size(from, offset, &stored) >= 0);
            unsigned char *bytes = malloc(stored), *again = malloc(stored);
            MUST(bytes && again);
            MUST(H5Dread_chunk(from, H5P_DEFAULT, offset, &mask, bytes) >= 0);
            MUST(mask == 0);
            MUST(H5Dwrite_chunk(to, H5P_DEFAULT, mask, offset, stored, bytes) >= 0);
            MUST(H5Dread_chunk(to, H5P_DEFAULT, offset, &mask, again) >= 0);
            MUST(memcmp(bytes, again, stored) == 0);
            free(bytes);
            free(again);
        }
    }
}

static void write_dataset(hid_t file, const char *name, hid_t file_type, double bound)
{
    static double data[VALUES];
    for (int i = 0; i < VALUES; i++)
        data[i] = value_at(i);
    hid_t dataset = create(file, name, file_type, bound);
    MUST(H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0);
    MUST(H5Dclose(dataset) >= 0);
}

static void read_dataset(hid_t file, const char *name, hid_t file_type, double bound)
{
    static double wrote[VALUES], read[VALUES];
    for (int i = 0; i < VALUES; i++)
        wrote[i] = value_at(i);
    /* HDF5 converts f64 in memory to the file's type. What it makes of the data is what the filter was given. */
    MUST(H5Tconvert(H5T_NATIVE_DOUBLE, file_type, VALUES, wrote, NULL, H5P_DEFAULT) >= 0);
    MUST(H5Tconvert(file_type, H5T_NATIVE_DOUBLE, VALUES, wrote, NULL, H5P_DEFAULT) >= 0);

    hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT);
    MUST(H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, read) >= 0);
    double largest = check(name, wrote, read, bound);
    printf("%s: bound %g, largest error %g, %llu of %zu bytes\n", name, bound, largest,
           (unsigned long long)H5Dget_storage_size(dataset), VALUES * H5Tget_size(file_type));
    MUST(H5Dclose(dataset) >= 0);
}

static void copy_dataset(hid_t file, const char *name, hid_t file_type, double bound)
{
    static double read[VALUES], copied[VALUES];
    char other_name[64];
    hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT);
    MUST(H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, read) >= 0);

    snprintf(other_name, sizeof other_name, "%s_by_chunk", name);
    hid_t other = create(file, other_name, file_type, bound);
    copy_chunks(dataset, other);
    MUST(H5Dread(other, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, copied) >= 0);
    MUST(memcmp(read, copied, sizeof read) == 0);

    MUST(H5Dclose(dataset) >= 0 && H5Dclose(other) >= 0);
}

/* Creation must fail, and the HDF5 error stack must hold `word`. */
static herr_t find_word(unsigned n, const H5E_error2_t *error, void *word)
{
    (void)n;
    return error->desc && strstr(error->desc, (const char *)word) ? 1 : 0;
}

static void refusal(hid_t file)
{
    unsigned cd_values[3] = {77, 0, 0};
    char word[] = "mode";
    hid_t properties = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(2, extents, NULL), dataset;
    MUST(H5Pset_chunk(properties, 2, chunk) >= 0);
    MUST(H5Pset_filter(properties, FILTER_ID, H5Z_FLAG_OPTIONAL, 3, cd_values) >= 0);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    dataset = H5Dcreate2(file, "refused", H5T_IEEE_F32LE, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    MUST(dataset < 0);
    MUST(H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, find_word, word) == 1);
    MUST(H5Sclose(space) >= 0 && H5Pclose(properties) >= 0);
    printf("refusal: its reason is on the error stack\n");
}

int main(int argc, char **argv)
{
    const char *names[4] = {"f32_little", "f32_big", "f64_little", "f64_big"};
    const hid_t types[4] = {H5T_IEEE_F32LE, H5T_IEEE_F32BE, H5T_IEEE_F64LE, H5T_IEEE_F64BE};
    const double bounds[4] = {1e-3, 1e-2, 1e-9, 1e-5};
    unsigned major, minor, release;
    MUST(argc == 3);
    MUST(H5get_libversion(&major, &minor, &release) >= 0);
    printf("C program on HDF5 %u.%u.%u\n", major, minor, release);

    if (strcmp(argv[1], "write") == 0) {
        hid_t file = H5Fcreate(argv[2], H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
        MUST(file >= 0);
        for (int i = 0; i < 4; i++)
            write_dataset(file, names[i], types[i], bounds[i]);
        refusal(file);
        MUST(H5Fclose(file) >= 0);
        /* Opened again: the chunks come from the file, not from the library's cache. */
        file = H5Fopen(argv[2], H5F_ACC_RDWR, H5P_DEFAULT);
        for (int i = 0; i < 4; i++)
            copy_dataset(file, names[i], types[i], bounds[i]);
        MUST(H5Fclose(file) >= 0);
    }
    hid_t file = H5Fopen(argv[2], H5F_ACC_RDONLY, H5P_DEFAULT);
    MUST(file >= 0);
    for (int i = 0; i < 4; i++)
        read_dataset(file, names[i], types[i], bounds[i]);
    MUST(H5Fclose(file) >= 0);
    return 0;
}
