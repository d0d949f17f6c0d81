//! Simulated providers on real sockets with scripted faults.
