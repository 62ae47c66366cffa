//! The floating-point mode in which the codec computes.
//!
//! HDF5 calls the filter in the mode of the application's thread, which may be any. Libraries that gcc links with `-ffast-math` switch subnormal numbers off
//! when they are loaded. Climate codes let invalid operations trap, and some numerical code rounds upwards. The stream's arithmetic is defined for the default
//! mode (FORMAT.md section 5), and so is Rust's. On machines other than those below nothing is changed.

use std::marker::PhantomData;

/// The default mode, as long as this value lives; then the thread's own mode again, with its flags. The value belongs to its thread.
pub(crate) struct DefaultFloatEnvironment {
    saved: Word,
    _not_send: PhantomData<*const ()>,
}

impl DefaultFloatEnvironment {
    pub(crate) fn enter() -> Self {
        let saved = read();
        write(DEFAULT);
        Self { saved, _not_send: PhantomData }
    }
}

impl Drop for DefaultFloatEnvironment {
    fn drop(&mut self) {
        write(self.saved);
    }
}

#[cfg(target_arch = "x86_64")]
type Word = u32;
/// MXCSR after a reset: all exceptions masked, round to nearest even, subnormal numbers as they are.
#[cfg(target_arch = "x86_64")]
const DEFAULT: Word = 0x1f80;

#[cfg(target_arch = "x86_64")]
fn read() -> Word {
    let mut word = 0;
    // SAFETY: stores MXCSR to a variable of its size.
    unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack, preserves_flags)) };
    word
}

#[cfg(target_arch = "x86_64")]
fn write(word: Word) {
    // SAFETY: loads MXCSR with a value without reserved bits: the default, or what `read` found. The compiler assumes the default mode,
    // which this establishes; the thread's own mode comes back only when no code of ours follows but the return to C.
    unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack, preserves_flags)) };
}

#[cfg(target_arch = "aarch64")]
type Word = u64;
/// FPCR after a reset: nothing traps, round to nearest even, subnormal numbers as they are.
#[cfg(target_arch = "aarch64")]
const DEFAULT: Word = 0;

#[cfg(target_arch = "aarch64")]
fn read() -> Word {
    let word;
    // SAFETY: reads FPCR.
    unsafe { std::arch::asm!("mrs {}, fpcr", out(reg) word, options(nomem, nostack, preserves_flags)) };
    word
}

#[cfg(target_arch = "aarch64")]
fn write(word: Word) {
    // SAFETY: as on x86_64.
    unsafe { std::arch::asm!("msr fpcr, {}", in(reg) word, options(nostack, preserves_flags)) };
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
type Word = ();
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const DEFAULT: Word = ();
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn read() -> Word {}
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn write(_word: Word) {}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn the_threads_mode_is_set_aside_and_comes_back() {
        let own = read();
        // Subnormal numbers off, round upwards, invalid operations trap.
        let strange = 0x1f80 & !0x80 | 0x8040 | 0x4000;
        write(strange);
        let inside = {
            let _default = DefaultFloatEnvironment::enter();
            read()
        };
        let after = read();
        write(own);
        assert_eq!((inside, after & !0x3f), (DEFAULT, strange));
    }
}
