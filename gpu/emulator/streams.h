// Streams and events of the stand-in for the driver, and when the work that is put into streams runs. QUIRE_EMULATOR_STREAMS says it:
//
//   (empty)   at once, in the call that puts it there
//   late      when a thread waits for its stream, or for an event behind it: then all work of that stream up to there, in its order
//   others    as `late`, but such a wait runs the work of all other streams first
//
// With `late` and `others`, memory that is freed stays unusable: work that still uses it ends the process by SIGSEGV. So these modes find
//
// - kernels and copies that use memory after the host has freed it
// - pinned memory that the host changes before a copy has read it, or reads before a kernel has written it
// - streams that do not wait for each other, or for an upload of bytes that are not pinned.
//
// One thread runs work at a time.
#pragma once

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

namespace cuda_on_cpu {

typedef std::function<void()> Work;
typedef std::vector<Work> Recording;

/// Work that is still to run, in order, and the numbers of all works that were put here and that have run.
struct Queue {
  std::deque<Work> works;
  uint64_t put = 0, done = 0;

  /// All queues with streams, and the lock of everything here. A work may wait for other queues.
  static inline std::set<Queue*> all;
  static inline std::recursive_mutex lock;

  /// Runs the works before number `end`.
  void run(uint64_t end) {
    while (done < end) {
      const Work work = std::move(works.front());
      works.pop_front();
      done++;
      work();
    }
  }
};

/// A moment of a stream: behind the works that had been put there. One that was never recorded is over.
struct Event {
  std::shared_ptr<Queue> queue;
  uint64_t end = 0;

  void wait() const {
    std::lock_guard guard(Queue::lock);
    if (queue) queue->run(end);
  }
};

struct Stream {
  enum Mode { AT_ONCE, LATE, OTHERS };
  static Mode mode() {
    static const Mode mode = [] {
      const char* text = getenv("QUIRE_EMULATOR_STREAMS");
      return !text || !*text ? AT_ONCE : !strcmp(text, "others") ? OTHERS : LATE;
    }();
    return mode;
  }

  /// Where work goes in place of the queue while it is being recorded.
  std::unique_ptr<Recording> recording;
  const std::shared_ptr<Queue> queue = std::make_shared<Queue>();

  Stream() {
    std::lock_guard guard(Queue::lock);
    Queue::all.insert(queue.get());
  }
  ~Stream() {
    std::lock_guard guard(Queue::lock);
    queue->run(queue->put);
    Queue::all.erase(queue.get());
  }

  Event now() const {
    std::lock_guard guard(Queue::lock);
    return {queue, queue->put};
  }

  void put(Work work) {
    if (recording) return recording->push_back(std::move(work));
    if (mode() == AT_ONCE) return work();
    std::lock_guard guard(Queue::lock);
    queue->works.push_back(std::move(work));
    queue->put++;
  }

  /// Runs all its work.
  void wait() {
    if (mode() == AT_ONCE) return;
    std::lock_guard guard(Queue::lock);
    // Works of this stream run among them where other streams wait for these.
    if (mode() == OTHERS) {
      for (Queue* other : std::vector<Queue*>(Queue::all.begin(), Queue::all.end())) {
        if (other != queue.get()) other->run(other->put);
      }
    }
    queue->run(queue->put);
  }
};

/// Runs all work.
inline void wait_for_all() {
  std::lock_guard guard(Queue::lock);
  for (Queue* queue : std::vector<Queue*>(Queue::all.begin(), Queue::all.end())) queue->run(queue->put);
}

/// Whether a handle is that of a default stream: null or 1 the legacy one, 2 the calling thread's. Their work runs at once, but for uploads.
inline bool is_default(const Stream* stream) { return uintptr_t(stream) <= 2; }

/// Copies to the device of bytes that are not pinned. They are in the default stream, for which other streams do not wait. When the call returns, the driver
/// has a copy of the bytes, and the device may not have them yet.
inline Stream& uploads() {
  static Stream& uploads = *new Stream;
  return uploads;
}

/// Puts work into a stream.
inline int enqueue(Stream* stream, Work work) {
  if (is_default(stream)) {
    uploads().wait();
    work();
  } else {
    stream->put(std::move(work));
  }
  return 0;
}

// ---- Captures -----------------------------------------------------------------------------------------------------------------------

/// Modes of captures, and of threads beside captures.
enum CaptureMode { GLOBAL, THREAD_LOCAL, RELAXED };

/// The calling thread's mode. The memory that blocks spoil is not used for it.
inline const pthread_key_t capture_mode_key = [] {
  pthread_key_t key;
  if (pthread_key_create(&key, nullptr)) abort();
  return key;
}();
inline CaptureMode capture_mode() { return CaptureMode(uintptr_t(pthread_getspecific(capture_mode_key))); }

/// A stream's capture under way.
struct Capture {
  pthread_t thread;
  CaptureMode mode;
  bool is_valid = true;
};
inline std::map<Stream*, Capture> captures;

/// Whether the driver refuses the calling thread a call that is no part of a capture, such as an allocation or a wait. The captures for which it does end.
inline bool is_refused_by_captures() {
  std::lock_guard guard(Queue::lock);
  bool is_refused = false;
  for (auto& [stream, capture] : captures) {
    const bool is_own = pthread_equal(capture.thread, pthread_self());
    if (capture_mode() == RELAXED || (is_own ? capture.mode == RELAXED : capture_mode() != GLOBAL || capture.mode != GLOBAL)) continue;
    capture.is_valid = false;
    is_refused = true;
  }
  return is_refused;
}

}  // namespace cuda_on_cpu
