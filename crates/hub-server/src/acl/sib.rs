//! The small Lisp in which policies and topics can be written.
