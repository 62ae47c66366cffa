// Fibers that run a block of threads on one thread of the operating system, and grids of blocks: see cuda_on_cpu.h.
#pragma once

#ifndef __x86_64__
#error "fibers are switched by x86-64 instructions"
#endif

#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <random>
#include <string>
#include <vector>

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

/// Which fiber runs next. No result may depend on it.
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

/// The calling thread's shared variables and all else of this library that is local to a thread.
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

}  // namespace cuda_on_cpu
