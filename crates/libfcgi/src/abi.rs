//! The C interface of libfcgi 2.4, as its headers `fcgiapp.h`, `fcgi_stdio.h` and `fcgios.h` define it:
//! names, structures, return values, and the order of calls. Other modules do the work.
//!
//! Pointers must be those that the headers require: to an initialized request, to a stream of a request or
//! one that was created, to terminated strings, and to as many bytes as stated. The functions check them only
//! for NULL. They check everything that comes from the network. Only one thread at a time may call functions
//! for a request.

mod exchange;
mod os;
mod printf;
mod request;
mod stdio;
mod stream;

/// What C's functions return at the end of a stream, or when they fail.
const EOF: libc::c_int = -1;

/// The output of a C program that includes a libfcgi header and prints these expressions.
#[cfg(test)]
fn c_says(header: &str, expressions: &[&str]) -> Vec<usize> {
    use std::process::Command;

    let directory = tempfile::tempdir().unwrap();
    let (source, program) = (directory.path().join("says.c"), directory.path().join("says"));
    let say = |expression: &&str| format!("printf(\"%zu\\n\", (size_t)({expression}));\n");
    let says = expressions.iter().map(say).collect::<String>();
    let text = format!(
        "#include <stddef.h>\n#include <stdio.h>\n#define NO_FCGI_DEFINES\n#include <{header}>\n\
         int main(void) {{\n{says}return 0; }}\n"
    );
    std::fs::write(&source, text).unwrap();
    let compiled = Command::new("cc").arg("-o").args([&program, &source]).status().expect("a C compiler");
    assert!(compiled.success());
    let output = Command::new(&program).output().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(|line| line.parse().unwrap()).collect()
}
