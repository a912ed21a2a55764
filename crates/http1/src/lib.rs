//! Sans-IO HTTP/1.1.
