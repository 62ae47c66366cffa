/* Each rank writes its part of a field through the H5Z-Quire filter, all ranks together, and reads it back to check the bound.
 *
 *     h5pcc -shlib docs/example_mpi.c -o example_mpi -lm       (or: mpicc example_mpi.c $(pkg-config --cflags --libs hdf5-openmpi) -lm)
 *     HDF5_PLUGIN_PATH=/folder/of/libh5zquire.so mpirun -n 2 ./example_mpi out.h5
 *
 * docs/mpi.md has the rules. Without MPI, see example.c. */

#include <hdf5.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>

#define QUIRE_FILTER_ID 33791

/* A rank that fails ends the job: the others may wait for it in a collective call. */
static void must(int condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "%s failed\n", what); /* HDF5 has printed why, if it was one of its calls. */
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

int main(int argc, char **argv)
{
    enum { SIDE = 64 };
    static float values[SIDE][SIDE][SIDE], read[SIDE][SIDE][SIDE];
    const unsigned cd_values[] = {2, 3}; /* an absolute bound of 1e-3 */
    const double bound = 1e-3;
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int z = 0; z < SIDE; z++)
        for (int y = 0; y < SIDE; y++)
            for (int x = 0; x < SIDE; x++)
                values[z][y][x] = (float)(sin(0.05 * x) * cos(0.04 * y) + 0.1 * sin(0.3 * (rank * SIDE + z)));

    must(H5Zfilter_avail(QUIRE_FILTER_ID) > 0, "finding the filter (is HDF5_PLUGIN_PATH set for this rank?)");
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    must(H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL) >= 0, "choosing MPI-IO");
    hid_t file = H5Fcreate(argc > 1 ? argv[1] : "example_mpi.h5", H5F_ACC_TRUNC, H5P_DEFAULT, access);
    must(file >= 0, "creating the file");

    /* One chunk a rank: a chunk that several ranks share would be sent to one of them. */
    const hsize_t part[] = {SIDE, SIDE, SIDE}, extents[] = {(hsize_t)ranks * SIDE, SIDE, SIDE}, start[] = {(hsize_t)rank * SIDE, 0, 0};
    hid_t in_memory = H5Screate_simple(3, part, NULL), in_file = H5Screate_simple(3, extents, NULL);
    hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    must(H5Pset_chunk(properties, 3, part) >= 0, "setting the chunk shape");
    must(H5Pset_filter(properties, QUIRE_FILTER_ID, H5Z_FLAG_MANDATORY, 2, cd_values) >= 0, "setting the filter");
    hid_t dataset = H5Dcreate2(file, "field", H5T_IEEE_F32LE, in_file, H5P_DEFAULT, properties, H5P_DEFAULT);
    must(dataset >= 0, "creating the dataset");

    /* HDF5 refuses independent writes to filtered datasets. A rank that has nothing to write calls H5Dwrite with an empty selection. */
    hid_t together = H5Pcreate(H5P_DATASET_XFER);
    must(H5Pset_dxpl_mpio(together, H5FD_MPIO_COLLECTIVE) >= 0, "asking for collective transfers");
    must(H5Sselect_hyperslab(in_file, H5S_SELECT_SET, start, NULL, part, NULL) >= 0, "selecting this rank's part");
    must(H5Dwrite(dataset, H5T_NATIVE_FLOAT, in_memory, in_file, together, values) >= 0, "writing");
    must(H5Dread(dataset, H5T_NATIVE_FLOAT, in_memory, in_file, together, read) >= 0, "reading");
    const double stored = (double)H5Dget_storage_size(dataset);
    must(H5Dclose(dataset) >= 0 && H5Fclose(file) >= 0, "closing");
    must(H5Pclose(access) >= 0 && H5Pclose(properties) >= 0 && H5Pclose(together) >= 0 && H5Sclose(in_memory) >= 0 && H5Sclose(in_file) >= 0, "closing");

    double worst = 0;
    for (int at = 0; at < SIDE * SIDE * SIDE; at++) {
        const double error = fabs((double)read[0][0][at] - (double)values[0][0][at]);
        /* A NaN is no number up to the bound either. */
        must(error <= bound, "keeping the bound");
        worst = error > worst ? error : worst;
    }
    printf("rank %d of %d: ratio %.1f, largest error %g within the bound of %g\n", rank, ranks, ranks * sizeof values / stored, worst, bound);
    MPI_Finalize();
    return 0;
}
