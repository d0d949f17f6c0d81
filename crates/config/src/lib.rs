//! File and environment to one resolved configuration.
