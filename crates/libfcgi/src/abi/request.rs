//! The requests of `fcgiapp.h`: initialization, accepting and ending requests, and their parameters.

use std::ffi::{CStr, c_char, c_int};
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use memchr::memchr2;

use super::exchange::Exchange;
use super::stream::{Purpose, Stream};
use super::{EOF, os};
use crate::connection::{Connection, Source};
use crate::listener;
use crate::session::Session;

/// `FCGX_Request`, which the program owns.
#[repr(C)]
pub(super) struct Request {
    id: c_int,
    role: c_int,
    input: *mut Stream,
    output: *mut Stream,
    errors: *mut Stream,
    envp: *mut *mut c_char,
    /// The header's private `paramsPtr`: the state that is held from one request to the next.
    held: *mut Held,
    ipc_fd: c_int,
    is_begin_processed: c_int,
    keep_connection: c_int,
    app_status: c_int,
    n_writers: c_int,
    flags: c_int,
    listen_sock: c_int,
    detached: c_int,
}

/// The state held for a program's `FCGX_Request`. Each of its streams has a pointer to the exchange.
pub(super) struct Held {
    exchange: Exchange,
    environment: Environment,
    input: *mut Stream,
    output: *mut Stream,
    errors: *mut Stream,
}

/// The parameters of the current request in the form of a C environment: terminated strings `NAME=value`, and
/// an array of pointers to them that ends with NULL.
#[derive(Default)]
struct Environment {
    strings: Vec<u8>,
    envp: Vec<*mut c_char>,
}

const LISTENER: c_int = 0;
const FAIL_ACCEPT_ON_INTR: c_int = 1;
const NOT_INITIALIZED: c_int = -9_998;
const SHUT_DOWN: c_int = -9_999;

static IS_INITIALIZED: AtomicBool = AtomicBool::new(false);

impl Held {
    fn new() -> *mut Self {
        let null = ptr::null_mut();
        let held = Box::into_raw(Box::new(Self {
            exchange: Exchange::new(),
            environment: Environment::default(),
            input: null,
            output: null,
            errors: null,
        }));
        let new = |purpose| Box::into_raw(Box::new(Stream::new(purpose)));
        // SAFETY: it was just created, and there is no other reference to it.
        unsafe {
            let exchange = &raw mut (*held).exchange;
            (*held).input = new(Purpose::In(exchange, Source::Stdin));
            (*held).output = new(Purpose::Out(exchange));
            (*held).errors = new(Purpose::Errors(exchange));
        }
        held
    }

    /// Frees the state and its streams, and closes the connection.
    ///
    /// # Safety
    ///
    /// It was created by `new`, and neither it nor its streams are used any more.
    unsafe fn free(held: *mut Self) {
        // SAFETY: as the caller says.
        unsafe {
            for stream in [(*held).input, (*held).output, (*held).errors] {
                drop(Box::from_raw(stream));
            }
            drop(Box::from_raw(held));
        }
    }
}

impl Environment {
    /// Replaces the parameters. A name that could be mistaken for another, or that ends too early, is left
    /// out.
    fn write<'a>(&mut self, params: impl Iterator<Item = (&'a [u8], &'a [u8])>) {
        self.strings.clear();
        self.envp.clear();
        for (name, value) in params {
            let start = self.strings.len();
            self.strings.reserve(name.len() + value.len() + 2);
            for part in [name, b"=", value, b"\0"] {
                self.strings.extend_from_slice(part);
            }
            if name.is_empty() || memchr2(b'=', 0, &self.strings[start..]) != Some(name.len()) {
                self.strings.truncate(start);
                continue;
            }
            // Only the offset: the strings may still move until the last one has been added.
            self.envp.push(ptr::without_provenance_mut(start));
        }
        let strings = self.strings.as_mut_ptr().cast::<c_char>();
        for place in &mut self.envp {
            *place = strings.wrapping_add(place.addr());
        }
        self.envp.push(ptr::null_mut());
    }
}

impl Request {
    /// An empty request.
    const fn new(listen_sock: c_int, flags: c_int) -> Self {
        let null = ptr::null_mut();
        Self {
            id: 0,
            role: 0,
            input: null,
            output: null,
            errors: null,
            envp: ptr::null_mut(),
            held: ptr::null_mut(),
            ipc_fd: -1,
            is_begin_processed: 0,
            keep_connection: 0,
            app_status: 0,
            n_writers: 0,
            flags,
            listen_sock,
            detached: 0,
        }
    }

    /// Fills the program's structure for the new request.
    fn tell(&mut self, held: &mut Held) {
        let Some(connection) = held.exchange.session.connection() else { return };
        self.ipc_fd = connection.number();
        if let Some(begun) = connection.request() {
            self.id = begun.request.into();
            self.role = begun.role as c_int;
            self.keep_connection = begun.keeps.into();
        }
        held.environment.write(held.exchange.session.connection().into_iter().flat_map(Connection::params));
        held.exchange.begin();
        (self.input, self.output, self.errors) = (held.input, held.output, held.errors);
        for stream in [held.input, held.output, held.errors] {
            // SAFETY: its streams live as long as it does, and the program does not know them yet.
            unsafe { (*stream).renew() };
        }
        self.envp = held.environment.envp.as_mut_ptr();
        (self.is_begin_processed, self.app_status, self.n_writers) = (1, 0, 2);
    }

    /// Ends the request, if there is one, with the function `end`.
    fn end_with(&mut self, end: fn(&mut Session, u32) -> io::Result<()>) {
        self.forget();
        // SAFETY: this library has allocated it, or it is NULL. Only one thread calls, and the streams are
        // closed.
        let Some(held) = (unsafe { self.held.as_mut() }) else { return };
        self.app_status = held.exchange.exit;
        // If the end cannot be sent, the end of the connection shows it.
        let _ = end(&mut held.exchange.session, held.exchange.exit.cast_unsigned());
        self.ipc_fd = held.exchange.session.connection().map_or(-1, Connection::number);
    }

    /// Clears the request from the structure.
    fn forget(&mut self) {
        for stream in [self.input, self.output, self.errors] {
            // SAFETY: they are NULL or streams of this library, which alone writes these fields.
            if let Some(stream) = unsafe { stream.as_mut() } {
                stream.end();
            }
        }
        (self.input, self.output, self.errors) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        self.envp = ptr::null_mut();
        (self.is_begin_processed, self.n_writers) = (0, 0);
    }
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn FCGX_Init() -> c_int {
    if IS_INITIALIZED.load(Ordering::Acquire) {
        return 0;
    }
    if let Err(error) = listener::read_environment() {
        // The return value tells the program only that starting failed.
        eprintln!("libfcgi: {error}");
        return libc::EINVAL;
    }
    // SAFETY: it only installs handlers.
    unsafe { os::OS_LibInit(ptr::null_mut()) };
    IS_INITIALIZED.store(true, Ordering::Release);
    0
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn FCGX_IsCGI() -> c_int {
    static IS_CGI: AtomicI32 = AtomicI32::new(-1);
    if IS_CGI.load(Ordering::Relaxed) < 0 {
        FCGX_Init();
        let is_cgi = c_int::from(os::OS_IsFcgi(LISTENER) == 0);
        IS_CGI.store(is_cgi, Ordering::Relaxed);
    }
    IS_CGI.load(Ordering::Relaxed)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn FCGX_OpenSocket(path: *const c_char, backlog: c_int) -> c_int {
    // SAFETY: the caller's pointer, as in the header.
    unsafe { os::OS_CreateLocalIpcFd(path, backlog) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn FCGX_InitRequest(request: *mut Request, sock: c_int, flags: c_int) -> c_int {
    // SAFETY: the program's memory, whose contents do not matter.
    unsafe { request.write(Request::new(sock, flags)) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn FCGX_Accept_r(request: *mut Request) -> c_int {
    if !IS_INITIALIZED.load(Ordering::Acquire) {
        return NOT_INITIALIZED;
    }
    // SAFETY: the caller's pointer, as in the header.
    let Some(request) = (unsafe { request.as_mut() }) else { return EOF };
    if request.listen_sock < 0 {
        request.end_with(Session::end);
        return -libc::EBADF;
    }
    // The web server gets in one piece the end of this request and the report that the program waits for the
    // next.
    request.end_with(Session::conclude);
    if request.held.is_null() {
        request.held = Held::new();
    }
    // SAFETY: it belongs to this request, for which only one thread calls; its streams are closed.
    let held = unsafe { &mut *request.held };
    // SAFETY: the program keeps it open while it accepts; the number is not -1.
    let listener = unsafe { BorrowedFd::borrow_raw(request.listen_sock) };
    match held.exchange.session.next(listener, request.flags & FAIL_ACCEPT_ON_INTR != 0) {
        Ok(true) => {
            request.tell(held);
            0
        }
        Ok(false) => SHUT_DOWN,
        Err(error) => {
            request.ipc_fd = held.exchange.session.connection().map_or(-1, Connection::number);
            error.raw_os_error().map_or(SHUT_DOWN, |number| -number)
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn FCGX_Finish_r(request: *mut Request) {
    // SAFETY: the caller's pointer, as in the header.
    let Some(request) = (unsafe { request.as_mut() }) else { return };
    request.end_with(Session::end);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn FCGX_Free(request: *mut Request, close: c_int) {
    // SAFETY: the caller's pointer, as in the header.
    let Some(request) = (unsafe { request.as_mut() }) else { return };
    request.forget();
    // SAFETY: as for `FCGX_Accept_r`.
    let Some(held) = (unsafe { request.held.as_mut() }) else { return };
    if close == 0 {
        held.exchange.session.abandon();
        return;
    }
    if request.detached == 0 {
        held.exchange.session.shut_down();
    }
    // SAFETY: the program has none of its streams any more.
    unsafe { Held::free(std::mem::replace(&mut request.held, ptr::null_mut())) };
    request.ipc_fd = -1;
}

#[unsafe(no_mangle)]
unsafe extern "C" fn FCGX_Attach(request: *mut Request) -> c_int {
    // SAFETY: the caller's pointer, as in the header.
    unsafe { (*request).detached = 0 };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn FCGX_Detach(request: *mut Request) -> c_int {
    // SAFETY: the caller's pointer, as in the header.
    unsafe { (*request).detached = 1 };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn FCGX_GetParam(name: *const c_char, envp: *mut *mut c_char) -> *mut c_char {
    if name.is_null() || envp.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: the caller's pointers, as in the header: a string, and strings with NULL behind them.
    unsafe {
        let name = CStr::from_ptr(name).to_bytes();
        let mut place = envp;
        while !(*place).is_null() {
            let value = CStr::from_ptr(*place).to_bytes().strip_prefix(name);
            if value.is_some_and(|rest| rest.first() == Some(&b'=')) {
                return (*place).add(name.len() + 1);
            }
            place = place.add(1);
        }
    }
    ptr::null_mut()
}

#[unsafe(no_mangle)]
extern "C" fn FCGX_ShutdownPending() {
    listener::shut_down();
}

/// The request of programs that have one at a time.
static mut THE_REQUEST: Request = Request::new(LISTENER, 0);

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn FCGX_Accept(
    input: *mut *mut Stream,
    output: *mut *mut Stream,
    errors: *mut *mut Stream,
    envp: *mut *mut *mut c_char,
) -> c_int {
    let code = FCGX_Init();
    if code != 0 {
        return -code;
    }
    // SAFETY: it is for single-threaded programs, as the header says, and the pointers are the caller's.
    unsafe {
        let code = FCGX_Accept_r(&raw mut THE_REQUEST);
        *input = THE_REQUEST.input;
        *output = THE_REQUEST.output;
        *errors = THE_REQUEST.errors;
        *envp = THE_REQUEST.envp;
        code
    }
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn FCGX_Finish() {
    // SAFETY: as for `FCGX_Accept`.
    unsafe { FCGX_Finish_r(&raw mut THE_REQUEST) };
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn the_environment_has_each_name_that_is_one() {
        let mut environment = Environment::default();
        let long = [b'v'; 500];
        // The second has less than is left from the first.
        for length in [long.len(), 3] {
            let value = &long[..length];
            let params: [(&[u8], &[u8]); 7] = [
                (b"A", b"1=2"),
                (b"", b"nameless"),
                (b"B=C", b"mistaken"),
                (b"D\0E", b"cut"),
                (b"F", b""),
                (b"=", b"none"),
                (b"LONG", value),
            ];
            environment.write(params.into_iter());
            let (last, places) = environment.envp.split_last().unwrap();
            assert!(last.is_null());
            // SAFETY: strings with their ends, of an environment that is still there.
            let strings = places.iter().map(|place| unsafe { CStr::from_ptr(*place) }.to_bytes().to_vec());
            let expected = [b"A=1=2".to_vec(), b"F=".to_vec(), [b"LONG=", value].concat()];
            assert_eq!(strings.collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn it_is_laid_out_as_the_header_says() {
        let fields = [
            "requestId",
            "role",
            "in",
            "out",
            "err",
            "envp",
            "paramsPtr",
            "ipcFd",
            "isBeginProcessed",
            "keepConnection",
            "appStatus",
            "nWriters",
            "flags",
            "listen_sock",
            "detached",
        ];
        let offsets = fields.map(|field| format!("offsetof(FCGX_Request, {field})"));
        let mut expressions: Vec<_> = offsets.iter().map(String::as_str).collect();
        expressions.extend(["sizeof(FCGX_Request)", "FCGI_FAIL_ACCEPT_ON_INTR"]);
        let ours = [
            offset_of!(Request, id),
            offset_of!(Request, role),
            offset_of!(Request, input),
            offset_of!(Request, output),
            offset_of!(Request, errors),
            offset_of!(Request, envp),
            offset_of!(Request, held),
            offset_of!(Request, ipc_fd),
            offset_of!(Request, is_begin_processed),
            offset_of!(Request, keep_connection),
            offset_of!(Request, app_status),
            offset_of!(Request, n_writers),
            offset_of!(Request, flags),
            offset_of!(Request, listen_sock),
            offset_of!(Request, detached),
            size_of::<Request>(),
            FAIL_ACCEPT_ON_INTR as usize,
        ];
        assert_eq!(super::super::c_says("fcgiapp.h", &expressions), ours);
    }
}
