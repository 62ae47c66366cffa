//! Copies between the caller's memory and pinned memory. One thread moves 13 GB/s, less than the bus; large copies go to several.

use once_cell::sync::OnceCell;
use rayon_core::{ThreadPool, ThreadPoolBuilder};

/// Copies below this length stay on the calling thread: waking others takes longer.
const SPLIT: usize = 256 << 10;
/// Threads beside the caller's.
const HELPERS: usize = 3;

/// The helpers, started by the first copy that needs them. `None` where the system gives no threads.
fn helpers() -> Option<&'static ThreadPool> {
    static POOL: OnceCell<Option<ThreadPool>> = OnceCell::new();
    POOL.get_or_init(|| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = HELPERS.min(cores.saturating_sub(1));
        if threads == 0 {
            return None;
        }
        ThreadPoolBuilder::new().num_threads(threads).thread_name(|index| format!("quire-copy-{index}")).build().ok()
    })
    .as_ref()
}

/// Copies `from` to `to`, which has the same length.
pub(crate) fn copy(from: &[u8], to: &mut [u8]) {
    if from.len() < SPLIT {
        return to.copy_from_slice(from);
    }
    let Some(pool) = helpers() else { return to.copy_from_slice(from) };
    // Whole pages, so that no two threads write to one.
    let part = from.len().div_ceil(pool.current_num_threads() + 1).next_multiple_of(4096);
    pool.in_place_scope(|scope| {
        let mut parts = to.chunks_mut(part).zip(from.chunks(part));
        let own = parts.next();
        for (to, from) in parts {
            scope.spawn(move |_| to.copy_from_slice(from));
        }
        if let Some((to, from)) = own {
            to.copy_from_slice(from);
        }
    });
}
