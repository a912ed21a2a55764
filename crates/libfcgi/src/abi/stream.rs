//! The streams of `fcgiapp.h`: a request's body, its reply and its error log; and writers for programs that
//! speak FastCGI without a request.
//!
//! The structure is the header's, for its informative fields. The buffer is elsewhere, so its pointers are
//! NULL.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr;

use fastcgi::record::{self, Kind};

use super::EOF;
use super::exchange::Exchange;
use crate::connection::Source;

/// `FCGX_Stream`.
#[repr(C)]
pub(super) struct Stream {
    rd_next: *mut u8,
    wr_next: *mut u8,
    stop: *mut u8,
    stop_unget: *mut u8,
    is_reader: c_int,
    is_closed: c_int,
    was_fclose_called: c_int,
    fcgi_errno: c_int,
    fill_buff_proc: Option<extern "C" fn(*mut Stream)>,
    empty_buff_proc: Option<extern "C" fn(*mut Stream, c_int)>,
    data: *mut c_void,
    // The header does not declare what follows. Programs do not create streams themselves.
    purpose: Purpose,
    /// Bytes that were read and put back. The last one is read next.
    unread: Vec<u8>,
}

/// The purpose of a stream.
pub(super) enum Purpose {
    /// An input stream of a request.
    In(*mut Exchange, Source),
    /// The reply of a request.
    Out(*mut Exchange),
    /// Its text for the error log.
    Errors(*mut Exchange),
    /// Records to a socket.
    Records(Box<Records>),
}

/// A stream of records.
pub(super) struct Records {
    socket: c_int,
    request: u16,
    kind: Kind,
    /// Content that waits for more, and its maximum.
    buffer: Vec<u8>,
    room: usize,
}

const PROTOCOL_ERROR: c_int = -3;
const CALL_SEQ_ERROR: c_int = -5;
/// Most bytes that can be put back.
const MOST_UNREAD: usize = 4_096;

impl Stream {
    pub(super) fn new(purpose: Purpose) -> Self {
        let is_reader = matches!(purpose, Purpose::In(..)).into();
        Self {
            rd_next: ptr::null_mut(),
            wr_next: ptr::null_mut(),
            stop: ptr::null_mut(),
            stop_unget: ptr::null_mut(),
            is_reader,
            is_closed: 0,
            was_fclose_called: 0,
            fcgi_errno: 0,
            fill_buff_proc: None,
            empty_buff_proc: None,
            data: ptr::null_mut(),
            purpose,
            unread: Vec::new(),
        }
    }

    /// Marks the stream as closed, because its request has ended.
    pub(super) fn end(&mut self) {
        self.is_closed = 1;
    }

    /// Resets the stream for the next request.
    pub(super) fn renew(&mut self) {
        let (is_closed, was_fclose_called, fcgi_errno) = (0, 0, 0);
        (self.is_closed, self.was_fclose_called, self.fcgi_errno) =
            (is_closed, was_fclose_called, fcgi_errno);
        self.unread.clear();
        if let Purpose::In(_, source) = &mut self.purpose {
            *source = Source::Stdin;
        }
    }

    fn fail(&mut self, number: c_int) {
        if self.fcgi_errno == 0 {
            self.fcgi_errno = number;
        }
        self.is_closed = 1;
    }

    /// Makes a call. A failure becomes the stream's error.
    fn try_to(&mut self, call: impl FnOnce(&mut Self) -> io::Result<()>) -> bool {
        let result = call(self);
        if let Err(error) = &result {
            self.fail(number_of(error));
        }
        result.is_ok()
    }

    /// Returns the bytes available for reading, and blocks if there are none. Empty at the end, and after a
    /// failure.
    fn fill(&mut self) -> &[u8] {
        if !self.unread.is_empty() {
            // They are read in reverse order.
            return &self.unread[self.unread.len() - 1..];
        }
        if self.is_closed != 0 {
            return &[];
        }
        let Purpose::In(exchange, source) = self.purpose else { return &[] };
        // SAFETY: a request's streams live no longer than its held state, and there is no other reference to
        // that while one of its streams is used.
        let filled = unsafe { (*exchange).session.fill(source) };
        let failure = match &filled {
            Ok([]) => None,
            Ok(_) => return filled.unwrap_or_default(),
            Err(error) => Some(number_of(error)),
        };
        self.is_closed = 1;
        if let Some(number) = failure {
            self.fail(number);
        }
        &[]
    }

    fn consume(&mut self, count: usize) {
        if self.unread.pop().is_none()
            && let Purpose::In(exchange, source) = self.purpose
        {
            // SAFETY: as for `fill`.
            unsafe { (*exchange).session.consume(source, count) };
        }
    }

    /// Writes all of the bytes, and returns whether that was possible.
    fn put(&mut self, bytes: &[u8]) -> bool {
        if self.is_closed != 0 {
            return false;
        }
        self.try_to(|this| match &mut this.purpose {
            Purpose::In(..) => Err(io::ErrorKind::Unsupported.into()),
            // SAFETY: as for `fill`.
            Purpose::Out(exchange) => unsafe { (**exchange).session.write(bytes) },
            // SAFETY: as for `fill`.
            Purpose::Errors(exchange) => unsafe { (**exchange).session.complain(bytes) },
            Purpose::Records(records) => records.write(bytes),
        })
    }

    fn flush(&mut self) -> bool {
        self.try_to(|this| match &mut this.purpose {
            Purpose::In(..) => Ok(()),
            // SAFETY: as for `fill`.
            Purpose::Out(exchange) => unsafe { (**exchange).session.flush() },
            // SAFETY: as for `fill`.
            Purpose::Errors(exchange) => unsafe { (**exchange).session.flush_errors() },
            Purpose::Records(records) => records.flush(),
        })
    }

    /// Ends writing. A request ends when both of its writers have ended.
    fn close(&mut self) {
        self.try_to(|this| match &mut this.purpose {
            Purpose::In(..) => Ok(()),
            // SAFETY: as for `fill`; the streams are not touched.
            Purpose::Out(exchange) | Purpose::Errors(exchange) => unsafe { (**exchange).close_writer() },
            Purpose::Records(records) => records.close(),
        });
    }
}

impl Records {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() > self.room { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut out = Vec::new();
        record::stream(&mut out, self.kind, self.request, &self.buffer);
        self.buffer.clear();
        self.send(&out)
    }

    fn close(&mut self) -> io::Result<()> {
        self.flush()?;
        let mut out = Vec::new();
        record::end_of_stream(&mut out, self.kind, self.request);
        self.send(&out)
    }

    fn send(&self, mut bytes: &[u8]) -> io::Result<()> {
        // SAFETY: the program that created the writer keeps its socket open; the number is not -1.
        let socket = unsafe { BorrowedFd::borrow_raw(self.socket) };
        while !bytes.is_empty() {
            match sys::socket::send(socket, bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let interest = sys::event::Interest::WRITABLE;
                    sys::poll::wait_for([(socket.as_fd(), interest)], None)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The error number for the library's callers.
fn number_of(error: &io::Error) -> c_int {
    match (error.raw_os_error(), error.kind()) {
        (Some(number), _) => number,
        (_, io::ErrorKind::InvalidData) => PROTOCOL_ERROR,
        (_, io::ErrorKind::NotConnected | io::ErrorKind::Unsupported) => CALL_SEQ_ERROR,
        (_, io::ErrorKind::ConnectionAborted) => libc::ECONNABORTED,
        (_, io::ErrorKind::BrokenPipe) => libc::EPIPE,
        (_, io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset) => libc::ECONNRESET,
        _ => libc::EIO,
    }
}

/// The stream, unless the pointer is NULL.
///
/// # Safety
///
/// It is NULL or a stream of this library, and there is no other use of it meanwhile.
unsafe fn known<'a>(stream: *mut Stream) -> Option<&'a mut Stream> {
    // SAFETY: as the caller says.
    unsafe { stream.as_mut() }
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn FCGX_GetChar(stream: *mut Stream) -> c_int {
    // SAFETY: the caller's pointer, as in the header.
    let Some(stream) = (unsafe { known(stream) }) else { return EOF };
    let Some(&byte) = stream.fill().first() else { return EOF };
    stream.consume(1);
    byte.into()
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn FCGX_UnGetChar(c: c_int, stream: *mut Stream) -> c_int {
    // SAFETY: the caller's pointer, as in the header.
    let Some(stream) = (unsafe { known(stream) }) else { return EOF };
    let Ok(byte) = u8::try_from(c) else { return EOF };
    if stream.is_reader == 0 || stream.unread.len() == MOST_UNREAD {
        return EOF;
    }
    stream.unread.push(byte);
    c
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn FCGX_GetStr(str: *mut c_char, n: c_int, stream: *mut Stream) -> c_int {
    // SAFETY: the caller's pointer, as in the header.
    let Some(stream) = (unsafe { known(stream) }) else { return 0 };
    let wanted = usize::try_from(n).unwrap_or(0);
    let mut read = 0;
    while read < wanted {
        let there = stream.fill();
        let count = there.len().min(wanted - read);
        if count == 0 {
            break;
        }
        // SAFETY: there is room for `n` bytes at `str`, of which `read` are used; the library does not own
        // them.
        unsafe { ptr::copy_nonoverlapping(there.as_ptr(), str.cast::<u8>().add(read), count) };
        stream.consume(count);
        read += count;
    }
    read as c_int
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn FCGX_GetLine(str: *mut c_char, n: c_int, stream: *mut Stream) -> *mut c_char {
    // SAFETY: the caller's pointer, as in the header.
    let Some(stream) = (unsafe { known(stream) }) else { return ptr::null_mut() };
    let Some(room) = usize::try_from(n).ok().and_then(|n| n.checked_sub(1)) else { return ptr::null_mut() };
    let mut read = 0;
    while read < room {
        let Some(&byte) = stream.fill().first() else { break };
        stream.consume(1);
        // SAFETY: there is room for `n` bytes at `str`, the last for the terminator.
        unsafe { *str.add(read) = byte as c_char };
        read += 1;
        if byte == b'\n' {
            break;
        }
    }
    if read == 0 {
        return ptr::null_mut();
    }
    // SAFETY: as above.
    unsafe { *str.add(read) = 0 };
    str
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn FCGX_HasSeenEOF(stream: *mut Stream) -> c_int {
    // SAFETY: the caller's pointer, as in the header.
    let Some(stream) = (unsafe { known(stream) }) else { return EOF };
    if stream.is_closed != 0 && stream.unread.is_empty() { EOF } else { 0 }
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn FCGX_PutChar(c: c_int, stream: *mut Stream) -> c_int {
    // SAFETY: the caller's pointer, as in the header.
    let Some(stream) = (unsafe { known(stream) }) else { return EOF };
    if stream.put(&[c as u8]) { c } else { EOF }
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn FCGX_PutStr(str: *const c_char, n: c_int, stream: *mut Stream) -> c_int {
    // SAFETY: the caller's pointer, as in the header.
    let Some(stream) = (unsafe { known(stream) }) else { return EOF };
    let bytes = match usize::try_from(n) {
        // SAFETY: that many bytes are there, and stay for the call.
        Ok(count @ 1..) => unsafe { std::slice::from_raw_parts(str.cast::<u8>(), count) },
        _ => &[],
    };
    if stream.put(bytes) { n } else { EOF }
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn FCGX_PutS(str: *const c_char, stream: *mut Stream) -> c_int {
    // SAFETY: the caller's pointers, as in the header.
    unsafe {
        let length = CStr::from_ptr(str).count_bytes();
        c_int::try_from(length).map_or(EOF, |length| FCGX_PutStr(str, length, stream))
    }
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn FCGX_FFlush(stream: *mut Stream) -> c_int {
    // SAFETY: the caller's pointer, as in the header.
    let Some(stream) = (unsafe { known(stream) }) else { return EOF };
    if stream.is_closed != 0 || stream.flush() { 0 } else { EOF }
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn FCGX_FClose(stream: *mut Stream) -> c_int {
    // SAFETY: the caller's pointer, as in the header.
    let Some(stream) = (unsafe { known(stream) }) else { return 0 };
    if stream.was_fclose_called == 0 {
        stream.close();
        (stream.was_fclose_called, stream.is_closed) = (1, 1);
        stream.unread.clear();
    }
    if stream.fcgi_errno == 0 { 0 } else { EOF }
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn FCGX_GetError(stream: *mut Stream) -> c_int {
    // SAFETY: the caller's pointer, as in the header.
    unsafe { known(stream) }.map_or(0, |stream| stream.fcgi_errno)
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn FCGX_ClearError(stream: *mut Stream) {
    // SAFETY: the caller's pointer, as in the header.
    if let Some(stream) = unsafe { known(stream) } {
        stream.fcgi_errno = 0;
    }
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn FCGX_StartFilterData(stream: *mut Stream) -> c_int {
    // SAFETY: the caller's pointer, as in the header.
    let Some(stream) = (unsafe { known(stream) }) else { return EOF };
    let Purpose::In(exchange, source) = &mut stream.purpose else {
        stream.fail(CALL_SEQ_ERROR);
        return EOF;
    };
    // SAFETY: as for `fill`.
    let is_ready = unsafe { (**exchange).is_filter() && (**exchange).session.is_read(Source::Stdin) };
    if *source != Source::Stdin || !is_ready {
        stream.fail(CALL_SEQ_ERROR);
        return EOF;
    }
    *source = Source::Data;
    stream.is_closed = 0;
    0
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn FCGX_SetExitStatus(status: c_int, stream: *mut Stream) {
    // SAFETY: the caller's pointer, as in the header.
    let stream = unsafe { known(stream) };
    let purpose = stream.map(|stream| &stream.purpose);
    if let Some(Purpose::In(exchange, _) | Purpose::Out(exchange) | Purpose::Errors(exchange)) = purpose {
        // SAFETY: as for `fill`.
        unsafe { (**exchange).exit = status };
    }
}

#[unsafe(no_mangle)]
extern "C" fn FCGX_CreateWriter(socket: c_int, request: c_int, length: c_int, kind: c_int) -> *mut Stream {
    let kind = u8::try_from(kind).ok().and_then(Kind::from_number);
    let (Some(kind), Ok(request), Ok(room), 0..) =
        (kind, u16::try_from(request), usize::try_from(length), socket)
    else {
        return ptr::null_mut();
    };
    let records = Records { socket, request, kind, buffer: Vec::new(), room: room.clamp(32, 0xffff) };
    Box::into_raw(Box::new(Stream::new(Purpose::Records(Box::new(records)))))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn FCGX_FreeStream(stream: *mut *mut Stream) {
    // SAFETY: the caller's pointers, as in the header.
    let Some(place) = (unsafe { stream.as_mut() }) else { return };
    let stream = std::mem::replace(place, ptr::null_mut());
    // SAFETY: as above. A request's streams are freed with its held state.
    unsafe {
        if stream.as_ref().is_some_and(|stream| matches!(stream.purpose, Purpose::Records(_))) {
            drop(Box::from_raw(stream));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn it_is_laid_out_as_the_header_says() {
        let fields = [
            "rdNext",
            "wrNext",
            "stop",
            "stopUnget",
            "isReader",
            "isClosed",
            "wasFCloseCalled",
            "FCGI_errno",
            "fillBuffProc",
            "emptyBuffProc",
            "data",
        ];
        let offsets = fields.map(|field| format!("offsetof(FCGX_Stream, {field})"));
        let mut expressions: Vec<_> = offsets.iter().map(String::as_str).collect();
        expressions.push("sizeof(FCGX_Stream)");
        let ours = [
            offset_of!(Stream, rd_next),
            offset_of!(Stream, wr_next),
            offset_of!(Stream, stop),
            offset_of!(Stream, stop_unget),
            offset_of!(Stream, is_reader),
            offset_of!(Stream, is_closed),
            offset_of!(Stream, was_fclose_called),
            offset_of!(Stream, fcgi_errno),
            offset_of!(Stream, fill_buff_proc),
            offset_of!(Stream, empty_buff_proc),
            offset_of!(Stream, data),
            offset_of!(Stream, purpose),
        ];
        assert_eq!(super::super::c_says("fcgiapp.h", &expressions), ours);
    }

    #[test]
    fn errors_have_the_headers_numbers() {
        let numbers = super::super::c_says("fcgiapp.h", &["-FCGX_PROTOCOL_ERROR", "-FCGX_CALL_SEQ_ERROR"]);
        assert_eq!(numbers, [PROTOCOL_ERROR, CALL_SEQ_ERROR].map(|number| number.unsigned_abs() as usize));
        assert_eq!(number_of(&io::ErrorKind::BrokenPipe.into()), libc::EPIPE);
        assert_eq!(number_of(&io::Error::from_raw_os_error(libc::ENOBUFS)), libc::ENOBUFS);
    }
}
