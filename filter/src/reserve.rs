//! The plugin's allocator: malloc, and a reserve for small allocations that malloc refuses.
//!
//! ```text
//! allocation ─> malloc ─ refused, of at most 8 KiB ─> a slot of the reserve ─ all taken ─> null
//! ```
//!
//! Our own code asks in a way that can be refused. cudarc, libloading, rayon-core and std do not: null ends the host process. The reserve serves them until the
//! calls under way are over. [`Reserve::is_low`] says whether a call may begin that relies on it. Our own small allocations take slots as well, as nothing
//! tells them from others.
//!
//! The slots lie in the library's zeroed data: they cost address space, and pages once they are written. There is no lock, which a process forked meanwhile
//! would inherit. Programs that link this crate, such as `quire`, have this allocator too.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Classes of slots, the longest first. Each has half the bytes a slot of the class before it.
const CLASSES: usize = 8;
/// Bytes of the longest slots.
const LONGEST: usize = 8 << 10;
/// Slots of a class, a bit each.
const SLOTS: usize = u64::BITS as usize;
/// Alignment of the slots' memory: a page, as far as loaders of all ages keep it.
const ALIGNMENT: usize = 4096;
/// Slots a class that are free where calls that rely on the reserve may begin: those of longer classes count for shorter ones. A first call that opened a
/// device and started five helpers, with every small allocation refused, had up to 2, 14, 8, 13, 10, 8, 9 and 32 slots of the classes, so that a quarter of the
/// reserve is enough for it.
const SPARE: u32 = SLOTS as u32 / 4;
/// What malloc must give after a refusal before such calls begin again.
pub(crate) const PROBE: Layout = match Layout::from_size_align(64 << 10, 16) {
    Ok(layout) => layout,
    Err(_) => panic!("a power of two"),
};

/// Bytes of a slot.
const fn size_of_slot(class: usize) -> usize {
    LONGEST >> class
}

/// Where the slots of a class start. As longer ones lie before them, a slot's offset is a multiple of its size.
const fn start_of(class: usize) -> usize {
    SLOTS * 2 * (LONGEST - size_of_slot(class))
}

#[repr(C, align(4096))]
struct Slots([u8; start_of(CLASSES)]);
const _: () = assert!(align_of::<Slots>() == ALIGNMENT);

/// An allocator with a reserve behind it.
pub(crate) struct Reserve<A> {
    inner: A,
    /// Whether the inner allocator has refused something since it was last found to have memory.
    has_refused: AtomicBool,
    /// The slots of each class that are taken, a bit each.
    taken: [AtomicU64; CLASSES],
    slots: UnsafeCell<Slots>,
}

// SAFETY: a byte of `slots` is touched by nobody but the owner of its slot, of whom there is one at a time: see `taken`.
unsafe impl<A: Sync> Sync for Reserve<A> {}

impl<A: GlobalAlloc> Reserve<A> {
    pub(crate) const fn new(inner: A) -> Self {
        Self {
            inner,
            has_refused: AtomicBool::new(false),
            taken: [const { AtomicU64::new(0) }; CLASSES],
            slots: UnsafeCell::new(Slots([0; start_of(CLASSES)])),
        }
    }

    /// Whether memory is so short that nothing should begin whose allocations cannot be refused: the inner allocator refuses, or less than a quarter of the
    /// slots that could serve an allocation are free, whatever its length. What stays in the reserve for ever is no hindrance, as long as it leaves those.
    pub(crate) fn is_low(&self) -> bool {
        self.has_refused.load(Ordering::Relaxed) && self.is_still_low()
    }

    #[cold]
    fn is_still_low(&self) -> bool {
        let (mut free, mut wanted) = (0, 0);
        for taken in &self.taken {
            free += taken.load(Ordering::Relaxed).count_zeros();
            wanted += SPARE;
            if free < wanted {
                return true;
            }
        }
        // Before the question, so that a refusal in another thread meanwhile is not forgotten.
        self.has_refused.store(false, Ordering::Relaxed);
        // SAFETY: the layout has a size.
        let address = unsafe { self.inner.alloc(PROBE) };
        if address.is_null() {
            self.has_refused.store(true, Ordering::Relaxed);
            return true;
        }
        // SAFETY: from the same allocator and with the same layout.
        unsafe { self.inner.dealloc(address, PROBE) };
        false
    }

    /// A slot for what the inner allocator has refused, or null. Its bytes have any value.
    #[cold]
    fn take(&self, layout: Layout) -> *mut u8 {
        self.has_refused.store(true, Ordering::Relaxed);
        let needed = layout.size().max(layout.align());
        if layout.align() > ALIGNMENT {
            return null_mut();
        }
        for class in (0..CLASSES).rev().filter(|&class| size_of_slot(class) >= needed) {
            // Sets the lowest bit that is 0. Acquire: whatever the slot's last owner did is done.
            let free_one = |taken: u64| (taken != u64::MAX).then(|| taken | (taken + 1));
            if let Ok(taken) = self.taken[class].fetch_update(Ordering::Acquire, Ordering::Relaxed, free_one) {
                let offset = start_of(class) + taken.trailing_ones() as usize * size_of_slot(class);
                // SAFETY: the slot lies within `slots`.
                return unsafe { self.slots.get().cast::<u8>().add(offset) };
            }
        }
        null_mut()
    }

    /// Where in the reserve an address lies.
    fn offset(&self, address: *mut u8) -> Option<usize> {
        let offset = address.addr().wrapping_sub(self.slots.get().addr());
        (offset < size_of::<Slots>()).then_some(offset)
    }

    /// Class and number of the slot that starts at an offset.
    fn slot(offset: usize) -> (usize, usize) {
        let class = (1..CLASSES).take_while(|&class| start_of(class) <= offset).count();
        (class, (offset - start_of(class)) / size_of_slot(class))
    }

    #[cold]
    fn release(&self, offset: usize) {
        let (class, number) = Self::slot(offset);
        self.taken[class].fetch_and(!(1 << number), Ordering::Release);
    }

    /// Moves an allocation to `to`, unless that is null.
    ///
    /// # Safety
    /// `address` is a live allocation of this allocator with this layout, `to` another one of at least `len` bytes.
    #[cold]
    unsafe fn move_to(&self, to: *mut u8, address: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        if !to.is_null() {
            // SAFETY: two allocations, both as long as that; the old one is not used any more.
            unsafe {
                to.copy_from_nonoverlapping(address, layout.size().min(len));
                self.dealloc(address, layout);
            }
        }
        to
    }
}

// SAFETY: what the inner allocator gives is its own and goes back to it, as addresses tell. A slot has the size and the alignment that were asked for, and one
// owner. Nothing here panics.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Reserve<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        let address = unsafe { self.inner.alloc(layout) };
        if address.is_null() { self.take(layout) } else { address }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        let address = unsafe { self.inner.alloc_zeroed(layout) };
        if !address.is_null() {
            return address;
        }
        let slot = self.take(layout);
        if !slot.is_null() {
            // SAFETY: the slot is as long as that.
            unsafe { slot.write_bytes(0, layout.size()) };
        }
        slot
    }

    unsafe fn realloc(&self, address: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        // SAFETY: the caller promises a length that makes a layout with this alignment.
        let wanted = unsafe { Layout::from_size_align_unchecked(len, layout.align()) };
        if let Some(offset) = self.offset(address) {
            if len <= size_of_slot(Self::slot(offset).0) {
                return address;
            }
            // SAFETY: the caller's promises; the new allocation is `len` long.
            return unsafe { self.move_to(self.alloc(wanted), address, layout, len) };
        }
        // SAFETY: the caller's promise, and the address is the inner allocator's.
        let moved = unsafe { self.inner.realloc(address, layout, len) };
        if !moved.is_null() {
            return moved;
        }
        // SAFETY: after a refusal the old allocation is as it was; the slot is `len` long.
        unsafe { self.move_to(self.take(wanted), address, layout, len) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        match self.offset(address) {
            Some(offset) => self.release(offset),
            // SAFETY: the caller's promise, and the address is the inner allocator's.
            None => unsafe { self.inner.dealloc(address, layout) },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::System;
    use std::collections::HashSet;

    use super::*;

    /// Gives what malloc gives, or nothing.
    struct Tap {
        is_open: AtomicBool,
    }

    // SAFETY: as `System`, or null.
    unsafe impl GlobalAlloc for Tap {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            // SAFETY: the caller's promise.
            if self.is_open.load(Ordering::Relaxed) { unsafe { System.alloc(layout) } } else { null_mut() }
        }

        unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
            // SAFETY: the caller's promise.
            unsafe { System.dealloc(address, layout) }
        }
    }

    type Tested = Reserve<Tap>;

    /// A reserve of 1 MiB for one test, which is not made on the stack.
    macro_rules! reserve {
        (open: $is_open:expr) => {{
            static RESERVE: Tested = Reserve::new(Tap { is_open: AtomicBool::new($is_open) });
            &RESERVE
        }};
    }

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).expect("a layout")
    }

    fn alloc(reserve: &Tested, size: usize, align: usize) -> *mut u8 {
        // SAFETY: sizes in this test are not 0.
        unsafe { reserve.alloc(layout(size, align)) }
    }

    fn free(reserve: &Tested, address: *mut u8, size: usize, align: usize) {
        // SAFETY: from `alloc` with this layout.
        unsafe { reserve.dealloc(address, layout(size, align)) }
    }

    fn realloc(reserve: &Tested, address: *mut u8, from: usize, to: usize) -> *mut u8 {
        // SAFETY: from `alloc` with this layout; the new length is not 0.
        unsafe { reserve.realloc(address, layout(from, 8), to) }
    }

    fn is_in(reserve: &Tested, address: *mut u8) -> bool {
        reserve.offset(address).is_some()
    }

    fn is_unused(reserve: &Tested) -> bool {
        reserve.taken.iter().all(|taken| taken.load(Ordering::Relaxed) == 0)
    }

    fn fill(address: *mut u8, len: usize) {
        for at in 0..len {
            // SAFETY: within the allocation.
            unsafe { address.add(at).write((at * 7 % 251) as u8) };
        }
    }

    fn assert_filled(address: *mut u8, len: usize) {
        for at in 0..len {
            // SAFETY: within the allocation.
            assert_eq!(unsafe { address.add(at).read() }, (at * 7 % 251) as u8, "byte {at}");
        }
    }

    #[test]
    fn malloc_serves_as_long_as_it_can() {
        let reserve = reserve!(open: true);
        let address = alloc(reserve, 100, 8);
        assert!(!is_in(reserve, address) && is_unused(reserve) && !reserve.is_low());
        free(reserve, address, 100, 8);
    }

    #[test]
    fn slots_have_the_size_and_alignment_asked_for_and_do_not_overlap() {
        let reserve = reserve!(open: false);
        for align in (0..=12).map(|log| 1 << log) {
            for size in [1, 63, 64, 65, 1000, 4096, 4097, LONGEST] {
                let both = [(); 2].map(|()| alloc(reserve, size, align));
                for address in both {
                    assert!(is_in(reserve, address) && address.addr() % align == 0, "{size} bytes by {align}");
                    fill(address, size);
                }
                both.into_iter().for_each(|address| assert_filled(address, size));
                both.into_iter().for_each(|address| free(reserve, address, size, align));
                assert!(is_unused(reserve), "{size} bytes by {align}");
            }
        }
        assert!(alloc(reserve, LONGEST + 1, 1).is_null());
        assert!(alloc(reserve, 1, 2 * ALIGNMENT).is_null());
    }

    #[test]
    fn a_reserve_that_is_all_taken_gives_null_until_something_is_freed() {
        let reserve = reserve!(open: false);
        let mut addresses = HashSet::new();
        loop {
            let address = alloc(reserve, 1, 1);
            if address.is_null() {
                break;
            }
            assert!(addresses.insert(address.addr()), "given twice");
            // SAFETY: a byte of the slot.
            unsafe { address.write(1) };
        }
        assert_eq!(addresses.len(), SLOTS * CLASSES);
        let ends = |class| [start_of(class), start_of(class) + (SLOTS - 1) * size_of_slot(class)];
        for offset in (0..CLASSES).flat_map(ends) {
            // SAFETY: within the slots.
            let address = unsafe { reserve.slots.get().cast::<u8>().add(offset) };
            free(reserve, address, 1, 1);
            assert_eq!(alloc(reserve, 1, 1), address);
        }
        // SAFETY: as above.
        addresses.iter().for_each(|&address| free(reserve, reserve.slots.get().cast::<u8>().with_addr(address), 1, 1));
        assert!(is_unused(reserve));
    }

    #[test]
    fn zeroed_slots_are_zeroed_each_time() {
        let reserve = reserve!(open: false);
        for _ in 0..2 {
            // SAFETY: not 0 bytes.
            let address = unsafe { reserve.alloc_zeroed(layout(300, 8)) };
            // SAFETY: as long as that, and written.
            assert!(unsafe { std::slice::from_raw_parts(address, 300) }.iter().all(|&byte| byte == 0));
            fill(address, 300);
            free(reserve, address, 300, 8);
        }
    }

    #[test]
    fn bytes_move_between_malloc_and_the_reserve() {
        let reserve = reserve!(open: true);
        let open = |is_open| reserve.inner.is_open.store(is_open, Ordering::Relaxed);
        let outside = alloc(reserve, 100, 8);
        fill(outside, 100);
        open(false);
        // Malloc refuses to make it longer: a slot serves it. Within its slot it grows and shrinks in place.
        let inside = realloc(reserve, outside, 100, 200);
        assert!(is_in(reserve, inside));
        assert_eq!([realloc(reserve, inside, 200, 256), realloc(reserve, inside, 256, 150)], [inside, inside]);
        let longer = realloc(reserve, inside, 150, 300);
        assert!(is_in(reserve, longer) && longer != inside);
        // What no slot can serve is refused, and stays as it was.
        assert!(realloc(reserve, longer, 300, LONGEST + 1).is_null());
        assert_filled(longer, 100);
        open(true);
        let outside = realloc(reserve, longer, 300, 2 * LONGEST);
        assert!(!is_in(reserve, outside) && is_unused(reserve));
        assert_filled(outside, 100);
        open(false);
        let short = realloc(reserve, outside, 2 * LONGEST, 50);
        assert!(is_in(reserve, short));
        assert_filled(short, 50);
        free(reserve, short, 50, 8);
        assert!(is_unused(reserve));
    }

    #[test]
    fn it_is_low_while_malloc_refuses_or_few_slots_are_free() {
        let reserve = reserve!(open: false);
        let open = |is_open| reserve.inner.is_open.store(is_open, Ordering::Relaxed);
        assert!(!reserve.is_low(), "nothing was refused yet");
        let kept = alloc(reserve, 100, 8);
        assert!(reserve.is_low());
        open(true);
        assert!(!reserve.is_low(), "one slot is taken for ever");
        open(false);
        let many: Vec<*mut u8> = (0..=SLOTS as u32 - SPARE).map(|_| alloc(reserve, LONGEST, 8)).collect();
        open(true);
        assert!(reserve.is_low());
        free(reserve, many[0], LONGEST, 8);
        assert!(!reserve.is_low());
        // Short ones may take what is free of all classes, down to a quarter.
        open(false);
        let short: Vec<*mut u8> = (0..(SLOTS - SPARE as usize) * (CLASSES - 1)).map(|_| alloc(reserve, 1, 1)).collect();
        open(true);
        assert!(reserve.is_low());
        short.iter().for_each(|&address| free(reserve, address, 1, 1));
        assert!(!reserve.is_low());
        // Too long for any slot, but a refusal.
        open(false);
        assert!(alloc(reserve, 1 << 20, 8).is_null() && reserve.is_low());
        many[1..].iter().for_each(|&address| free(reserve, address, LONGEST, 8));
        free(reserve, kept, 100, 8);
        assert!(is_unused(reserve));
    }

    #[test]
    fn a_slot_has_one_owner_among_threads() {
        let reserve = reserve!(open: false);
        let work = |thread: u8| {
            for round in 0..20_000 {
                let size = [16, 64, 100, 1000][(usize::from(thread) + round) % 4];
                let address = alloc(reserve, size, 8);
                assert!(!address.is_null());
                // SAFETY: within the slot, and written before it is read.
                unsafe {
                    address.write_bytes(thread, size);
                    let bytes = std::slice::from_raw_parts(address, size);
                    assert!(bytes.iter().all(|&byte| byte == thread), "another thread has written here");
                }
                free(reserve, address, size, 8);
            }
        };
        std::thread::scope(|scope| (1..=8).for_each(|thread| _ = scope.spawn(move || work(thread))));
        assert!(is_unused(reserve));
    }
}
