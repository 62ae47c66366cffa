/* H5Z-Quire's codec for programs that have arrays but no HDF5 dataset, and the way of whole arrays into HDF5 datasets and back on all cores.
 *
 * libh5zquire.so is an HDF5 plugin and this library in one. Link it, or dlopen it: loading starts no thread, touches no GPU and prints nothing.
 * Streams are those that the HDF5 filter writes (FORMAT.md), and do not depend on the machine or its GPU.
 *
 *     uint64_t extents[] = {64, 64, 64};
 *     quire_bytes stream;
 *     if (quire_compress("abs=1e-3", QUIRE_F32, 3, extents, NULL, values, sizeof values, &stream) != QUIRE_OK)
 *         fprintf(stderr, "%s\n", stream.address ? (char *)stream.address : "no memory");
 *     ...
 *     quire_free(&stream);
 *
 * Every function returns a status, and may be called by any number of threads. With a status other than QUIRE_OK the last argument holds the reason, as
 * a text in UTF-8 with a 0 byte behind it (an address of NULL if there was no memory for it). Either way, hand it to quire_free. */
#ifndef H5Z_QUIRE_H
#define H5Z_QUIRE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum quire_status {
    QUIRE_OK = 0,
    QUIRE_INVALID = 1,    /* options, type, extents, lengths or environment make no sense */
    QUIRE_DAMAGED = 2,    /* the stream is truncated, or contradicts FORMAT.md */
    QUIRE_VERSION = 3,    /* the stream is of a format version that this library does not read */
    QUIRE_NO_MEMORY = 4,
    QUIRE_INTERNAL = 5,   /* a bug: please report it */
    QUIRE_UNSUITABLE = 6, /* HDF5 can read or write this, the functions of whole arrays cannot: use H5Dread or H5Dwrite */
    QUIRE_HDF5 = 7,       /* a call of HDF5 or of the system has failed */
    QUIRE_NO_GPU = 8      /* the values are in a GPU's memory, and that GPU cannot be used: copy them to the host */
};

/* Types of elements, as in byte 8 of a stream's header. Each part of a complex number obeys the bound by itself. */
enum quire_value_type {
    QUIRE_F32 = 0,
    QUIRE_F64 = 1,
    QUIRE_F16 = 2,
    QUIRE_BF16 = 3,
    QUIRE_I8 = 4,
    QUIRE_U8 = 5,
    QUIRE_I16 = 6,
    QUIRE_U16 = 7,
    QUIRE_I32 = 8,
    QUIRE_U32 = 9,
    QUIRE_I64 = 10,
    QUIRE_U64 = 11,
    QUIRE_C64 = 12,  /* complex numbers: pairs of binary32, the real part first */
    QUIRE_C128 = 13, /* pairs of binary64 */
    QUIRE_BIG_ENDIAN = 128 /* added to one of them */
};

enum { QUIRE_MAX_RANK = 4 };

/* What a call delivers: `length` bytes from malloc, and a 0 byte behind them. */
typedef struct quire_bytes {
    unsigned char *address;
    size_t length;
} quire_bytes;

/* How the bytes of an array are to be read. Extents are the slowest first; those behind `rank` are 1. */
typedef struct quire_layout {
    uint32_t value_type;
    uint32_t rank;
    uint64_t extents[QUIRE_MAX_RANK];
} quire_layout;

/* Compresses an array.
 *   options     as in README.md, Options: "abs=1e-3", "rel=1e-4,coding=bitshuffle", "lossless", ...
 *   value_type  of every value, with QUIRE_BIG_ENDIAN or without
 *   extents     `rank` of them, 1 to 32, slowest first. Extents of 1 are dropped and the slowest folded together until QUIRE_MAX_RANK are left. With
 *               "brick=32x32x32" among the options the values are taken to lie in such bricks (FORMAT.md, section 10)
 *   fill_value  one value of that type and byte order that comes back bit for bit, or NULL. The parts of a complex one are equal, or one of them is 0 or
 *               not finite
 *   values      the array, `length` bytes in C order, aligned or not
 *   result      receives the stream */
int quire_compress(const char *options, uint32_t value_type, uint32_t rank, const uint64_t *extents, const void *fill_value,
                   const void *values, size_t length, quire_bytes *result);

/* Reads type and extents off a stream of `length` bytes, whose checksum is verified first. */
int quire_read_layout(const void *stream, size_t length, quire_layout *layout, quire_bytes *reason);

/* Decompresses a stream into `values`, whose `length` in bytes must be the size of the type times all extents. After an error the values are unspecified. */
int quire_decompress(const void *stream, size_t stream_length, void *values, size_t length, quire_bytes *reason);

/* Describes a stream without decoding it, as JSON, an object with
 *   coding      "stored", "constant", "quantized", "exact", "steps", "logarithmic" or "decimal"
 *   value_type  "f4", "f8", "f2", "bfloat16", "i1", "u1", "i2", ..., "c8", "c16" (digits are bytes);  byte_order  "little" or "big";  extents
 *   half_step   half the step of the grid, of binary logarithms if the coding is logarithmic; null for exact values and decimals
 *   exceptions  values that are kept bit for bit beside the grid
 *   planes      of the codes, then, where there are many exceptions, of their mask and of their bits, each with
 *     prediction  "differences", "cubic interpolation" or "linear interpolation";  axes  along which, as indices into extents
 *     coding      "huffman" or "bitshuffle"
 *     codebook    number in the dictionary, "custom", or null for bit planes
 *     block_len   in integers;  bytes  of the plane */
int quire_describe(const void *stream, size_t length, quire_bytes *result);

/* Converts options to the filter's parameters in HDF5, which H5Pset_filter takes (FORMAT.md, section 10).
 *   options  as for quire_compress
 *   result   receives an array of unsigned int; its length is in bytes */
int quire_cd_values(const char *options, quire_bytes *result);

/* Converts `count` parameters of the filter to options, as a text. The parameters are a user's, or those that a dataset keeps (H5Pget_filter). */
int quire_options(const unsigned int *cd_values, size_t count, quire_bytes *result);

/* Says what this library is and where it will compute, as JSON, an object with
 *   version, stream_version, filter_id
 *   backend        "cuda", "cpu", or "none" where the environment forbids every call
 *   device         the GPU's name, or null
 *   why            the reason for that backend
 *   kernels_built  whether GPU kernels are in this library
 *   oldest_driver  the version of CUDA that a driver must have for them, such as "CUDA 12.0", or null
 * Opens a GPU where there is one, and waits for it, some 300 ms. */
int quire_info(quire_bytes *result);

/* Compresses `count` arrays of one layout on all cores, and the GPU as quire_compress does.
 *   values   their addresses, of `length` bytes each
 *   threads  1 to 1024, or 0: as many as QUIRE_THREADS says, or as the process may use
 *   streams  receives `count` streams, each to be handed to quire_free. After an error all are NULL and 0, and the reason names the array
 * Each thread takes what quire_compress takes, and no more memory is used but for the streams. With adapt=history there is one thread. */
int quire_compress_batch(const char *options, uint32_t value_type, uint32_t rank, const uint64_t *extents, const void *fill_value,
                         size_t count, const void *const *values, size_t length, uint32_t threads, quire_bytes *streams,
                         quire_bytes *reason);

/* Decompresses `count` streams into arrays of `length` bytes each, which share no bytes with one another or with a stream. After an error the values are
 * unspecified. */
int quire_decompress_batch(size_t count, const void *const *streams, const size_t *stream_lengths, void *const *values, size_t length,
                           uint32_t threads, quire_bytes *reason);

/* Chunks of one layout in the memory of an NVIDIA GPU. Addresses lead to device or managed memory of one GPU, and are multiples of the size of a value. */
typedef struct quire_device_chunks {
    uint32_t value_type;       /* not a complex one */
    uint32_t rank;             /* 1 to 32 */
    const uint64_t *extents;   /* of every chunk, `rank` of them, slowest first */
    size_t count;              /* chunks */
    const uint64_t *addresses; /* of each chunk's first value */
    const int64_t *strides;    /* bytes from one value to the next along each axis, of either sign, multiples of the size of a value, for all chunks; NULL: C order */
    const uint64_t *counts;    /* [count][rank]: values that each chunk has in memory along each axis, from its first value on; NULL: all of them */
    void *stream;              /* a CUstream or cudaStream_t; NULL and 1 are the legacy default stream, 2 is the default stream of the calling thread */
} quire_device_chunks;

/* Compresses chunks where they are, in a GPU's memory, to streams in the host's memory.
 *   options, fill_value  as for quire_compress; adapt=history is refused
 *   chunks   where `counts` says that a chunk has fewer values than its extents, fill values take the place of the others, or zeros without a fill value
 *   streams  receives `chunks->count` streams, each to be handed to quire_free. After an error all are NULL and 0, and the reason names the chunk
 * The streams are those of quire_compress. Waits for what `chunks->stream` was given before, and returns when the values are no longer needed.
 * docs/c.md says which bounds are settled without a look of the host at the values, and how much memory of the GPU is taken.
 * QUIRE_NO_GPU: no kernels, no driver, an old GPU, or QUIRE_BACKEND=cpu. QUIRE_INVALID: an address that is not of a GPU's memory, or of another GPU's. */
int quire_device_compress(const char *options, const void *fill_value, const quire_device_chunks *chunks, quire_bytes *streams,
                          quire_bytes *reason);

/* As quire_device_compress, to streams in the same GPU's memory, one behind the other.
 *   target   where the streams go, `capacity` bytes, at a multiple of 16; 0: nowhere, to learn their lengths
 *   offsets  receives the bytes from `target` to each stream, a multiple of 16;  lengths  receives the bytes of each stream
 * If the capacity does not suffice, the status is QUIRE_INVALID, and offsets and lengths are right all the same: the last of them say how much is needed.
 * A stream has at most 16 bytes more than its chunk has. The streams are complete when the call returns. */
int quire_device_compress_to_device(const char *options, const void *fill_value, const quire_device_chunks *chunks, uint64_t target,
                                    uint64_t capacity, uint64_t *offsets, uint64_t *lengths, quire_bytes *reason);

/* Decompresses streams into chunks in a GPU's memory. Streams are in the host's memory or in that GPU's, as their addresses say; they must be of the type
 * and the extents of the chunks. Where `counts` says that a chunk has fewer values, the others are left out.
 * Waits for what `chunks->stream` was given before, and returns when the values are there. After an error the values are unspecified. */
int quire_device_decompress(const void *const *streams, const size_t *stream_lengths, const quire_device_chunks *chunks, quire_bytes *reason);

/* A box of a dataset of HDF5, and where its values are in memory. */
typedef struct quire_box {
    uint32_t value_type;    /* of the values in memory, which must be the dataset's: nothing is converted */
    uint32_t rank;          /* of the dataset */
    const uint64_t *start;  /* index of the first value along each axis, slowest first; NULL: 0 */
    const uint64_t *count;  /* values along each axis */
    const int64_t *strides; /* bytes from one value to the next along each axis, of either sign; NULL: C order */
    void *values;           /* the first value of the box, in the host's memory or in that of a GPU */
    void *stream;           /* looked at if the values are in a GPU's memory: as in quire_device_chunks; what it was given before is waited for */
} quire_box;

/* Writes, or reads, a box of a dataset that has this filter alone, past HDF5's filter pipeline: on all cores, with the bytes that H5Dwrite would write.
 *   dataset  an identifier (hid_t) of the HDF5 library that the program has loaded; the file stays open
 *   hdf5     the address of any function of that library, as in (void *)H5Dwrite; NULL will do where the process has only one
 *   threads  as above; at most: docs/c.md says where fewer do as well, with a GPU
 * Chunks are written in the order of their indices; those that the box covers in part are read, changed and written. What HDF5's cache holds of a chunk
 * counts as written before. Chunks that the file does not have are read as fill values. Where other threads write to the dataset meanwhile, what is read is no
 * snapshot; writes of theirs to the rest of a chunk are not lost, if a lock that they take, too, is held around each step.
 * With an error, the reason says how many of the chunks are done.
 * Only the calling thread calls HDF5. Besides what the filter takes, each thread takes up to 7 chunks of memory.
 * QUIRE_UNSUITABLE comes before anything is read or written: no chunks, another filter, cd_values that this version does not know, another type; on writing,
 * a file that is read-only or opened with MPI.
 * In a file that was opened with MPI, every process reads and asks alone: no call waits for another process. */
int quire_h5_write(int64_t dataset, const void *hdf5, const quire_box *box, uint32_t threads, quire_bytes *reason);
int quire_h5_read(int64_t dataset, const void *hdf5, const quire_box *box, uint32_t threads, quire_bytes *reason);

/* Says which chunks a dataset has in its file, of whatever filters: delivers the index of the first value of each as uint64_t, one for each axis, slowest first.
 * Chunks come with the last axis fastest. What HDF5's cache has of a chunk is written to the file before. `dataset` and `hdf5` as above.
 * H5Dget_chunk_info, H5Dget_chunk_info_by_coord and H5Dchunk_iter give chunks the indices of others where one axis is unlimited, is not the first one, and
 * the file has the format of HDF5 1.10 or newer. */
int quire_h5_chunk_offsets(int64_t dataset, const void *hdf5, quire_bytes *offsets);

/* The same as writing and reading, step by step, for programs that show progress, may be interrupted, or have a lock around HDF5:
 *
 *     quire_transfer *transfer;
 *     uint64_t done = 0, total = 1;
 *     int status = quire_h5_begin_write(dataset, (void *)H5Dwrite, &box, 0, &transfer, &reason);
 *     while (status == QUIRE_OK && done < total) {
 *         quire_free(&reason);
 *         quire_transfer_wait(transfer, 100);
 *         status = quire_transfer_step(transfer, &done, &total, &reason);
 *     }
 *     quire_transfer_end(&transfer);
 *
 * Beginning and stepping call HDF5, and do not wait for chunks that threads work on; waiting and ending do not call HDF5. A step compresses a chunk itself if
 * only a part of the chunk is written, and another thread of the program has changed the rest meanwhile. The dataset stays open, and the values stay where
 * they are, until the end. A transfer that is ended early leaves the chunks that are not written as they were. */
typedef struct quire_transfer quire_transfer;

/* `transfer` receives NULL after an error. */
int quire_h5_begin_write(int64_t dataset, const void *hdf5, const quire_box *box, uint32_t threads, quire_transfer **transfer, quire_bytes *reason);
int quire_h5_begin_read(int64_t dataset, const void *hdf5, const quire_box *box, uint32_t threads, quire_transfer **transfer, quire_bytes *reason);

/* Writes the streams that are made, and reads those that are wanted next. Says how many chunks are done, and of how many; both may be NULL. */
int quire_transfer_step(quire_transfer *transfer, uint64_t *done, uint64_t *total, quire_bytes *reason);

/* Waits until a step has something to do, for so many milliseconds at most; with one thread, compresses or decompresses a chunk here. */
void quire_transfer_wait(quire_transfer *transfer, uint32_t milliseconds);

/* Ends a transfer, done or not: waits for the chunks that threads work on, frees it, and sets the pointer to NULL. */
void quire_transfer_end(quire_transfer **transfer);

/* What a copy, by whichever compressor, keeps of an array: errors, dSSIM, gradients, spectra (docs/guide.md). The arrays need not be in memory:
 *
 *     quire_report *report;
 *     int status = quire_report_begin(QUIRE_F32, "{\"shape\": [64, 512, 512], \"bound\": 1e-3}", 0, &report, &reason);
 *     while (status == QUIRE_OK && quire_report_next(report, &box) == QUIRE_OK && strcmp((char *)box.address, "null"))
 *         ... read the box [[start, end], ...] of both arrays, and status = quire_report_add(report, original, copy, length, &reason);
 *     quire_report_write(report, QUIRE_TEXT, "", &text);
 *     quire_report_end(&report); */
typedef struct quire_report quire_report;

enum quire_format { QUIRE_TEXT = 0, QUIRE_JSON = 1, QUIRE_HTML = 2, QUIRE_SVG = 3 };

/* Begins a report; `*report` receives NULL after an error.
 *   field    JSON, an object with
 *     shape    extents, slowest first
 *     chunk    extents of the chunks that the copy is stored in, or null: boxes have whole chunks where memory allows
 *     missing  bits of values that stand for none, as whole numbers
 *     bound    the largest error that is allowed, or null
 *   threads  as for quire_compress_batch */
int quire_report_begin(uint32_t value_type, const char *field, uint32_t threads, quire_report **report, quire_bytes *reason);

/* Delivers, as JSON, start and end along each axis of the box that is wanted next; null after the last box. */
int quire_report_next(const quire_report *report, quire_bytes *result);

/* Adds that box of both arrays, `length` bytes each in C order. */
int quire_report_add(quire_report *report, const void *original, const void *copy, size_t length, quire_bytes *reason);

/* Delivers what was found in the boxes so far. `name` is the heading of the page of HTML. */
int quire_report_write(const quire_report *report, uint32_t format, const char *name, quire_bytes *result);

/* Frees a report, and sets the pointer to NULL. */
void quire_report_end(quire_report **report);

/* Frees what a call has delivered, and sets it to NULL and 0. */
void quire_free(quire_bytes *bytes);

#ifdef __cplusplus
}
#endif

#endif
