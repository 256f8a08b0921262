//! Deliveries over HTTP: tests, the log, and trying again.

pub mod api;
