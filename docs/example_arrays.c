/* Writes a field to a dataset on all cores, past HDF5's filter pipeline, reads it back with H5Dread and on all cores, and checks the bound.
 *
 *     h5cc -shlib -Ifilter/include docs/example_arrays.c -o arrays -Ltarget/release -l:libh5zquire.so -Wl,-rpath,$PWD/target/release -lm
 *     HDF5_PLUGIN_PATH=$PWD/target/release ./arrays out.h5
 *
 * This program links the plugin, whose functions it calls. HDF5 finds the filter by its number as in example.c; docs/c.md explains the steps. */

#include <h5z_quire.h>
#include <hdf5.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define QUIRE_FILTER_ID 33791

enum { DEPTH = 130, SIDE = 64 };
static float values[DEPTH][SIDE][SIDE], from_hdf5[DEPTH][SIDE][SIDE], on_all_cores[DEPTH][SIDE][SIDE];

static void must(int condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "%s failed; HDF5 has printed why above\n", what);
        exit(1);
    }
}

/* Ends the program with the reason of a call that has failed. */
static void must_be_ok(int status, quire_bytes *reason)
{
    if (status != QUIRE_OK) {
        fprintf(stderr, "status %d: %s\n", status, reason->address ? (char *)reason->address : "no memory");
        exit(1);
    }
    quire_free(reason);
}

/* The largest distance of two fields. A NaN is larger than any. */
static double distance(float left[DEPTH][SIDE][SIDE], float right[DEPTH][SIDE][SIDE])
{
    double largest = 0;
    for (int at = 0; at < DEPTH * SIDE * SIDE; at++) {
        const double error = fabs((double)left[0][0][at] - (double)right[0][0][at]);
        if (!(error <= largest))
            largest = error;
    }
    return largest;
}

int main(int argc, char **argv)
{
    const hsize_t extents[] = {DEPTH, SIDE, SIDE}, chunk[] = {32, 32, 32};
    const unsigned cd_values[] = {2, 3}; /* an absolute bound of 1e-3 */
    const double bound = 1e-3;
    const char *path = argc > 1 ? argv[1] : "arrays.h5";
    quire_bytes reason;

    for (int z = 0; z < DEPTH; z++)
        for (int y = 0; y < SIDE; y++)
            for (int x = 0; x < SIDE; x++)
                values[z][y][x] = (float)(sin(0.05 * x) * cos(0.04 * y) + 0.1 * sin(0.3 * z));

    must(H5Zfilter_avail(QUIRE_FILTER_ID) > 0, "finding the filter (is HDF5_PLUGIN_PATH set?)");
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t space = H5Screate_simple(3, extents, NULL);
    hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    must(H5Pset_chunk(properties, 3, chunk) >= 0, "setting the chunk shape");
    must(H5Pset_filter(properties, QUIRE_FILTER_ID, H5Z_FLAG_MANDATORY, 2, cd_values) >= 0, "setting the filter");
    hid_t dataset = H5Dcreate2(file, "field", H5T_IEEE_F32LE, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    must(dataset >= 0, "creating the dataset");

    /* The whole dataset: from index 0 on, values in C order. The address of one of its functions says which HDF5 the dataset is of. */
    const uint64_t count[] = {DEPTH, SIDE, SIDE};
    quire_box box = {.value_type = QUIRE_F32, .rank = 3, .count = count, .values = values};
    must_be_ok(quire_h5_write(dataset, (void *)H5Dwrite, &box, 0, &reason), &reason);

    /* As any program reads it, with H5Dread, here through HDF5's cache, which holds no older values. */
    must(H5Dread(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, from_hdf5) >= 0, "reading");
    box.values = on_all_cores;
    must_be_ok(quire_h5_read(dataset, (void *)H5Dwrite, &box, 0, &reason), &reason);

    /* A box: the slice z = 7, into memory that has its values in reverse order, by negative strides. */
    static float slice[SIDE * SIDE];
    const uint64_t start[] = {7, 0, 0}, one[] = {1, SIDE, SIDE};
    const int64_t strides[] = {0, -(int64_t)(SIDE * sizeof(float)), -(int64_t)sizeof(float)};
    quire_box part = {QUIRE_F32, 3, start, one, strides, &slice[SIDE * SIDE - 1], NULL};
    must_be_ok(quire_h5_read(dataset, (void *)H5Dwrite, &part, 0, &reason), &reason);
    must(slice[SIDE * SIDE - 1] == from_hdf5[7][0][0] && slice[0] == from_hdf5[7][SIDE - 1][SIDE - 1], "reading a slice");

    /* Step by step, for a program that shows progress. */
    quire_transfer *transfer;
    uint64_t done = 0, total = 1;
    box.values = values;
    must_be_ok(quire_h5_begin_write(dataset, (void *)H5Dwrite, &box, 0, &transfer, &reason), &reason);
    while (done < total) {
        quire_transfer_wait(transfer, 100);
        must_be_ok(quire_transfer_step(transfer, &done, &total, &reason), &reason);
    }
    quire_transfer_end(&transfer);

    const double stored = (double)H5Dget_storage_size(dataset);
    must(H5Dclose(dataset) >= 0 && H5Pclose(properties) >= 0 && H5Sclose(space) >= 0 && H5Fclose(file) >= 0, "closing");
    const double worst = distance(values, from_hdf5);
    if (!(worst <= bound) || distance(from_hdf5, on_all_cores) != 0) {
        fprintf(stderr, "values are off by %g, more than %g\n", worst, bound);
        return 1;
    }
    printf("%d chunks, ratio %.1f, largest error %g within the bound of %g\n", (int)total, sizeof values / stored, worst, bound);
    return 0;
}
