//! How many threads work on a file, and how they get work. The calling thread alone calls HDF5, which would keep the others waiting.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::channel;
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, available_parallelism, scope};

use anyhow::{Context as _, Result};
use clap::Args;
use clap::builder::RangedU64ValueParser;
use quire_codec::THREAD_STACK;

/// The number of threads, as the user may give it.
#[derive(Debug, Args)]
pub(crate) struct Jobs {
    /// Number of threads, 1 to 1024; by default what QUIRE_THREADS says, or what the process may use
    #[arg(short, long, value_name = "COUNT", value_parser = RangedU64ValueParser::<usize>::new().range(1..=1024))]
    jobs: Option<usize>,
}

impl Jobs {
    /// The number of threads: the argument, or `QUIRE_THREADS`, or what the process may use by its affinity and its control group.
    ///
    /// # Errors
    /// If the environment makes no sense.
    pub(crate) fn count(&self) -> Result<usize> {
        let asked_for = self.jobs.or(h5zquire::threads_of_environment()?.map(NonZero::get));
        Ok(asked_for.unwrap_or_else(|| available_parallelism().map_or(1, NonZero::get)))
    }
}

/// Items on their way, for each thread: one that it works on, one that waits for it, one that is done.
const ITEMS_A_THREAD: usize = 3;

/// Gives items to `jobs` threads, and takes their results in the order of the items. Both are done on the calling thread, which alone may call HDF5. If `jobs` is
/// one, the calling thread does the work, too.
///
/// # Errors
/// The first of `give` and `take`.
///
/// # Panics
/// If `work` does.
pub(crate) fn pipeline<I: Send, O: Send, S: Default>(
    jobs: usize,
    mut give: impl FnMut() -> Result<Option<I>>,
    work: impl Fn(&mut S, I) -> O + Sync,
    mut take: impl FnMut(O) -> Result<()>,
) -> Result<()> {
    let (to_threads, items) = channel::<(usize, I)>();
    let items = Mutex::new(items);
    let (done, results) = channel();
    let next = || items.lock().unwrap_or_else(PoisonError::into_inner).recv();
    scope(|scope| {
        // Dropped when this closure ends, however it ends: then the threads end, too.
        let to_threads = to_threads;
        let mut threads = 0;
        for _ in 0..if jobs > 1 { jobs } else { 0 } {
            let (done, next, work) = (done.clone(), &next, &work);
            let take_items = move || {
                let mut state = S::default();
                while let Ok((number, item)) = next() {
                    let result = catch_unwind(AssertUnwindSafe(|| work(&mut state, item)));
                    if done.send((number, result)).is_err() {
                        return;
                    }
                }
            };
            // Where the system has no more threads, those that there are do the work.
            threads += usize::from(Builder::new().stack_size(THREAD_STACK).spawn_scoped(scope, take_items).is_ok());
        }
        if threads == 0 {
            let mut state = S::default();
            while let Some(item) = give()? {
                take(work(&mut state, item))?;
            }
            return Ok(());
        }
        let (mut given, mut taken, mut is_last) = (0, 0, false);
        let mut early = BTreeMap::new();
        loop {
            while !is_last && given - taken < threads * ITEMS_A_THREAD {
                match give()? {
                    Some(item) => {
                        to_threads.send((given, item)).ok().context("no thread takes work: please report it")?;
                        given += 1;
                    }
                    None => is_last = true,
                }
            }
            if taken == given {
                return Ok(());
            }
            let (number, result) = results.recv().ok().context("no thread gives results: please report it")?;
            early.insert(number, result.unwrap_or_else(|panic| resume_unwind(panic)));
            while let Some(result) = early.remove(&taken) {
                take(result)?;
                taken += 1;
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn results_come_in_order_whatever_the_number_of_threads() {
        for jobs in [1, 2, 7] {
            for count in [0, 1, 5, 1000] {
                let (mut items, mut results, mut most) = (0..count, Vec::new(), 0);
                let given = std::cell::Cell::new(0);
                let give = || {
                    given.set(given.get() + 1);
                    Ok(items.next())
                };
                let take = |result| {
                    most = most.max(given.get() - results.len());
                    results.push(result);
                    Ok(())
                };
                pipeline(jobs, give, |(): &mut (), item| 2 * item, take).expect("no error");
                assert!(results.into_iter().eq((0..count).map(|item| 2 * item)), "{jobs} {count}");
                assert!(most <= jobs * ITEMS_A_THREAD + 1, "{most} on their way");
            }
        }
    }

    #[test]
    fn an_error_on_either_side_ends_the_work() {
        for jobs in [1, 3] {
            let fails = |at_give: usize, at_take: usize| {
                let mut items = 0..;
                let fail = |number, at| if number == at { Err(anyhow!("number {number}")) } else { Ok(()) };
                let give = || items.next().map(|item| fail(item, at_give).map(|()| item)).transpose();
                pipeline(jobs, give, |(): &mut (), item| item, |item| fail(item, at_take)).map_err(|error| error.to_string())
            };
            assert_eq!(fails(5, 90), Err("number 5".to_owned()));
            assert_eq!(fails(90, 5), Err("number 5".to_owned()));
        }
    }

    #[test]
    #[should_panic(expected = "of a thread")]
    fn a_panic_of_a_thread_is_the_callers() {
        let mut items = 0..100;
        let _ = pipeline(3, || Ok(items.next()), |(): &mut (), item| assert!(item < 50, "of a thread"), |()| Ok(()));
    }
}
