/* The reader as an HDF5 filter. It decodes chunks. It refuses to make them, and says why on HDF5's error stack.

   The filter is not linked with HDF5, except on Windows: a program may have several HDF5 libraries, h5py's wheels bring
   one of their own, and a message belongs on the stack of the library that calls. */
#define _GNU_SOURCE  /* dladdr */
#include "quire_reader.h"

#include <H5PLextern.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef _WIN32
#include <dlfcn.h>
#endif
#ifdef _MSC_VER
#include <intrin.h>
#define RETURN_ADDRESS _ReturnAddress()
#else
#define RETURN_ADDRESS __builtin_return_address(0)
#endif

enum { FILTER_ID = 33791 };

static const char only_reads[] =
    "this filter only reads: to write, or to change what is there, install H5Z-Quire's own plugin (pip install h5z-quire) "
    "and name its folder in HDF5_PLUGIN_PATH";

/* ---- Messages -------------------------------------------------------------------------------------------------- */

/* The functions and identifiers of an HDF5 that make an entry of its error stack. */
typedef struct {
    hid_t (*create)(void);
    herr_t (*push)(hid_t, const char *, const char *, unsigned, hid_t, hid_t, hid_t, const char *, ...);
    herr_t (*make_current)(hid_t);
    hid_t class;
    hid_t major;
    hid_t minor;
} ErrorStack;

#ifdef _WIN32

static int find_error_stack(const void *caller, ErrorStack *found)
{
    const ErrorStack linked = {H5Ecreate_stack, H5Epush2, H5Eset_current_stack, H5E_ERR_CLS, H5E_PLINE, H5E_CANTFILTER};
    (void)caller;
    *found = linked;
    return 1;
}

#else

/* From HDF5 2.3 on, filters may run on threads that must not call HDF5. The version is read without a call. */
static int may_be_called(const char *version)
{
    unsigned major, minor;
    return version != NULL && sscanf(version, "HDF5 library version: %u.%u", &major, &minor) == 2
        && (major < 2 || (major == 2 && minor < 3));
}

static int find_identifier(void *hdf5, const char *name, hid_t *identifier)
{
    const hid_t *variable = dlsym(hdf5, name);
    if (variable != NULL)
        *identifier = *variable;
    return variable != NULL;
}

/* Finds them in the library that called. It stays loaded, as it waits for the filter. */
static int find_error_stack(const void *caller, ErrorStack *found)
{
    Dl_info info;
    void *hdf5 = dladdr((void *)(uintptr_t)caller, &info) != 0 ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    int is_whole;

    if (hdf5 == NULL)
        return 0;
    *(void **)&found->create = dlsym(hdf5, "H5Ecreate_stack");
    *(void **)&found->push = dlsym(hdf5, "H5Epush2");
    *(void **)&found->make_current = dlsym(hdf5, "H5Eset_current_stack");
    is_whole = found->create != NULL && found->push != NULL && found->make_current != NULL
        && find_identifier(hdf5, "H5E_ERR_CLS_g", &found->class) && find_identifier(hdf5, "H5E_PLINE_g", &found->major)
        && find_identifier(hdf5, "H5E_CANTFILTER_g", &found->minor) && may_be_called(dlsym(hdf5, "H5_lib_vers_info_g"));
    dlclose(hdf5);
    return is_whole;
}

#endif

/* Puts a text on the error stack of the HDF5 that called. Whether that was possible. HDF5 may have paused its stack, which
   takes no entry then; but another stack can take its place. */
static int push(const void *caller, const char *text)
{
    ErrorStack hdf5;
    hid_t stack;
    int is_pushed;

    if (!find_error_stack(caller, &hdf5))
        return 0;
    stack = hdf5.create();
    is_pushed = hdf5.push(stack, __FILE__, "quire", __LINE__, hdf5.class, hdf5.major, hdf5.minor, "%s", text) >= 0;
    return hdf5.make_current(stack) >= 0 && is_pushed;
}

/* The reason of a failure goes to the error stack, or else to stderr. */
static void report(const void *caller, const char *reason)
{
    char text[512];
    snprintf(text, sizeof text, "H5Z-Quire: %s", reason);
    if (!push(caller, text))
        fprintf(stderr, "%s\n", text);
}

/* ---- Chunks ---------------------------------------------------------------------------------------------------- */

/* Decodes a stream into memory of its own. */
static const char *decode(size_t count, const unsigned words[], const void *stream, size_t length, void **values,
                          size_t *bytes)
{
    quire_chunk chunk;
    const char *fault = quire_describe(stream, length, &chunk);

    if (fault != NULL)
        return fault;
    if (!quire_agrees(&chunk, count, words))
        return "the stream belongs to another dataset, or one of the two is damaged: "
               "they differ in length, type or byte order";
    if (chunk.bytes > SIZE_MAX / 2 || (*values = malloc((size_t)chunk.bytes)) == NULL)
        return "no memory for the values";
    fault = quire_read_body(stream, length, &chunk, *values);
    if (fault != NULL)
        free(*values);
    *bytes = (size_t)chunk.bytes;
    return fault;
}

/* The reason that a stream cannot be read, with the version of a stream of another one. */
static void report_stream(const void *caller, const char *fault, const void *stream, size_t length)
{
    char reason[400];
    unsigned major = 1, minor = 0;

    if (quire_version(stream, length, &major, &minor) && (major != 1 || minor != 0))
        snprintf(reason, sizeof reason, "%s: it has version %u.%u", fault, major, minor);
    else
        snprintf(reason, sizeof reason, "%s", fault);
    report(caller, reason);
}

/* HDF5 gives and takes buffers of malloc. Returns the length of the values, or 0 for a failure. */
static size_t filter(unsigned flags, size_t count, const unsigned words[], size_t length, size_t *buffer_size, void **buffer)
{
    const void *caller = RETURN_ADDRESS;
    const char *fault;
    void *values;
    size_t bytes;

    if ((flags & H5Z_FLAG_REVERSE) == 0) {
        report(caller, only_reads);
        return 0;
    }
    fault = decode(count, words, *buffer, length, &values, &bytes);
    if (fault != NULL) {
        report_stream(caller, fault, *buffer, length);
        return 0;
    }
    free(*buffer);
    *buffer = values;
    *buffer_size = bytes;
    return bytes;
}

/* HDF5 asks when a dataset is created. A no of 0 would carry no reason, and count for nothing if the filter is optional. */
static htri_t can_apply(hid_t dcpl, hid_t type, hid_t space)
{
    const void *caller = RETURN_ADDRESS;
    (void)dcpl, (void)type, (void)space;
    report(caller, only_reads);
    return -1;
}

/* ---- What HDF5 asks a plugin ----------------------------------------------------------------------------------- */

/* The class has an encoder, which refuses. Without one, HDF5 would say only that encoding is disabled. */
static const H5Z_class2_t filter_class = {
    H5Z_CLASS_T_VERS, FILTER_ID, 1, 1, "quire (H5Z-Quire, reads only)", can_apply, NULL, filter,
};

H5PL_type_t H5PLget_plugin_type(void)
{
    return H5PL_TYPE_FILTER;
}

const void *H5PLget_plugin_info(void)
{
    return &filter_class;
}
