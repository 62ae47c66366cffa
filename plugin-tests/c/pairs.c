/* Makes anew, with the HDF5 and the plugin of the system where it runs, what a file of pairs (py/round_trip.py) has.
 *
 *     pairs FILE COPY
 *
 * Each group of FILE is copied. Its `compressed` is written again from `original`, with the same options, and `read` has what FILE's `compressed` was read as.
 * Ends with 0 and the number of groups, or with 1 and the reason on standard error. */

#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>

#define FILTER_ID 33791

/* With the HDF5 error stack already printed by the library, the line number is all that is missing. */
#define MUST(condition)                                                                                      \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "pairs.c:%d: failed: %s\n", __LINE__, #condition);                               \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

/* All values of a dataset, as the file's type has them. */
static void *read_all(hid_t dataset, hid_t type, hid_t space)
{
    void *values = malloc((size_t)H5Sget_simple_extent_npoints(space) * H5Tget_size(type));
    MUST(values && H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    return values;
}

static void write_all(hid_t group, const char *name, hid_t type, hid_t space, hid_t properties, void *values)
{
    hid_t dataset = H5Dcreate2(group, name, type, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    MUST(dataset >= 0 && H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    MUST(H5Dclose(dataset) >= 0);
    free(values);
}

static void make_anew(hid_t from, hid_t to)
{
    hid_t original = H5Dopen2(from, "original", H5P_DEFAULT), compressed = H5Dopen2(from, "compressed", H5P_DEFAULT);
    hid_t type = H5Dget_type(compressed), space = H5Dget_space(compressed), properties = H5Dget_create_plist(compressed);
    /* That of `compressed` may have extents that can grow, which `read` cannot have. */
    hid_t fixed = H5Dget_space(original);
    MUST(fixed >= 0 && type >= 0 && space >= 0 && properties >= 0);
    MUST(H5Ldelete(to, "compressed", H5P_DEFAULT) >= 0);
    write_all(to, "compressed", type, space, properties, read_all(original, type, space));
    write_all(to, "read", type, fixed, H5P_DEFAULT, read_all(compressed, type, space));
    MUST(H5Pclose(properties) >= 0 && H5Sclose(fixed) >= 0 && H5Sclose(space) >= 0 && H5Tclose(type) >= 0);
    MUST(H5Dclose(compressed) >= 0 && H5Dclose(original) >= 0);
}

int main(int argc, char **argv)
{
    MUST(argc == 3);
    /* HDF5 does not load an optional filter to write, and stores chunks without it. */
    MUST(H5Zfilter_avail(FILTER_ID) > 0);
    hid_t from = H5Fopen(argv[1], H5F_ACC_RDONLY, H5P_DEFAULT);
    hid_t to = H5Fcreate(argv[2], H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    H5G_info_t info;
    MUST(from >= 0 && to >= 0 && H5Gget_info(from, &info) >= 0);
    for (hsize_t i = 0; i < info.nlinks; i++) {
        char name[256];
        MUST(H5Lget_name_by_idx(from, ".", H5_INDEX_NAME, H5_ITER_INC, i, name, sizeof name, H5P_DEFAULT) > 0);
        MUST(H5Ocopy(from, name, to, name, H5P_DEFAULT, H5P_DEFAULT) >= 0);
        hid_t source = H5Gopen2(from, name, H5P_DEFAULT), copy = H5Gopen2(to, name, H5P_DEFAULT);
        MUST(source >= 0 && copy >= 0);
        if (H5Lexists(copy, "read", H5P_DEFAULT) > 0)
            MUST(H5Ldelete(copy, "read", H5P_DEFAULT) >= 0);
        make_anew(source, copy);
        MUST(H5Gclose(source) >= 0 && H5Gclose(copy) >= 0);
    }
    MUST(H5Fclose(from) >= 0 && H5Fclose(to) >= 0);
    printf("%d groups\n", (int)info.nlinks);
    return 0;
}
