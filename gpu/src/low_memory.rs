//! Copies by several threads, with each allocation of the process refused in turn. With the plugin's allocator, all bytes arrive.

#[path = "../../codec/tests/common/processes.rs"]
mod processes;
#[path = "../../codec/tests/common/refusing.rs"]
mod refusing;
#[path = "../../filter/src/reserve.rs"]
mod reserve;

use processes::{refuse_each_in_processes, refused_call, run};
use refusing::{Refusals, Refusing, refuse_everywhere};
use reserve::Reserve;

use crate::copy::{beside, copy_in, copy_out};

#[global_allocator]
static ALLOCATOR: Reserve<Refusing> = Reserve::new(Refusing);

/// Bytes of a copy that goes to helpers.
const LEN: usize = 1 << 20;

struct Buffers {
    from: Vec<u8>,
    to: Vec<u8>,
    back: Vec<u8>,
}

impl Buffers {
    fn new() -> Self {
        Self { from: (0..LEN).map(|at| (at * 31 % 251) as u8).collect(), to: vec![0; LEN], back: vec![0; LEN] }
    }

    /// What a chunk's way to the GPU and back does with the helpers. Returns what two jobs side by side have found.
    fn copy(&mut self) -> (u8, u8) {
        let Self { from, to, back } = self;
        copy_in(from, to, |_| {});
        let Ok(()) = copy_out(back, LEN / 4, |_| Ok::<_, std::convert::Infallible>(()), |range| &to[range]);
        beside(|| to[1], || back[2])
    }

    /// Checks what [`Buffers::copy`] has left, and takes it away.
    fn check(&mut self, found: (u8, u8), what: &str) {
        assert!(self.to == self.from && self.back == self.from && found == (31, 62), "{what}");
        self.to.fill(0);
        self.back.fill(0);
    }
}

#[test]
fn first_copies() {
    refuse_each_in_processes("low_memory::a_first_copy", "copies");
}

#[test]
#[ignore = "`first_copies` runs it in processes of its own"]
fn a_first_copy() {
    let mut buffers = Buffers::new();
    let found = refused_call(|| buffers.copy());
    buffers.check(found, "the first");
    let found = buffers.copy();
    buffers.check(found, "the next");
    assert!(!ALLOCATOR.is_low(), "what stays in the reserve leaves room for others");
}

#[test]
fn later_copies() {
    run("low_memory::many_later_copies", "", 0, Refusals::One).unwrap_or_else(|said| panic!("{said}"));
}

#[test]
#[ignore = "`later_copies` runs it in a process of its own"]
fn many_later_copies() {
    let mut buffers = Buffers::new();
    let found = buffers.copy();
    buffers.check(found, "the first");
    for refusals in [Refusals::One, Refusals::AllBehind] {
        for number in 0.. {
            let (found, count) = refuse_everywhere(number, refusals, || buffers.copy());
            buffers.check(found, &format!("allocation {number} of {count}, {refusals:?}"));
            if count <= number {
                break;
            }
        }
    }
}
