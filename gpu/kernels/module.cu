// Everything that is loaded as one module: the stages include each other in the order of the data.
#include "transfer.cu"
