//! The interface of libfcgi 2.4, as its headers `fcgiapp.h`, `fcgi_stdio.h` and `fcgios.h` have it: names,
//! structures, what is returned, and in which order things must be called. What it does is done elsewhere.
//!
//! Pointers are those that the headers ask for: of a request that was initialized, of a stream that is its or
//! was created, of strings that end, of as many bytes as said. They are not checked beyond NULL; all that comes
//! from the network is. Calls for one request at a time are one thread's.

mod os;
mod printf;
mod request;
mod stdio;
mod stream;

/// What C's functions return at the end of a stream, or when they fail.
const EOF: libc::c_int = -1;
