//! Moves bytes to and from providers: pool, TLS, limits per phase.
