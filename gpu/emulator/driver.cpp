// A stand-in for NVIDIA's driver library: the functions that this crate calls through cudarc. fibers.h runs the kernels, streams.h says when.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "fibers.h"
#include "module.cu"
#include "streams.h"

namespace cuda_on_cpu {

// ---- Kernels ------------------------------------------------------------------------------------------------------------------------

/// A kernel by its name; `bind` copies its arguments.
struct Kernel {
  const char* name;
  std::function<std::function<void()>(void**)> bind;
};

template <typename... A>
Kernel kernel(const char* name, void (*function)(A...)) {
  return {name, [function](void** arguments) -> std::function<void()> {
            auto values = std::make_shared<std::tuple<A...>>();
            std::apply([&](A&... value) { (memcpy(&value, *arguments++, sizeof(A)), ...); }, *values);
            return [function, values] { std::apply(function, *values); };
          }};
}

#define KERNEL(name) kernel(#name, name),
const Kernel KERNELS[] = {
#include "kernels.inc"
};

// ---- Memory -------------------------------------------------------------------------------------------------------------------------

constexpr size_t FENCE = 4096;
constexpr unsigned char FENCE_BYTE = 0xc5;
std::map<char*, size_t> allocations;
/// Those that are not pinned.
std::set<char*> device_allocations;

/// Ends the process if somebody has written before or behind an allocation.
void check_fences(char* start, size_t size) {
  for (size_t i = 0; i < FENCE; i++) {
    if (static_cast<unsigned char>(start[-1 - ptrdiff_t(i)]) != FENCE_BYTE || static_cast<unsigned char>(start[size + i]) != FENCE_BYTE) {
      fprintf(stderr, "a kernel or a copy has written outside of an allocation of %zu bytes, %zu bytes from its ends\n", size, i);
      abort();
    }
  }
}

/// Gaps behind arrays within an allocation, and their lengths. A gap is one from when it is filled with GAP_BYTE until it is filled with another byte: see
/// `Gaps` in gpu/src/memory.rs.
constexpr unsigned char GAP_BYTE = 0x9d;
std::map<char*, size_t> gaps;

void fill_bytes(char* start, unsigned char byte, size_t size) {
  std::lock_guard guard(lock);
  memset(start, byte, size);
  if (byte == GAP_BYTE) {
    gaps[start] = size;
  } else {
    gaps.erase(start);
  }
}

/// Ends the process if a gap has been written to.
void check_gaps(const char* kernel) {
  std::lock_guard guard(lock);
  for (auto& [start, size] : gaps) {
    for (size_t i = 0; i < size; i++) {
      if (static_cast<unsigned char>(start[i]) == GAP_BYTE) continue;
      auto& [allocation, length] = *std::prev(allocations.upper_bound(start));
      fprintf(stderr, "kernel %s has written %zu bytes behind the end of an array, which is %td bytes from the start of an allocation of %zu bytes\n", kernel,
              i, start - allocation, length);
      abort();
    }
  }
}

char* allocate(size_t size) {
  char* start = static_cast<char*>(aligned_alloc(4096, (size + 2 * FENCE + 4095) / 4096 * 4096));
  if (!start) return nullptr;
  memset(start, FENCE_BYTE, FENCE);
  memset(start + FENCE, SPOILED, size);
  memset(start + FENCE + size, FENCE_BYTE, FENCE);
  std::lock_guard guard(lock);
  allocations[start + FENCE] = size;
  return start + FENCE;
}

int release_memory(char* start) {
  std::lock_guard guard(lock);
  auto found = allocations.find(start);
  if (found == allocations.end()) return 1;
  check_fences(start, found->second);
  if (Stream::mode() == Stream::AT_ONCE) {
    free(start - FENCE);
  } else {
    // Work that is still to run must not use it. Its pages go back to the system, its addresses stay taken.
    const size_t pages = (found->second + 4095) / 4096 * 4096;
    madvise(start, pages, MADV_DONTNEED);
    mprotect(start, pages, PROT_NONE);
  }
  gaps.erase(gaps.lower_bound(start), gaps.lower_bound(start + found->second));
  allocations.erase(found);
  device_allocations.erase(start);
  return 0;
}

/// Start of the allocation that an address is in, or null. The caller holds the lock.
char* allocation_of(char* address) {
  auto behind = allocations.upper_bound(address);
  if (behind == allocations.begin()) return nullptr;
  auto& [start, length] = *std::prev(behind);
  return address < start + length ? start : nullptr;
}

/// Whether bytes are inside of one allocation.
bool is_inside(const void* from, size_t size) {
  std::lock_guard guard(lock);
  char* at = static_cast<char*>(const_cast<void*>(from));
  char* start = allocation_of(at);
  return start && at + size <= start + allocations[start];
}

void check_all_fences() {
  std::lock_guard guard(lock);
  for (auto& [start, size] : allocations) check_fences(start, size);
}

}  // namespace cuda_on_cpu

// ---- The driver's functions -----------------------------------------------------------------------------------------------------------

using namespace cuda_on_cpu;
#define API extern "C" __attribute__((visibility("default"))) int

typedef unsigned long long Address;
enum Result { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_FOUND = 500, CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901 };

/// A number from the environment, which tests set.
static int from_environment(const char* name, int otherwise) {
  const char* text = getenv(name);
  return text ? atoi(text) : otherwise;
}

/// What exit() does while a context is being opened is tested: a real driver takes itself down then. A forked child has nothing to take down.
static std::atomic<int> opening;
static const pid_t process = getpid();
static void end() {
  if (opening && process == getpid()) fprintf(stderr, "the driver ends while a context is being opened\n"), abort();
}

API cuInit(unsigned) {
  static const int registered = atexit(end);
  return registered;
}
/// QUIRE_EMULATOR_CUDA is the version of CUDA that the driver is for: 11080 for 11.8.
API cuDriverGetVersion(int* version) { return *version = from_environment("QUIRE_EMULATOR_CUDA", 13000), OK; }
API cuGetErrorName(int code, const char** text) {
  switch (code) {
    case 2: return *text = "CUDA_ERROR_OUT_OF_MEMORY", OK;
    case 719: return *text = "CUDA_ERROR_LAUNCH_FAILED", OK;
    default: return *text = "EMULATOR_ERROR", OK;
  }
}
API cuGetErrorString(int, const char** text) { return *text = "an error of the stand-in for the driver", OK; }

/// QUIRE_EMULATOR_GPUS is the number of devices. Their buses are 0, 1, ... and their names end in their numbers where there are several.
static int devices() { return from_environment("QUIRE_EMULATOR_GPUS", 1); }
API cuDeviceGetCount(int* count) { return *count = devices(), OK; }
API cuDeviceGet(int* device, int ordinal) { return *device = ordinal, ordinal < devices() ? OK : INVALID_VALUE; }
API cuDeviceGetName(char* name, int size, int device) {
  const std::string number = devices() > 1 ? " " + std::to_string(device) : "";
  return snprintf(name, size_t(size), "CPU in place of a GPU%s", number.c_str()), OK;
}
API cuDeviceGetPCIBusId(char* text, int size, int device) { return snprintf(text, size_t(size), "0000:%02X:00.0", 0xa0 + device), OK; }
API cuDeviceGetAttribute(int* value, int attribute, int) {
  enum { MULTIPROCESSORS = 16, MAJOR = 75, MINOR = 76, MPS_ENABLED = 133 };
  const int mps = from_environment("QUIRE_EMULATOR_MPS", 0);
  return *value = attribute == MULTIPROCESSORS ? 4 : attribute == MAJOR ? 9 : attribute == MPS_ENABLED ? mps : 0, OK;
}
static const size_t DEVICE_MEMORY = size_t(4) << 30;
API cuDeviceTotalMem_v2(size_t* size, int) { return *size = DEVICE_MEMORY, OK; }
API cuMemGetInfo_v2(size_t* left, size_t* total) {
  std::lock_guard guard(lock);
  size_t taken = 0;
  for (char* start : device_allocations) taken += allocations[start];
  return *left = DEVICE_MEMORY - taken, *total = DEVICE_MEMORY, OK;
}

// The context is never looked at. It is the calling thread's, as with NVIDIA's driver; the memory that blocks spoil is not used for it.
static pthread_key_t context_key = [] {
  pthread_key_t key;
  if (pthread_key_create(&key, nullptr)) abort();
  return key;
}();
static int the_context;
/// With QUIRE_EMULATOR_GATE, makes the file of that name and waits until somebody removes it.
API cuDevicePrimaryCtxRetain(void** context, int) {
  opening++;
  if (const char* gate = getenv("QUIRE_EMULATOR_GATE")) {
    close(open(gate, O_CREAT | O_WRONLY, 0600));
    while (!access(gate, F_OK)) usleep(1000);
  }
  opening--;
  return *context = &the_context, OK;
}
API cuDevicePrimaryCtxRelease_v2(int) { return OK; }
API cuCtxGetCurrent(void** context) { return *context = pthread_getspecific(context_key), OK; }
API cuCtxSetCurrent(void* context) { return pthread_setspecific(context_key, context); }
API cuCtxSynchronize() { return is_refused_by_captures() ? CAPTURE_UNSUPPORTED : (wait_for_all(), OK); }

API cuModuleLoadData(void** module, const void*) { return *module = &the_context, OK; }
API cuModuleUnload(void*) { return OK; }
API cuModuleGetFunction(const Kernel** function, void*, const char* name) {
  for (const Kernel& kernel : KERNELS) {
    if (!strcmp(kernel.name, name)) return *function = &kernel, OK;
  }
  return NOT_FOUND;
}

/// What memory an address belongs to. Only device memory is known, the tests' own included.
API cuPointerGetAttribute(int* value, int attribute, Address address) {
  enum { MEMORY_TYPE = 2, DEVICE_ORDINAL = 9, DEVICE = 2 };
  std::lock_guard guard(lock);
  if (!device_allocations.count(allocation_of(reinterpret_cast<char*>(address)))) return INVALID_VALUE;
  return *value = attribute == MEMORY_TYPE ? DEVICE : 0, attribute == MEMORY_TYPE || attribute == DEVICE_ORDINAL ? OK : INVALID_VALUE;
}

API cuMemAlloc_v2(Address* address, size_t size) {
  if (is_refused_by_captures()) return CAPTURE_UNSUPPORTED;
  *address = Address(allocate(size));
  std::lock_guard guard(lock);
  if (*address) device_allocations.insert(reinterpret_cast<char*>(*address));
  return *address ? OK : OUT_OF_MEMORY;
}
API cuMemFree_v2(Address address) {
  if (is_refused_by_captures()) return CAPTURE_UNSUPPORTED;
  // The driver waits for its own copies.
  return uploads().wait(), release_memory(reinterpret_cast<char*>(address));
}
API cuMemHostAlloc(void** address, size_t size, unsigned) {
  if (is_refused_by_captures()) return CAPTURE_UNSUPPORTED;
  return *address = allocate(size), *address ? OK : OUT_OF_MEMORY;
}
API cuMemFreeHost(void* address) { return is_refused_by_captures() ? CAPTURE_UNSUPPORTED : release_memory(static_cast<char*>(address)); }

/// Copies, now or when the recording is launched. Both ends are checked where they have to be memory of this library.
static int copy_bytes(void* to, const void* from, size_t size, Stream* stream, bool check_to = true) {
  if ((check_to && !is_inside(to, size)) || !is_inside(from, size)) return INVALID_VALUE;
  return enqueue(stream, [=] { memmove(to, from, size); });
}
API cuMemcpyHtoD_v2(Address to, const void* from, size_t size) {
  void* start = reinterpret_cast<void*>(to);
  if (!is_inside(start, size)) return INVALID_VALUE;
  if (Stream::mode() == Stream::AT_ONCE) return memmove(start, from, size), OK;
  const char* bytes = static_cast<const char*>(from);
  auto copy = std::make_shared<std::vector<char>>(bytes, bytes + size);
  return uploads().put([=] { memmove(start, copy->data(), size); }), OK;
}
API cuMemcpyDtoH_v2(void* to, Address from, size_t size) {
  return copy_bytes(to, reinterpret_cast<void*>(from), size, nullptr, false);
}
API cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t size, Stream* stream) {
  return copy_bytes(reinterpret_cast<void*>(to), from, size, stream);
}
API cuMemcpyDtoHAsync_v2(void* to, Address from, size_t size, Stream* stream) {
  return copy_bytes(to, reinterpret_cast<void*>(from), size, stream);
}
API cuMemsetD8Async(Address to, unsigned char value, size_t size, Stream* stream) {
  void* start = reinterpret_cast<void*>(to);
  if (!is_inside(start, size)) return INVALID_VALUE;
  return enqueue(stream, [=] { fill_bytes(static_cast<char*>(start), value, size); });
}

API cuStreamCreate(Stream** stream, unsigned) { return *stream = new Stream, OK; }
API cuStreamDestroy_v2(Stream* stream) { return delete stream, OK; }
API cuStreamSynchronize(Stream* stream) {
  if (is_refused_by_captures()) return CAPTURE_UNSUPPORTED;
  (is_default(stream) ? uploads() : *stream).wait();
  return check_all_fences(), OK;
}
API cuStreamWaitEvent(Stream* stream, const Event* event, unsigned) {
  return stream->put([before = *event] { before.wait(); }), OK;
}
API cuStreamIsCapturing(Stream* stream, int* status) { return *status = !is_default(stream) && stream->recording, OK; }
API cuStreamBeginCapture_v2(Stream* stream, int mode) {
  std::lock_guard guard(Queue::lock);
  captures[stream] = {pthread_self(), CaptureMode(mode)};
  return stream->recording = std::make_unique<Recording>(), OK;
}
API cuStreamEndCapture(Stream* stream, Recording** graph) {
  std::lock_guard guard(Queue::lock);
  const bool is_valid = captures[stream].is_valid;
  captures.erase(stream);
  *graph = stream->recording.release();
  return is_valid ? OK : CAPTURE_INVALIDATED;
}
API cuThreadExchangeStreamCaptureMode(int* mode) {
  const CaptureMode before = capture_mode();
  const int failed = pthread_setspecific(capture_mode_key, reinterpret_cast<void*>(uintptr_t(*mode)));
  return *mode = before, failed;
}
API cuGraphInstantiateWithFlags(Recording** executable, Recording* graph, Address) { return *executable = new Recording(*graph), OK; }
API cuGraphDestroy(Recording* graph) { return delete graph, OK; }
API cuGraphExecDestroy(Recording* executable) { return delete executable, OK; }
API cuGraphUpload(Recording*, Stream*) { return OK; }
/// For tests: how many recordings this process has launched.
static std::atomic<int> launched;
API quire_emulator_launched() { return launched; }
API cuGraphLaunch(Recording* executable, Stream* stream) {
  launched++;
  for (auto& work : *executable) enqueue(stream, work);
  return check_all_fences(), OK;
}

API cuEventCreate(Event** event, unsigned) { return *event = new Event, OK; }
API cuEventDestroy_v2(Event* event) { return delete event, OK; }
API cuEventRecord(Event* event, Stream* stream) { return *event = (is_default(stream) ? uploads() : *stream).now(), OK; }
API cuEventSynchronize(const Event* event) { return event->wait(), OK; }
API cuEventQuery(const Event* event) { return event->wait(), OK; }

API cuLaunchKernel(const Kernel* kernel, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned rows, unsigned slices,
                   unsigned shared, Stream* stream, void** arguments, void**) {
  const bool known = threads % 32 == 0 && threads > 0 && threads <= MAX_THREADS && rows == 1 && slices == 1 && shared == 0;
  if (!known || x == 0 || y == 0 || z == 0 || y > 65535 || z > 65535) return INVALID_VALUE;
  // Machine code that does not do what its source says: tests name a kernel that does nothing.
  static const char* const broken = getenv("QUIRE_EMULATOR_BROKEN");
  if (broken && kernel->name == std::string(broken)) return OK;
  const Launch launch = {kernel->name, {x, y, z}, {threads, 1, 1}, kernel->bind(arguments)};
  return enqueue(stream, [launch] { launch(), check_gaps(launch.name); });
}
