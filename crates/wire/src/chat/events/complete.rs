//! Whether a tool call's arguments are whole, as they come in.

/// The state of arguments that come in piece by piece.
#[derive(Debug, Default)]
pub(super) struct Arguments {
    depth: u32,
    in_text: bool,
    escaped: bool,
    begun: bool,
}

impl Arguments {
    /// Looks at the next piece.
    pub(super) fn push(&mut self, piece: &str) {
        for byte in piece.bytes() {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_text => self.escaped = true,
                b'"' => self.in_text = !self.in_text,
                _ if self.in_text => {}
                b'{' | b'[' => {
                    self.begun = true;
                    self.depth = self.depth.saturating_add(1);
                }
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }

    /// Whether an object has begun and is closed.
    pub(super) fn are_whole(&self) -> bool {
        self.begun && self.depth == 0 && !self.in_text
    }
}
