//! The interface of libfcgi 2.4, as its headers `fcgiapp.h`, `fcgi_stdio.h` and `fcgios.h` have it: names,
//! structures, what is returned, and in which order things must be called. What it does is done elsewhere.
//!
//! Pointers are those that the headers ask for: of a request that was initialized, of a stream that is its or
//! was created, of strings that end, of as many bytes as said. They are not checked beyond NULL; all that
//! comes from the network is. Calls for one request at a time are one thread's.

mod exchange;
mod os;
mod printf;
mod request;
mod stdio;
mod stream;

/// What C's functions return at the end of a stream, or when they fail.
const EOF: libc::c_int = -1;

/// What a C program says that prints these expressions with a header of libfcgi's included.
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
