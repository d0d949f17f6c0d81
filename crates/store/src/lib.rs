//! Live state and durable records: traits and the memory backend.
