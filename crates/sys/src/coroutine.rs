//! User-level threads: programs that park in the middle, and go on there later.
//!
//! A kernel thread [resumes](Thread::resume) a user-level thread, which runs on its own
//! [stack](crate::stacks) until it [parks](Context::park) or ends. It is cooperative: nothing else interrupts
//! it. While it runs, it works with something that all threads share, such as a scheduler's tables. It gets
//! that by [`Context::with`], for the duration of a closure. So it never holds a reference into what is
//! shared while it is parked, and other threads may change everything. Inside of the closure it cannot park,
//! because the closure has no context.
//!
//! The switch is made by the crate `corosensei`, in about a dozen instructions. A thread never moves to
//! another kernel thread.

use std::ptr::NonNull;

use corosensei::{Coroutine, CoroutineResult, Yielder};

use crate::stacks::Stack;

/// A user-level thread. It shares an `S`; each resumption brings it a `R`, and it parks with a `P`.
///
/// Let it end before it is dropped. A parked one is unwound when it is dropped, and where panics abort, that
/// ends the process.
pub struct Thread<S: 'static, R: 'static, P: 'static> {
    coroutine: Coroutine<(NonNull<S>, R), P, (), Stack>,
}

/// A user-level thread as its own program sees it.
pub struct Context<'a, S, R, P> {
    yielder: &'a Yielder<(NonNull<S>, R), P>,
    /// What the present [`resume`](Thread::resume) lends. `None` while the thread is parked, so that nothing
    /// that runs when a parked thread is unwound can use what was lent before.
    shared: Option<NonNull<S>>,
}

impl<S, R, P> Thread<S, R, P> {
    /// A thread with this program, which begins when it is first resumed. The program is no closure, so that
    /// it holds nothing but what it is given.
    pub fn new(stack: Stack, program: fn(&mut Context<'_, S, R, P>, R)) -> Self {
        let coroutine = Coroutine::with_stack(stack, move |yielder, (shared, first)| {
            program(&mut Context { yielder, shared: Some(shared) }, first);
        });
        Self { coroutine }
    }

    /// Runs the thread until it parks, and returns what it parks with. `None`: it has ended. A thread that
    /// has ended must not be resumed.
    ///
    /// # Panics
    ///
    /// If the program does, or has ended before.
    #[inline]
    pub fn resume(&mut self, shared: &mut S, with: R) -> Option<P> {
        match self.coroutine.resume((NonNull::from(shared), with)) {
            CoroutineResult::Yield(parked) => Some(parked),
            CoroutineResult::Return(()) => None,
        }
    }
}

impl<S, R, P> Context<'_, S, R, P> {
    /// Works with what is shared.
    ///
    /// # Panics
    ///
    /// If the thread is being unwound, because it was dropped while it was parked.
    #[inline]
    pub fn with<T>(&mut self, work: impl FnOnce(&mut S) -> T) -> T {
        let shared = self.shared.as_mut().expect("a thread that is unwound shares nothing");
        // SAFETY: `resume` has borrowed this `S` mutably, and does not return before the thread parks or
        // ends; so until then the pointer is valid, and nothing outside of the thread has access. The
        // closure is the only access inside: it borrows `self` mutably, and cannot keep the reference, since
        // it must take one of any lifetime. `park` takes the pointer away, and sets it anew.
        work(unsafe { shared.as_mut() })
    }

    /// Parks the thread until it is resumed, and returns what that brings.
    #[inline]
    pub fn park(&mut self, with: P) -> R {
        self.shared = None;
        let (shared, resumed) = self.yielder.suspend(with);
        self.shared = Some(shared);
        resumed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stacks::{Guards, Stacks};

    const STACK: usize = 32 << 10;

    /// Adds what it is resumed with to a total until it gets 0.
    fn add_up(context: &mut Context<'_, Vec<u64>, u64, u64>, first: u64) {
        let (mut next, mut total) = (first, 0);
        while next != 0 {
            total += next;
            context.with(|seen| seen.push(next));
            next = context.park(total);
        }
    }

    #[test]
    fn each_goes_on_where_it_parked() {
        let stacks = Stacks::new(2, STACK, Guards::best()).unwrap();
        let thread = || Thread::new(stacks.take().unwrap().unwrap(), add_up);
        let (mut one, mut other) = (thread(), thread());
        let mut seen = Vec::new();
        assert_eq!((one.resume(&mut seen, 1), other.resume(&mut seen, 10)), (Some(1), Some(10)));
        // What is shared may be somewhere else the next time.
        let mut seen = Box::new(seen);
        assert_eq!((one.resume(&mut seen, 2), other.resume(&mut seen, 20)), (Some(3), Some(30)));
        assert_eq!((one.resume(&mut seen, 0), other.resume(&mut seen, 0)), (None, None));
        assert_eq!(*seen, [1, 10, 2, 20]);
    }

    #[test]
    fn a_stack_goes_back_when_its_thread_ends() {
        let stacks = Stacks::new(1, STACK, Guards::best()).unwrap();
        for _ in 0..3 {
            let mut thread = Thread::new(stacks.take().unwrap().expect("a stack"), add_up);
            assert!(stacks.take().unwrap().is_none());
            assert_eq!(thread.resume(&mut Vec::new(), 0), None);
        }
    }

    #[test]
    fn a_panic_reaches_who_resumed_it() {
        fn panics(_: &mut Context<'_, (), (), ()>, (): ()) {
            panic!("a request has a fault");
        }
        let stacks = Stacks::new(2, STACK, Guards::best()).unwrap();
        let mut thread = Thread::new(stacks.take().unwrap().unwrap(), panics);
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| thread.resume(&mut (), ())));
        assert!(caught.is_err());
    }
}
