//! The library against the other end of its protocol: a web server of the tests' own, which can be made to do
//! whatever one may, and real ones.

mod programs;
mod transports;
mod web_server;
