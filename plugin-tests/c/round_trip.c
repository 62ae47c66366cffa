/* Writes datasets of every rank through the filter, reads them back, and checks the bound.
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
#define MAX_RANK 5
#define MAX_VALUES 4096

/* With the HDF5 error stack already printed by the library, the line number is all that is missing. */
#define MUST(condition)                                                                                      \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "round_trip.c:%d: failed: %s\n", __LINE__, #condition);                          \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

/* The chunks divide no extent, so that every axis has a partial chunk at its end. */
static const hsize_t extents[MAX_RANK][MAX_RANK] = {{1003}, {37, 53}, {19, 13, 11}, {5, 9, 11, 7}, {3, 5, 7, 6, 5}};
static const hsize_t chunks[MAX_RANK][MAX_RANK] = {{96}, {16, 20}, {8, 8, 9}, {2, 4, 4, 4}, {2, 2, 4, 4, 3}};

struct dataset {
    char name[32];
    hid_t type;
    double bound;
    int rank;
};

static int count_values(int rank)
{
    int values = 1;
    for (int axis = 0; axis < rank; axis++)
        values *= (int)extents[rank - 1][axis];
    MUST(values <= MAX_VALUES);
    return values;
}

/* A wave with a block of fill values and every kind of special value. */
static double value_at(int i)
{
    static const double special[] = {NAN, INFINITY, -INFINITY, -0.0, 1e-310, 1e-42, 9.969209968386869e36, 1e35};
    if (i % 61 == 0)
        return special[(i / 61) % 8];
    if (i > 400 && i < 600)
        return 1e35;
    return sin(i * 0.01) * 10.0 + cos(i % 53 * 0.2);
}

static hid_t create(hid_t file, const struct dataset *what)
{
    uint64_t bits;
    unsigned cd_values[3] = {1, 0, 0};
    memcpy(&bits, &what->bound, sizeof bits);
    cd_values[1] = (unsigned)(bits & 0xffffffffu);
    cd_values[2] = (unsigned)(bits >> 32);

    hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    MUST(H5Pset_chunk(properties, what->rank, chunks[what->rank - 1]) >= 0);
    MUST(H5Pset_filter(properties, FILTER_ID, H5Z_FLAG_MANDATORY, 3, cd_values) >= 0);
    hid_t space = H5Screate_simple(what->rank, extents[what->rank - 1], NULL);
    hid_t dataset = H5Dcreate2(file, what->name, what->type, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    MUST(dataset >= 0);
    MUST(H5Sclose(space) >= 0 && H5Pclose(properties) >= 0);
    return dataset;
}

static void write_dataset(hid_t file, const struct dataset *what)
{
    static double data[MAX_VALUES];
    for (int i = 0; i < MAX_VALUES; i++)
        data[i] = value_at(i);
    hid_t dataset = create(file, what);
    MUST(H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0);
    MUST(H5Dclose(dataset) >= 0);
}

static void read_dataset(hid_t file, const struct dataset *what)
{
    static double wrote[MAX_VALUES], read[MAX_VALUES];
    int values = count_values(what->rank);
    double largest = 0.0;
    for (int i = 0; i < values; i++)
        wrote[i] = value_at(i);
    /* HDF5 converts f64 in memory to the file's type. What it makes of the data is what the filter was given. */
    MUST(H5Tconvert(H5T_NATIVE_DOUBLE, what->type, values, wrote, NULL, H5P_DEFAULT) >= 0);
    MUST(H5Tconvert(what->type, H5T_NATIVE_DOUBLE, values, wrote, NULL, H5P_DEFAULT) >= 0);

    hid_t dataset = H5Dopen2(file, what->name, H5P_DEFAULT);
    MUST(H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, read) >= 0);
    for (int i = 0; i < values; i++) {
        double error = fabs(wrote[i] - read[i]);
        if (isfinite(wrote[i]) ? !(error <= what->bound) : memcmp(&wrote[i], &read[i], sizeof(double)) != 0) {
            fprintf(stderr, "C program: %s: value %d: wrote %a, read %a, bound %g\n", what->name, i, wrote[i], read[i],
                    what->bound);
            exit(1);
        }
        if (isfinite(wrote[i]) && error > largest)
            largest = error;
    }
    printf("%s: bound %g, largest error %g, %llu of %zu bytes\n", what->name, what->bound, largest,
           (unsigned long long)H5Dget_storage_size(dataset), values * H5Tget_size(what->type));
    MUST(H5Dclose(dataset) >= 0);
}

static herr_t find_word(unsigned n, const H5E_error2_t *error, void *word)
{
    (void)n;
    return error->desc && strstr(error->desc, (const char *)word) ? 1 : 0;
}

/* Creation must fail, and the HDF5 error stack must say why. */
static void refusal(hid_t file)
{
    unsigned cd_values[3] = {77, 0, 0};
    char word[] = "mode 77";
    hid_t properties = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(2, extents[1], NULL), dataset;
    MUST(H5Pset_chunk(properties, 2, chunks[1]) >= 0);
    MUST(H5Pset_filter(properties, FILTER_ID, H5Z_FLAG_OPTIONAL, 3, cd_values) >= 0);
    H5E_BEGIN_TRY
    {
        dataset = H5Dcreate2(file, "refused", H5T_IEEE_F32LE, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    }
    H5E_END_TRY;
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
    struct dataset datasets[4 * MAX_RANK];
    unsigned major, minor, release;
    MUST(argc == 3);
    MUST(H5get_libversion(&major, &minor, &release) >= 0);
    printf("C program on HDF5 %u.%u.%u\n", major, minor, release);

    for (int i = 0; i < 4 * MAX_RANK; i++) {
        struct dataset *what = &datasets[i];
        what->type = types[i % 4];
        what->bound = bounds[i % 4];
        what->rank = i / 4 + 1;
        snprintf(what->name, sizeof what->name, "%s_rank%d", names[i % 4], what->rank);
    }
    if (strcmp(argv[1], "write") == 0) {
        hid_t file = H5Fcreate(argv[2], H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
        MUST(file >= 0);
        for (int i = 0; i < 4 * MAX_RANK; i++)
            write_dataset(file, &datasets[i]);
        refusal(file);
        MUST(H5Fclose(file) >= 0);
    }
    /* Opened again: the chunks come from the file, not from the library's cache. */
    hid_t file = H5Fopen(argv[2], H5F_ACC_RDONLY, H5P_DEFAULT);
    MUST(file >= 0);
    for (int i = 0; i < 4 * MAX_RANK; i++)
        read_dataset(file, &datasets[i]);
    MUST(H5Fclose(file) >= 0);
    return 0;
}
