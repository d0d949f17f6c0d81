//! A client that sees every byte, and one that is a process of its own.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::process::{CHAT, PATIENCE};

/// A connection with a request on it.
pub(crate) struct Asked {
    pub(crate) stream: TcpStream,
    seen: Vec<u8>,
}

/// A request as HTTP/1.1 text, the only one on its connection.
pub(crate) fn request(to: SocketAddr, method: &str, path: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nhost: {to}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{body}"
    )
}

impl Asked {
    pub(crate) async fn chat(to: SocketAddr, body: &str) -> Self {
        Self::text(TcpStream::connect(to).await.unwrap(), &request(to, "POST", CHAT, body)).await
    }

    pub(crate) async fn get(to: SocketAddr, path: &str) -> Self {
        Self::text(TcpStream::connect(to).await.unwrap(), &request(to, "GET", path, "")).await
    }

    /// Over a socket that takes little before it is full.
    pub(crate) async fn chat_with_small_window(to: SocketAddr, body: &str) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(16 << 10).unwrap();
        Self::text(socket.connect(to).await.unwrap(), &request(to, "POST", CHAT, body)).await
    }

    pub(crate) async fn text(mut stream: TcpStream, text: &str) -> Self {
        stream.write_all(text.as_bytes()).await.unwrap();
        Self { stream, seen: Vec::new() }
    }

    pub(crate) async fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    /// Reads until this has come so many times, and gives everything so far.
    pub(crate) async fn until(&mut self, what: &str, times: usize) -> String {
        let reading = async {
            while String::from_utf8_lossy(&self.seen).matches(what).count() < times {
                let read = self.stream.read_buf(&mut self.seen).await.unwrap();
                assert!(read > 0, "it ended: {}", String::from_utf8_lossy(&self.seen));
            }
        };
        timeout(PATIENCE, reading).await.unwrap_or_else(|_| panic!("{what:?} does not come"));
        String::from_utf8_lossy(&self.seen).into_owned()
    }

    /// Reads one answer without a stream on a connection that stays, and forgets it.
    pub(crate) async fn answer(&mut self) -> String {
        let text = self.until("\r\n\r\n", 1).await;
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        let mut missing = length.parse::<usize>().unwrap() - body.len();
        while missing > 0 {
            missing -= timeout(PATIENCE, self.stream.read_buf(&mut self.seen)).await.unwrap().unwrap();
        }
        String::from_utf8(std::mem::take(&mut self.seen)).unwrap()
    }

    /// Reads one stream on a connection that stays, and forgets it.
    pub(crate) async fn stream_to_its_end(&mut self) -> String {
        self.until("\r\n0\r\n\r\n", 1).await;
        String::from_utf8(std::mem::take(&mut self.seen)).unwrap()
    }

    /// Everything, to the end of the connection.
    pub(crate) async fn rest(&mut self) -> String {
        let reading = async { while self.stream.read_buf(&mut self.seen).await.is_ok_and(|n| n > 0) {} };
        timeout(PATIENCE, reading).await.expect("the connection ends");
        String::from_utf8_lossy(&self.seen).into_owned()
    }

    /// The stream breaks off with one error, in good order, and nothing after it.
    pub(crate) async fn breaks_with_one_error(&mut self) {
        let text = self.rest().await;
        assert_eq!(text.matches("data: {\"error\"").count(), 1, "{text}");
        assert!(!text.contains("[DONE]"), "{text}");
        assert!(text.contains(r#""terminal":"partial""#), "{text}");
        assert!(text.ends_with("0\r\n\r\n"), "{text}");
    }

    /// The rest of the answer is read by a process of its own.
    pub(crate) fn handed_to_a_process(self) -> Process {
        let stream = self.stream.into_std().unwrap();
        stream.set_nonblocking(false).unwrap();
        let mut command = Command::new("cat");
        command.stdin(OwnedFd::from(stream)).stdout(Stdio::null());
        Process(command.spawn().expect("cat is there"))
    }
}

/// A client in a process. Dropping it kills it.
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn signal(&self, signal: &str) {
        let id = self.0.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
