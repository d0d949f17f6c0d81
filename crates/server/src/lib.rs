//! The pipeline: from an accepted request to a settled one.
