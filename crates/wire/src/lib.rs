//! Bytes to meaning and back: framing, codecs, error envelopes, classification.
