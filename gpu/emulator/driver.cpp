// A stand-in for NVIDIA's driver library: the functions that this crate calls through cudarc, and the fibers that run its kernels.
// Everything is over when a call returns; streams and events only record.
#ifndef __x86_64__
#error "fibers are switched by x86-64 instructions"
#endif

#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "sources.inc"  // written by build.sh

namespace cuda_on_cpu {

// ---- Fibers -------------------------------------------------------------------------------------------------------------------------

// Saves the callee's registers and the stack pointer, and takes another fiber's.
asm(R"(
.text
.hidden cuda_on_cpu_switch
.globl cuda_on_cpu_switch
.type cuda_on_cpu_switch, @function
cuda_on_cpu_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size cuda_on_cpu_switch, . - cuda_on_cpu_switch
)");
extern "C" __attribute__((visibility("hidden"))) void cuda_on_cpu_switch(void** saved, void* next);

constexpr unsigned MAX_THREADS = 1024;
constexpr size_t STACK = 256 << 10;
constexpr unsigned char SPOILED = 0xb7;

const char* const KINDS[] = {"nothing",          "__syncwarp",        "__ballot_sync",     "__any_sync",        "__all_sync",
                             "__shfl_sync",      "__shfl_up_sync",    "__shfl_xor_sync",   "__reduce_add_sync", "__reduce_min_sync",
                             "__reduce_max_sync", "__reduce_xor_sync", "__syncthreads",    "__syncthreads_or",  "__syncthreads_and",
                             "__syncthreads_count"};

/// Whom the scheduler takes next: nothing may depend on it.
struct Order {
  enum { FORWARD, REVERSE, RANDOM } way = FORWARD;
  std::minstd_rand random;
  Order() {
    const char* text = getenv("QUIRE_EMULATOR_ORDER");
    if (!text) return;
    if (!strcmp(text, "reverse")) way = REVERSE;
    if (!strncmp(text, "random", 6)) way = RANDOM, random.seed(text[6] ? unsigned(atoi(text + 7)) : 1);
  }
  unsigned pick(uint32_t set) {
    if (way == FORWARD) return unsigned(__builtin_ctz(set));
    if (way == REVERSE) return 31 - unsigned(__builtin_clz(set));
    for (unsigned skip = random() % unsigned(__builtin_popcount(set)); skip > 0; skip--) set &= set - 1;
    return unsigned(__builtin_ctz(set));
  }
};

struct Fiber {
  void* stack_pointer;
  Kind kind;  // what it waits for
  Where where;
};

struct Warp {
  uint32_t alive, runnable, arrived;
  unsigned turn;  // values of an operation stay while the lanes go on to the next
  uint64_t values[2][32];
  uint64_t joined[2];
};

struct Block {
  Order order;
  char* stacks;
  void* caller;  // stack pointer of the thread that runs the block
  const std::function<void()>* body;
  const char* name;
  unsigned warps, current;
  unsigned alive, arrived, turn;  // of the block's barrier
  unsigned first_arrived;
  unsigned holding[2], all[2];
  Fiber fibers[MAX_THREADS];
  Warp warp[MAX_THREADS / 32];

  Block() {
    void* room = mmap(nullptr, MAX_THREADS * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) abort();
    stacks = static_cast<char*>(room);
    for (unsigned i = 0; i < MAX_THREADS; i++) mprotect(stacks + i * STACK, 4096, PROT_NONE);
  }

  void run(unsigned threads);
  void next();
  void release();
  void fail(const char* what);
  void check_same(Kind kind, const Where& where, const Fiber& other);
};
thread_local Block* block;

/// Prints where every thread is.
void Block::fail(const char* what) {
  fprintf(stderr, "\nkernel %s, block (%u, %u, %u), thread %u: %s\n", name, here.block.x, here.block.y, here.block.z, current, what);
  for (unsigned w = 0; w < warps; w++) {
    fprintf(stderr, "  warp %u:", w);
    std::map<std::string, uint32_t> states;
    for (unsigned lane = 0; lane < 32; lane++) {
      const Fiber& fiber = fibers[32 * w + lane];
      std::string state = "ended";
      if (warp[w].runnable >> lane & 1) state = "can run";
      else if (warp[w].alive >> lane & 1) {
        state = std::string(KINDS[int(fiber.kind)]) + " at " + fiber.where.file_name() + ":" + std::to_string(fiber.where.line());
      }
      states[state] |= 1u << lane;
    }
    for (auto& [state, lanes] : states) fprintf(stderr, " lanes %08x %s;", lanes, state.c_str());
    fprintf(stderr, "\n");
  }
  abort();
}

void fiber_main() {
  (*block->body)();
  Block& b = *block;
  const uint32_t bit = 1u << b.current % 32;
  b.warp[b.current / 32].alive &= ~bit;
  b.warp[b.current / 32].runnable &= ~bit;
  b.alive--;
  // Threads that have ended are not waited for.
  if (b.arrived > 0 && b.arrived == b.alive) b.release();
  b.next();
  __builtin_unreachable();
}

/// Runs another fiber; returns when this one is taken again.
void Block::next() {
  void** saved = &fibers[current].stack_pointer;
  unsigned w = current / 32;
  if (order.way == Order::RANDOM || warp[w].runnable == 0) {
    uint32_t ready = 0;
    for (unsigned i = 0; i < warps; i++) ready |= uint32_t(warp[i].runnable != 0) << i;
    if (ready == 0) {
      if (alive > 0) fail("deadlock: no thread can run");
      return cuda_on_cpu_switch(saved, caller);
    }
    w = order.pick(ready);
  }
  current = 32 * w + order.pick(warp[w].runnable);
  here.thread.x = current;
  if (saved != &fibers[current].stack_pointer) cuda_on_cpu_switch(saved, fibers[current].stack_pointer);
}

void Block::run(unsigned threads) {
  warps = threads / 32;
  alive = threads;
  arrived = turn = current = 0;
  for (unsigned w = 0; w < warps; w++) warp[w].alive = warp[w].runnable = 0xffffffffu, warp[w].arrived = warp[w].turn = 0;
  for (unsigned i = 0; i < threads; i++) {
    void** top = reinterpret_cast<void**>(stacks + (i + 1) * STACK);
    top[-2] = reinterpret_cast<void*>(fiber_main);  // where the first switch returns to, with the stack as after a call
    fibers[i].stack_pointer = top - 8;
  }
  here.thread = {0, 0, 0};
  current = 32 * order.pick(0xffffffffu >> (32 - warps));
  current += order.pick(0xffffffffu);
  here.thread.x = current;
  cuda_on_cpu_switch(&caller, fibers[current].stack_pointer);
}

inline void Block::check_same(Kind kind, const Where& where, const Fiber& other) {
  // One translation unit has each file's name once.
  if (kind == other.kind && where.line() == other.where.line() && where.file_name() == other.where.file_name()) return;
  fail("threads meet in different operations");
}

Lanes& meet_warp(Kind kind, unsigned mask, uint64_t value, Where where, uint64_t (*join)(Lanes&), uint64_t* joined) {
  Block& b = *block;
  Warp& w = b.warp[b.current / 32];
  const unsigned lane = b.current % 32, turn = w.turn;
  Fiber& fiber = b.fibers[b.current];
  fiber.kind = kind, fiber.where = where;
  if (mask != 0xffffffffu) b.fail("a mask without all lanes is not known here");
  if (w.arrived) b.check_same(kind, where, b.fibers[b.current - lane + unsigned(__builtin_ctz(w.arrived))]);
  w.values[turn][lane] = value;
  w.arrived |= 1u << lane;
  if (w.arrived == 0xffffffffu) {
    if (join) w.joined[turn] = join(w.values[turn]);
    w.arrived = 0;
    w.turn ^= 1;
    w.runnable = w.alive;
    if (b.order.way != Order::FORWARD) b.next();
  } else {
    w.runnable &= ~(1u << lane);
    b.next();
  }
  if (joined) *joined = w.joined[turn];
  return w.values[turn];
}

void Block::release() {
  all[turn] = arrived;
  arrived = 0;
  turn ^= 1;
  for (unsigned w = 0; w < warps; w++) warp[w].runnable = warp[w].alive;
}

Count meet_block(Kind kind, bool predicate, Where where) {
  Block& b = *block;
  Warp& w = b.warp[b.current / 32];
  const unsigned turn = b.turn;
  Fiber& fiber = b.fibers[b.current];
  fiber.kind = kind, fiber.where = where;
  if (b.arrived == 0) {
    b.holding[turn] = 0;
    b.first_arrived = b.current;
  } else {
    b.check_same(kind, where, b.fibers[b.first_arrived]);
  }
  b.holding[turn] += predicate;
  b.arrived++;
  w.runnable &= ~(1u << b.current % 32);
  if (b.arrived == b.alive) {
    b.release();
    if (b.order.way != Order::FORWARD) b.next();
  } else {
    b.next();
  }
  return {b.holding[turn], b.all[turn]};
}

// ---- Grids --------------------------------------------------------------------------------------------------------------------------

std::mutex lock;
std::vector<Block*> idle_blocks;

/// The calling thread's shared variables and whatever else of this library is local to it.
struct Local {
  void* start = nullptr;
  size_t size = 0;
};

Local find_local() {
  Local local;
  here.thread.x = 0;  // makes the memory be there
  auto look = [](dl_phdr_info* info, size_t, void* data) {
    for (int i = 0; i < info->dlpi_phnum; i++) {
      const size_t size = info->dlpi_phdr[i].p_memsz, at = size_t(&here) - size_t(info->dlpi_tls_data);
      if (info->dlpi_phdr[i].p_type != PT_TLS || !info->dlpi_tls_data || at >= size) continue;
      *static_cast<Local*>(data) = {info->dlpi_tls_data, size};
      return 1;
    }
    return 0;
  };
  if (!dl_iterate_phdr(look, &local)) abort();
  return local;
}

struct Launch {
  const char* name;
  Index grid, block_size;
  std::function<void()> body;

  void operator()() const {
    Block* b;
    {
      std::lock_guard guard(lock);
      if (idle_blocks.empty()) idle_blocks.push_back(new Block);
      b = idle_blocks.back();
      idle_blocks.pop_back();
    }
    b->body = &body, b->name = name;
    const Local local = find_local();
    std::vector<unsigned> blocks(size_t(grid.x) * grid.y * grid.z);
    std::iota(blocks.begin(), blocks.end(), 0);
    if (b->order.way == Order::REVERSE) std::reverse(blocks.begin(), blocks.end());
    if (b->order.way == Order::RANDOM) std::shuffle(blocks.begin(), blocks.end(), b->order.random);
    for (unsigned number : blocks) {
      memset(local.start, SPOILED, local.size);
      block = b;
      here = {{}, {number % grid.x, number / grid.x % grid.y, number / grid.x / grid.y}, block_size, grid};
      b->run(block_size.x);
    }
    std::lock_guard guard(lock);
    idle_blocks.push_back(b);
  }
};

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
  free(start - FENCE);
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

// ---- Streams ------------------------------------------------------------------------------------------------------------------------

typedef std::vector<std::function<void()>> Recording;
struct Stream {
  std::unique_ptr<Recording> recording;
};

int enqueue(Stream* stream, std::function<void()> work) {
  if (stream && stream->recording) {
    stream->recording->push_back(std::move(work));
  } else {
    work();
  }
  return 0;
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
enum Result { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_FOUND = 500 };

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
API cuDriverGetVersion(int* version) { return *version = 13000, OK; }
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
/// Takes QUIRE_EMULATOR_OPENING milliseconds.
API cuDevicePrimaryCtxRetain(void** context, int) {
  opening++;
  usleep(1000u * unsigned(from_environment("QUIRE_EMULATOR_OPENING", 0)));
  opening--;
  return *context = &the_context, OK;
}
API cuDevicePrimaryCtxRelease_v2(int) { return OK; }
API cuCtxGetCurrent(void** context) { return *context = pthread_getspecific(context_key), OK; }
API cuCtxSetCurrent(void* context) { return pthread_setspecific(context_key, context); }
API cuCtxSynchronize() { return OK; }

API cuModuleLoadData(void** module, const void*) { return *module = &the_context, OK; }
API cuModuleUnload(void*) { return OK; }
API cuModuleGetFunction(const Kernel** function, void*, const char* name) {
  for (const Kernel& kernel : KERNELS) {
    if (!strcmp(kernel.name, name)) return *function = &kernel, OK;
  }
  return NOT_FOUND;
}

/// A multiprocessor holds two blocks: enough for grids of which a block takes several parts.
API cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const Kernel*, int, size_t, unsigned) { return *blocks = 2, OK; }

/// Which memory an address is of: device memory alone is known, that of tests as well.
API cuPointerGetAttribute(int* value, int attribute, Address address) {
  enum { MEMORY_TYPE = 2, DEVICE_ORDINAL = 9, DEVICE = 2 };
  std::lock_guard guard(lock);
  if (!device_allocations.count(allocation_of(reinterpret_cast<char*>(address)))) return INVALID_VALUE;
  return *value = attribute == MEMORY_TYPE ? DEVICE : 0, attribute == MEMORY_TYPE || attribute == DEVICE_ORDINAL ? OK : INVALID_VALUE;
}

API cuMemAlloc_v2(Address* address, size_t size) {
  *address = Address(allocate(size));
  std::lock_guard guard(lock);
  if (*address) device_allocations.insert(reinterpret_cast<char*>(*address));
  return *address ? OK : OUT_OF_MEMORY;
}
API cuMemFree_v2(Address address) { return release_memory(reinterpret_cast<char*>(address)); }
API cuMemHostAlloc(void** address, size_t size, unsigned) { return *address = allocate(size), *address ? OK : OUT_OF_MEMORY; }
API cuMemFreeHost(void* address) { return release_memory(static_cast<char*>(address)); }

/// Copies, now or when the recording is launched. Both ends are checked where they have to be memory of this library.
static int copy_bytes(void* to, const void* from, size_t size, Stream* stream, bool check_to = true, bool check_from = true) {
  if ((check_to && !is_inside(to, size)) || (check_from && !is_inside(from, size))) return INVALID_VALUE;
  return enqueue(stream, [=] { memmove(to, from, size); });
}
API cuMemcpyHtoD_v2(Address to, const void* from, size_t size) {
  return copy_bytes(reinterpret_cast<void*>(to), from, size, nullptr, true, false);
}
API cuMemcpyDtoH_v2(void* to, Address from, size_t size) {
  return copy_bytes(to, reinterpret_cast<void*>(from), size, nullptr, false, true);
}
API cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t size, Stream* stream) {
  return copy_bytes(reinterpret_cast<void*>(to), from, size, stream);
}
API cuMemcpyDtoHAsync_v2(void* to, Address from, size_t size, Stream* stream) {
  return copy_bytes(to, reinterpret_cast<void*>(from), size, stream);
}
API cuMemcpyDtoDAsync_v2(Address to, Address from, size_t size, Stream* stream) {
  return copy_bytes(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), size, stream);
}
API cuMemsetD8Async(Address to, unsigned char value, size_t size, Stream* stream) {
  void* start = reinterpret_cast<void*>(to);
  if (!is_inside(start, size)) return INVALID_VALUE;
  return enqueue(stream, [=] { memset(start, value, size); });
}

API cuStreamCreate(Stream** stream, unsigned) { return *stream = new Stream, OK; }
API cuStreamDestroy_v2(Stream* stream) { return delete stream, OK; }
API cuStreamSynchronize(Stream*) { return check_all_fences(), OK; }
API cuStreamWaitEvent(Stream*, void*, unsigned) { return OK; }
API cuStreamIsCapturing(Stream* stream, int* status) { return *status = stream->recording != nullptr, OK; }
API cuStreamBeginCapture_v2(Stream* stream, int) { return stream->recording = std::make_unique<Recording>(), OK; }
API cuStreamEndCapture(Stream* stream, Recording** graph) { return *graph = stream->recording.release(), OK; }
API cuGraphInstantiateWithFlags(Recording** executable, Recording* graph, Address) { return *executable = new Recording(*graph), OK; }
API cuGraphDestroy(Recording* graph) { return delete graph, OK; }
API cuGraphExecDestroy(Recording* executable) { return delete executable, OK; }
API cuGraphUpload(Recording*, Stream*) { return OK; }
/// For tests: how many recordings this process has launched.
static std::atomic<int> launched;
API quire_emulator_launched() { return launched; }
API cuGraphLaunch(Recording* executable, Stream*) {
  launched++;
  for (auto& work : *executable) work();
  check_all_fences();
  return OK;
}

API cuEventCreate(void** event, unsigned) { return *event = &the_context, OK; }
API cuEventDestroy_v2(void*) { return OK; }
API cuEventRecord(void*, Stream*) { return OK; }
API cuEventSynchronize(void*) { return OK; }
API cuEventQuery(void*) { return OK; }
API cuEventElapsedTime(float* milliseconds, void*, void*) { return *milliseconds = 0, OK; }
API cuEventElapsedTime_v2(float* milliseconds, void*, void*) { return *milliseconds = 0, OK; }

API cuLaunchKernel(const Kernel* kernel, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned rows, unsigned slices,
                   unsigned shared, Stream* stream, void** arguments, void**) {
  const bool known = threads % 32 == 0 && threads > 0 && threads <= MAX_THREADS && rows == 1 && slices == 1 && shared == 0;
  if (!known || x == 0 || y == 0 || z == 0 || y > 65535 || z > 65535) return INVALID_VALUE;
  // Machine code that does not do what its source says: tests name a kernel that does nothing.
  static const char* const broken = getenv("QUIRE_EMULATOR_BROKEN");
  if (broken && kernel->name == std::string(broken)) return OK;
  return enqueue(stream, Launch{kernel->name, {x, y, z}, {threads, 1, 1}, kernel->bind(arguments)});
}
