//! Compiles the functions that take any number of arguments, and gives the library the name by which programs
//! ask for the distribution's.

fn main() {
    println!("cargo:rerun-if-changed=src/abi/printf.c");
    cc::Build::new().file("src/abi/printf.c").warnings(true).extra_warnings(true).compile("fcgi_printf");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libfcgi.so.0");
}
