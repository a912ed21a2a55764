//! `fcgi_stdio.h`: the C library's streams and those of a request under the same names. A CGI program then
//! needs only a loop around it. If a web server starts the program as CGI, it uses the C library's streams.

use std::ffi::{c_char, c_int, c_long, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{FILE, fpos_t, size_t};

use super::EOF;
use super::request::{FCGX_Accept, FCGX_Finish, FCGX_IsCGI};
use super::stream::{
    FCGX_ClearError, FCGX_FClose, FCGX_FFlush, FCGX_GetError, FCGX_GetLine, FCGX_GetStr, FCGX_HasSeenEOF,
    FCGX_PutChar, FCGX_PutS, FCGX_PutStr, FCGX_SetExitStatus, FCGX_StartFilterData, Stream,
};

/// `FCGI_FILE`: a stream of the C library or of a request.
#[repr(C)]
pub(super) struct File {
    stdio: *mut FILE,
    fcgx: *mut Stream,
}

unsafe extern "C" {
    static stdin: *mut FILE;
    static stdout: *mut FILE;
    static stderr: *mut FILE;
    static mut environ: *mut *mut c_char;
    fn getc(stream: *mut FILE) -> c_int;
    fn clearerr(stream: *mut FILE);
}

const NONE: File = File { stdio: ptr::null_mut(), fcgx: ptr::null_mut() };

/// Standard input, output and error of a program: its header's macros name the three.
#[unsafe(no_mangle)]
static mut _fcgi_sF: [File; 3] = [NONE; 3];

static WAS_ACCEPT_CALLED: AtomicBool = AtomicBool::new(false);

/// The address of the standard streams: in the library, or in the program's copy.
fn standard() -> *mut File {
    (&raw mut _fcgi_sF).cast()
}

fn standard_output() -> *mut File {
    standard().wrapping_add(1)
}

fn standard_error() -> *mut File {
    standard().wrapping_add(2)
}

fn is_standard(file: *mut File) -> bool {
    (0..3).any(|place| file == standard().wrapping_add(place))
}

/// Which kind of stream a file is. SAFETY of its users: the pointer is one of `fcgi_stdio.h`'s, which the
/// program owns, and the C library's functions are called with the program's arguments.
enum Is {
    Stdio(*mut FILE),
    Fcgx(*mut Stream),
    Closed,
}

/// # Safety
///
/// A file of this library's.
unsafe fn kind(file: *mut File) -> Is {
    // SAFETY: as the caller says.
    unsafe {
        if file.is_null() {
            Is::Closed
        } else if !(*file).stdio.is_null() {
            Is::Stdio((*file).stdio)
        } else if !(*file).fcgx.is_null() {
            Is::Fcgx((*file).fcgx)
        } else {
            Is::Closed
        }
    }
}

extern "C" fn finish_at_exit() {
    FCGI_Finish();
}

#[unsafe(no_mangle)]
extern "C" fn FCGI_Accept() -> c_int {
    let is_cgi = FCGX_IsCGI() != 0;
    if !WAS_ACCEPT_CALLED.swap(true, Ordering::AcqRel) {
        // SAFETY: the function may be called at any time.
        unsafe { libc::atexit(finish_at_exit) };
    } else if is_cgi {
        // A CGI program has one request.
        return EOF;
    }
    // SAFETY: a single-threaded program has these streams, and its environment, for the current request.
    unsafe {
        if is_cgi {
            for (place, stdio) in [stdin, stdout, stderr].into_iter().enumerate() {
                *standard().add(place) = File { stdio, fcgx: ptr::null_mut() };
            }
            return 0;
        }
        let mut streams = [ptr::null_mut(); 3];
        let mut envp = ptr::null_mut();
        let [input, output, errors] = &mut streams;
        let code = FCGX_Accept(input, output, errors, &raw mut envp);
        if code < 0 {
            // The streams of the last request are gone as well.
            forget_request();
            return code;
        }
        for (place, fcgx) in streams.into_iter().enumerate() {
            *standard().add(place) = File { stdio: ptr::null_mut(), fcgx };
        }
        environ = envp;
    }
    0
}

#[unsafe(no_mangle)]
extern "C" fn FCGI_Finish() {
    if WAS_ACCEPT_CALLED.load(Ordering::Acquire) && FCGX_IsCGI() == 0 {
        FCGX_Finish();
        // SAFETY: as for `FCGI_Accept`.
        unsafe { forget_request() };
    }
}

/// # Safety
///
/// The streams and the environment of a request are not in use.
unsafe fn forget_request() {
    // SAFETY: as the caller says.
    unsafe {
        for place in 0..3 {
            (*standard().add(place)).fcgx = ptr::null_mut();
        }
        environ = ptr::null_mut();
    }
}

#[unsafe(no_mangle)]
extern "C" fn FCGI_StartFilterData() -> c_int {
    // SAFETY: standard input is always there.
    unsafe {
        match kind(standard()) {
            Is::Fcgx(stream) => FCGX_StartFilterData(stream),
            _ => EOF,
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn FCGI_SetExitStatus(status: c_int) {
    // SAFETY: standard input is always there.
    unsafe {
        if let Is::Fcgx(stream) = kind(standard()) {
            FCGX_SetExitStatus(status, stream);
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn FCGI_perror(str: *const c_char) {
    // SAFETY: the caller's pointer, and a message of the C library's.
    unsafe {
        let message = libc::strerror(*libc::__errno_location());
        for text in [str, c": ".as_ptr(), message, c"\n".as_ptr()] {
            FCGI_fputs(text, standard_error());
        }
    }
}

/// Wraps a stream of the C library in a file for the program.
///
/// # Safety
///
/// NULL, or a stream of the C library's.
unsafe fn around(stdio: *mut FILE) -> *mut File {
    if stdio.is_null() {
        return ptr::null_mut();
    }
    Box::into_raw(Box::new(File { stdio, fcgx: ptr::null_mut() }))
}

/// Frees a file that [`around`] made.
///
/// # Safety
///
/// It is not used any more.
unsafe fn free(file: *mut File) {
    if !file.is_null() && !is_standard(file) {
        // SAFETY: all but the standard three were made by `around`.
        drop(unsafe { Box::from_raw(file) });
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn FCGI_fopen(path: *const c_char, mode: *const c_char) -> *mut File {
    // SAFETY: the caller's pointers, as in the header.
    unsafe { around(libc::fopen(path, mode)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn FCGI_fdopen(fd: c_int, mode: *const c_char) -> *mut File {
    // SAFETY: the caller's pointer, as in the header.
    unsafe { around(libc::fdopen(fd, mode)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn FCGI_popen(command: *const c_char, mode: *const c_char) -> *mut File {
    // SAFETY: the caller's pointers, as in the header.
    unsafe { around(libc::popen(command, mode)) }
}

#[unsafe(no_mangle)]
extern "C" fn FCGI_tmpfile() -> *mut File {
    // SAFETY: it has no conditions.
    unsafe { around(libc::tmpfile()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn FCGI_fclose(file: *mut File) -> c_int {
    // SAFETY: the caller's pointer, as in the header.
    unsafe { close(file, libc::fclose) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn FCGI_pclose(file: *mut File) -> c_int {
    // SAFETY: the caller's pointer, as in the header.
    unsafe { close(file, libc::pclose) }
}

/// # Safety
///
/// A file of this library that is not used any more.
unsafe fn close(file: *mut File, stdio_close: unsafe extern "C" fn(*mut FILE) -> c_int) -> c_int {
    // SAFETY: as the caller says.
    unsafe {
        let code = match kind(file) {
            Is::Stdio(stream) => {
                (*file).stdio = ptr::null_mut();
                stdio_close(stream)
            }
            Is::Fcgx(stream) => FCGX_FClose(stream),
            Is::Closed => EOF,
        };
        free(file);
        code
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn FCGI_freopen(path: *const c_char, mode: *const c_char, file: *mut File) -> *mut File {
    // SAFETY: the caller's pointers, as in the header.
    unsafe {
        match kind(file) {
            Is::Stdio(stream) => (*file).stdio = libc::freopen(path, mode, stream),
            Is::Fcgx(stream) => {
                FCGX_FClose(stream);
                *file = File { stdio: libc::fopen(path, mode), fcgx: ptr::null_mut() };
            }
            Is::Closed => return ptr::null_mut(),
        }
        if (*file).stdio.is_null() { ptr::null_mut() } else { file }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn FCGI_fflush(file: *mut File) -> c_int {
    // SAFETY: the caller's pointer, as in the header; NULL means all files of the C library.
    unsafe {
        if file.is_null() {
            return libc::fflush(ptr::null_mut());
        }
        match kind(file) {
            Is::Stdio(stream) => libc::fflush(stream),
            Is::Fcgx(stream) => FCGX_FFlush(stream),
            Is::Closed => EOF,
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn FCGI_setvbuf(file: *mut File, buffer: *mut c_char, mode: c_int, size: size_t) -> c_int {
    // SAFETY: the caller's pointers, as in the header.
    unsafe {
        match kind(file) {
            Is::Stdio(stream) => libc::setvbuf(stream, buffer, mode, size),
            _ => EOF,
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn FCGI_setbuf(file: *mut File, buffer: *mut c_char) {
    // SAFETY: the caller's pointers, as in the header.
    unsafe {
        if let Is::Stdio(stream) = kind(file) {
            libc::setbuf(stream, buffer);
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn FCGI_fseek(file: *mut File, offset: c_long, whence: c_int) -> c_int {
    // SAFETY: the caller's pointer, as in the header.
    unsafe {
        match kind(file) {
            Is::Stdio(stream) => libc::fseek(stream, offset, whence),
            _ => EOF,
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn FCGI_ftell(file: *mut File) -> c_int {
    // SAFETY: the caller's pointer, as in the header.
    unsafe {
        match kind(file) {
            Is::Stdio(stream) => libc::ftell(stream) as c_int,
            _ => EOF,
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn FCGI_rewind(file: *mut File) {
    // SAFETY: the caller's pointer, as in the header.
    unsafe {
        if let Is::Stdio(stream) = kind(file) {
            libc::rewind(stream);
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn FCGI_fgetpos(file: *mut File, position: *mut fpos_t) -> c_int {
    // SAFETY: the caller's pointers, as in the header.
    unsafe {
        match kind(file) {
            Is::Stdio(stream) => libc::fgetpos(stream, position),
            _ => EOF,
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn FCGI_fsetpos(file: *mut File, position: *const fpos_t) -> c_int {
    // SAFETY: the caller's pointers, as in the header.
    unsafe {
        match kind(file) {
            Is::Stdio(stream) => libc::fsetpos(stream, position),
            _ => EOF,
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn FCGI_fgetc(file: *mut File) -> c_int {
    // SAFETY: the caller's pointer, as in the header.
    unsafe {
        match kind(file) {
            Is::Stdio(stream) => getc(stream),
            Is::Fcgx(stream) => super::stream::FCGX_GetChar(stream),
            Is::Closed => EOF,
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn FCGI_getchar() -> c_int {
    // SAFETY: standard input is always there.
    unsafe { FCGI_fgetc(standard()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn FCGI_ungetc(c: c_int, file: *mut File) -> c_int {
    // SAFETY: the caller's pointer, as in the header.
    unsafe {
        match kind(file) {
            Is::Stdio(stream) => libc::ungetc(c, stream),
            Is::Fcgx(stream) => super::stream::FCGX_UnGetChar(c, stream),
            Is::Closed => EOF,
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn FCGI_fgets(str: *mut c_char, size: c_int, file: *mut File) -> *mut c_char {
    // SAFETY: the caller's pointers, as in the header.
    unsafe {
        match kind(file) {
            Is::Stdio(stream) => libc::fgets(str, size, stream),
            Is::Fcgx(stream) => FCGX_GetLine(str, size, stream),
            Is::Closed => ptr::null_mut(),
        }
    }
}

/// Without a bound, like C's own `gets`: for programs that use no other function.
#[unsafe(no_mangle)]
unsafe extern "C" fn FCGI_gets(str: *mut c_char) -> *mut c_char {
    let mut count = 0;
    // SAFETY: the caller's pointer, as in the header: to as many bytes as come.
    unsafe {
        loop {
            match FCGI_getchar() {
                EOF if count == 0 => return ptr::null_mut(),
                EOF => break,
                c if c == c_int::from(b'\n') => break,
                c => *str.add(count) = c as c_char,
            }
            count += 1;
        }
        *str.add(count) = 0;
    }
    str
}

#[unsafe(no_mangle)]
unsafe extern "C" fn FCGI_fputc(c: c_int, file: *mut File) -> c_int {
    // SAFETY: the caller's pointer, as in the header.
    unsafe {
        match kind(file) {
            Is::Stdio(stream) => libc::fputc(c, stream),
            Is::Fcgx(stream) => FCGX_PutChar(c, stream),
            Is::Closed => EOF,
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn FCGI_putchar(c: c_int) -> c_int {
    // SAFETY: standard output is always there.
    unsafe { FCGI_fputc(c, standard_output()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn FCGI_fputs(str: *const c_char, file: *mut File) -> c_int {
    // SAFETY: the caller's pointers, as in the header.
    unsafe {
        match kind(file) {
            Is::Stdio(stream) => libc::fputs(str, stream),
            Is::Fcgx(stream) => FCGX_PutS(str, stream),
            Is::Closed => EOF,
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn FCGI_puts(str: *const c_char) -> c_int {
    // SAFETY: the caller's pointer, as in the header.
    unsafe {
        match kind(standard_output()) {
            Is::Stdio(_) => libc::puts(str),
            Is::Fcgx(stream) => match FCGX_PutS(str, stream) {
                EOF => EOF,
                _ if FCGX_PutChar(b'\n'.into(), stream) == EOF => EOF,
                count => count.saturating_add(1),
            },
            Is::Closed => EOF,
        }
    }
}

/// How many bytes a function of `fcgiapp.h` takes at a time.
const AT_ONCE: usize = c_int::MAX as usize;

#[unsafe(no_mangle)]
unsafe extern "C" fn FCGI_fread(to: *mut c_void, size: size_t, count: size_t, file: *mut File) -> size_t {
    // SAFETY: the caller's pointers, as in the header: there is room for that many bytes.
    unsafe {
        match kind(file) {
            Is::Stdio(stream) => libc::fread(to, size, count, stream),
            Is::Fcgx(stream) => {
                let Some(wanted @ 1..) = size.checked_mul(count) else { return 0 };
                let mut read = 0;
                while read < wanted {
                    let now = (wanted - read).min(AT_ONCE) as c_int;
                    match FCGX_GetStr(to.cast::<c_char>().add(read), now, stream) {
                        0 => break,
                        more => read += more as usize,
                    }
                }
                read / size
            }
            Is::Closed => 0,
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn FCGI_fwrite(
    from: *const c_void,
    size: size_t,
    count: size_t,
    file: *mut File,
) -> size_t {
    // SAFETY: the caller's pointers, as in the header: that many bytes are there.
    unsafe {
        match kind(file) {
            Is::Stdio(stream) => libc::fwrite(from, size, count, stream),
            Is::Fcgx(stream) => {
                let Some(total @ 1..) = size.checked_mul(count) else { return 0 };
                let mut written = 0;
                while written < total {
                    let now = (total - written).min(AT_ONCE) as c_int;
                    if FCGX_PutStr(from.cast::<c_char>().add(written), now, stream) == EOF {
                        break;
                    }
                    written += now as usize;
                }
                written / size
            }
            Is::Closed => 0,
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn FCGI_feof(file: *mut File) -> c_int {
    // SAFETY: the caller's pointer, as in the header.
    unsafe {
        match kind(file) {
            Is::Stdio(stream) => libc::feof(stream),
            Is::Fcgx(stream) => FCGX_HasSeenEOF(stream),
            Is::Closed => EOF,
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn FCGI_ferror(file: *mut File) -> c_int {
    // SAFETY: the caller's pointer, as in the header.
    unsafe {
        match kind(file) {
            Is::Stdio(stream) => libc::ferror(stream),
            Is::Fcgx(stream) => FCGX_GetError(stream),
            Is::Closed => EOF,
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn FCGI_clearerr(file: *mut File) {
    // SAFETY: the caller's pointer, as in the header.
    unsafe {
        match kind(file) {
            Is::Stdio(stream) => clearerr(stream),
            Is::Fcgx(stream) => FCGX_ClearError(stream),
            Is::Closed => {}
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn FCGI_fileno(file: *mut File) -> c_int {
    // SAFETY: the caller's pointer, as in the header.
    unsafe {
        match kind(file) {
            Is::Stdio(stream) => libc::fileno(stream),
            _ => EOF,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn it_is_laid_out_as_the_header_says() {
        let expressions =
            ["offsetof(FCGI_FILE, stdio_stream)", "offsetof(FCGI_FILE, fcgx_stream)", "sizeof(FCGI_FILE)"];
        let ours = [offset_of!(File, stdio), offset_of!(File, fcgx), size_of::<File>()];
        assert_eq!(super::super::c_says("fcgi_stdio.h", &expressions), ours);
    }
}
