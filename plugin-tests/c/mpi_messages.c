/* Two processes, one of which sends the other an array with the functions of docs/mpi.md, which the test puts into the file that is included here. */

#include <h5z_quire.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "mpi_messages_of_the_document.h"

enum { EDGE = 40 };

int main(int argc, char **argv)
{
    static float values[EDGE * EDGE * EDGE], received[EDGE * EDGE * EDGE];
    const double bound = 1e-3;
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < EDGE * EDGE * EDGE; i++)
        values[i] = (float)(sin(0.07 * (i % EDGE)) * cos(0.002 * (i / EDGE)));
    if (rank == 0)
        send_cube(values, EDGE, argc > 1 ? argv[1] : "abs=1e-3", 1);
    else if (rank == 1) {
        receive_cube(received, EDGE, 0);
        double worst = 0;
        for (int i = 0; i < EDGE * EDGE * EDGE; i++) {
            const double error = fabs((double)received[i] - (double)values[i]);
            /* A NaN is no number up to the bound either. */
            if (!(error <= bound)) {
                fprintf(stderr, "value %d is off by %g, more than %g\n", i, error, bound);
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
            worst = error > worst ? error : worst;
        }
        printf("received, largest error %g within the bound of %g\n", worst, bound);
    }
    MPI_Finalize();
    return 0;
}
