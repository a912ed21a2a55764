//! Exports the functions in `printf.c` by their names. A Rust library exports only names that are defined in
//! Rust. Each function here is therefore a jump to the C function, which leaves the arguments in place.

use std::arch::naked_asm;

unsafe extern "C" {
    fn sluice_fcgx_vfprintf();
    fn sluice_fcgx_fprintf();
    fn sluice_fcgi_vfprintf();
    fn sluice_fcgi_fprintf();
    fn sluice_fcgi_vprintf();
    fn sluice_fcgi_printf();
}

#[cfg(target_arch = "x86_64")]
macro_rules! jump_to {
    ($function:ident) => {
        naked_asm!("jmp {}", sym $function)
    };
}

#[cfg(target_arch = "aarch64")]
macro_rules! jump_to {
    ($function:ident) => {
        naked_asm!("b {}", sym $function)
    };
}

#[unsafe(no_mangle)]
#[unsafe(naked)]
extern "C" fn FCGX_VFPrintF() {
    jump_to!(sluice_fcgx_vfprintf)
}

#[unsafe(no_mangle)]
#[unsafe(naked)]
extern "C" fn FCGX_FPrintF() {
    jump_to!(sluice_fcgx_fprintf)
}

#[unsafe(no_mangle)]
#[unsafe(naked)]
extern "C" fn FCGI_vfprintf() {
    jump_to!(sluice_fcgi_vfprintf)
}

#[unsafe(no_mangle)]
#[unsafe(naked)]
extern "C" fn FCGI_fprintf() {
    jump_to!(sluice_fcgi_fprintf)
}

#[unsafe(no_mangle)]
#[unsafe(naked)]
extern "C" fn FCGI_vprintf() {
    jump_to!(sluice_fcgi_vprintf)
}

#[unsafe(no_mangle)]
#[unsafe(naked)]
extern "C" fn FCGI_printf() {
    jump_to!(sluice_fcgi_printf)
}
