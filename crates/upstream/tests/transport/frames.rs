//! The server's end of an HTTP/2 connection, frame by frame (RFC 9113, section 4.1), so that a test can break any rule.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

const ACK: u8 = 1;
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

pub const NO_ERROR: u32 = 0;
pub const INTERNAL_ERROR: u32 = 2;
pub const REFUSED_STREAM: u32 = 7;
pub const CANCEL: u32 = 8;

const MAX_CONCURRENT_STREAMS: u16 = 3;

#[derive(Debug)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

impl Frame {
    pub fn acknowledges_settings(&self) -> bool {
        self.kind == SETTINGS && self.flags == ACK
    }
}

pub struct Frames<S> {
    socket: S,
    /// Give back, for each DATA frame, the flow-control window that it took (RFC 9113, section 6.9).
    pub opens_windows: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Frames<S> {
    /// Reads the client's preface and sends SETTINGS, with a limit on concurrent streams if given.
    pub async fn accept(socket: S, max_streams: Option<u32>) -> Self {
        let mut frames = Self { socket, opens_windows: false };
        let mut preface = [0u8; 24];
        frames.socket.read_exact(&mut preface).await.unwrap();
        assert_eq!(&preface, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        let mut settings = Vec::new();
        if let Some(max) = max_streams {
            settings.extend_from_slice(&MAX_CONCURRENT_STREAMS.to_be_bytes());
            settings.extend_from_slice(&max.to_be_bytes());
        }
        frames.write(SETTINGS, 0, 0, &settings).await;
        frames
    }

    pub async fn write(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let mut frame = vec![length[1], length[2], length[3], kind, flags];
        frame.extend_from_slice(&stream.to_be_bytes());
        frame.extend_from_slice(payload);
        // A client that is gone shows at the next read.
        if self.socket.write_all(&frame).await.is_err() {
            return;
        }
        self.socket.flush().await.unwrap();
    }

    /// The next frame, `None` when the connection ended. SETTINGS are acknowledged on the way.
    pub async fn read(&mut self) -> Option<Frame> {
        let mut header = [0u8; 9];
        self.socket.read_exact(&mut header).await.ok()?;
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]);
        let mut payload = vec![0u8; length as usize];
        self.socket.read_exact(&mut payload).await.ok()?;
        let stream = u32::from_be_bytes([header[5], header[6], header[7], header[8]]);
        let frame = Frame { kind: header[3], flags: header[4], stream, payload };
        if frame.kind == SETTINGS && frame.flags == 0 {
            self.write(SETTINGS, ACK, 0, &[]).await;
        }
        if frame.kind == DATA && length > 0 && self.opens_windows {
            self.write(WINDOW_UPDATE, 0, 0, &length.to_be_bytes()).await;
            self.write(WINDOW_UPDATE, 0, frame.stream, &length.to_be_bytes()).await;
        }
        Some(frame)
    }

    /// The stream of the next request of which everything came.
    pub async fn next_request(&mut self) -> Option<u32> {
        loop {
            let frame = self.read().await?;
            if matches!(frame.kind, HEADERS | DATA) && frame.flags & END_STREAM != 0 {
                return Some(frame.stream);
            }
        }
    }

    /// `:status: 200` (index 8 of HPACK's static table, RFC 7541 appendix A).
    pub async fn respond_head(&mut self, stream: u32) {
        self.write(HEADERS, END_HEADERS, stream, &[0x88]).await;
    }

    pub async fn respond(&mut self, stream: u32, body: &str) {
        self.respond_head(stream).await;
        self.write(DATA, END_STREAM, stream, body.as_bytes()).await;
    }

    pub async fn reset_stream(&mut self, stream: u32, code: u32) {
        self.write(RST_STREAM, 0, stream, &code.to_be_bytes()).await;
    }

    pub async fn go_away(&mut self, last_stream: u32, code: u32) {
        let payload = [last_stream.to_be_bytes(), code.to_be_bytes()].concat();
        self.write(GOAWAY, 0, 0, &payload).await;
    }

    /// Answers every request with `ok` until the client goes.
    pub async fn serve_ok(mut self) {
        while let Some(stream) = self.next_request().await {
            self.respond(stream, "ok").await;
        }
    }
}
