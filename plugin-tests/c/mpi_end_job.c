/* Processes that create a dataset together. The filter of the last one refuses it, and the functions of docs/mpi.md, which the test puts into the file that is
 * included here, end the job. */

#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "mpi_end_job_of_the_document.h"

int main(int argc, char **argv)
{
    const hsize_t extents[] = {64, 64};
    const unsigned cd_values[] = {2, 3};
    int rank, ranks;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    end_job_on_errors();
    if (rank == ranks - 1)
        setenv("QUIRE_CODEBOOK", "unknown", 1);
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), properties = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
    hid_t file = H5Fcreate(argv[1], H5F_ACC_TRUNC, H5P_DEFAULT, access);
    H5Pset_chunk(properties, 2, extents);
    H5Pset_filter(properties, 33791, H5Z_FLAG_MANDATORY, 2, cd_values);
    hid_t dataset = H5Dcreate2(file, "x", H5T_IEEE_F32LE, H5Screate_simple(2, extents, NULL), H5P_DEFAULT, properties, H5P_DEFAULT);
    printf("rank %d of %d has created the dataset\n", rank, ranks);
    H5Dclose(dataset);
    H5Fclose(file);
    MPI_Finalize();
    return 0;
}
