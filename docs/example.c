/* Writes a field through the H5Z-Quire filter within an absolute error bound, reads it back and checks the bound.
 *
 *     h5cc -shlib docs/example.c -o example -lm       (or: cc example.c $(pkg-config --cflags --libs hdf5) -lm)
 *     HDF5_PLUGIN_PATH=/folder/of/libh5zquire.so ./example out.h5
 *
 * Nothing of the filter is linked or included: HDF5 finds it by its number. docs/c.md explains the steps. */

#include <hdf5.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUIRE_FILTER_ID 33791

/* cd_values for an absolute error bound: mode 1 and the two halves of the bound's IEEE 754 bits, low half first (FORMAT.md, section 10). */
static herr_t set_quire_absolute(hid_t properties, double bound)
{
    uint64_t bits;
    memcpy(&bits, &bound, sizeof bits);
    const unsigned cd_values[] = {1, (unsigned)(bits & 0xffffffffu), (unsigned)(bits >> 32)};
    /* Mandatory: a chunk that cannot be compressed is an error, and not stored as it is without a word. */
    return H5Pset_filter(properties, QUIRE_FILTER_ID, H5Z_FLAG_MANDATORY, 3, cd_values);
}

static void must(int condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "%s failed; HDF5 has printed why above\n", what);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    enum { SIDE = 64 };
    static float values[2 * SIDE][SIDE][SIDE], read[2 * SIDE][SIDE][SIDE];
    const hsize_t extents[] = {2 * SIDE, SIDE, SIDE}, chunk[] = {SIDE, SIDE, SIDE};
    const double bound = 1e-3;
    const char *path = argc > 1 ? argv[1] : "example.h5";

    for (int z = 0; z < 2 * SIDE; z++)
        for (int y = 0; y < SIDE; y++)
            for (int x = 0; x < SIDE; x++)
                values[z][y][x] = (float)(sin(0.05 * x) * cos(0.04 * y) + 0.1 * sin(0.3 * z));

    /* HDF5 looks for a plugin when a dataset is created or read. Asking first gives a clearer answer than a failed H5Dcreate. */
    must(H5Zfilter_avail(QUIRE_FILTER_ID) > 0, "finding the filter (is HDF5_PLUGIN_PATH set?)");

    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t space = H5Screate_simple(3, extents, NULL);
    hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    must(H5Pset_chunk(properties, 3, chunk) >= 0, "setting the chunk shape");
    must(set_quire_absolute(properties, bound) >= 0, "setting the filter");
    hid_t dataset = H5Dcreate2(file, "field", H5T_IEEE_F32LE, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    must(dataset >= 0, "creating the dataset");
    must(H5Dwrite(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0, "writing");
    must(H5Dclose(dataset) >= 0 && H5Pclose(properties) >= 0 && H5Sclose(space) >= 0 && H5Fclose(file) >= 0, "closing");

    /* Opened again: HDF5's chunk cache would give back what was written. */
    file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    dataset = H5Dopen2(file, "field", H5P_DEFAULT);
    must(dataset >= 0 && H5Dread(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, read) >= 0, "reading");
    const double stored = (double)H5Dget_storage_size(dataset);
    must(H5Dclose(dataset) >= 0 && H5Fclose(file) >= 0, "closing");

    double worst = 0;
    for (int z = 0; z < 2 * SIDE; z++)
        for (int y = 0; y < SIDE; y++)
            for (int x = 0; x < SIDE; x++) {
                const double error = fabs((double)read[z][y][x] - (double)values[z][y][x]);
                /* A NaN is no number up to the bound either. */
                if (!(error <= bound)) {
                    fprintf(stderr, "value %d, %d, %d is off by %g, more than %g\n", z, y, x, error, bound);
                    return 1;
                }
                worst = error > worst ? error : worst;
            }
    printf("ratio %.1f, largest error %g within the bound of %g\n", sizeof values / stored, worst, bound);
    return 0;
}
