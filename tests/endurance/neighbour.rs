//! Providers: one in a process of its own, one that never stops talking, and a way to a provider on which everything may
//! vanish.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::process::{Serving, folder};

/// A simulated provider in a process of its own. Dropping it kills it.
pub(crate) struct Provider {
    process: Serving,
    pub(crate) base: String,
    _folder: TempDir,
}

impl Provider {
    pub(crate) fn start(name: &str, script: &str) -> Self {
        let folder = folder();
        let mut process = Serving::start(folder.path(), &["sim", "--name", name, "--script", script]);
        let base = format!("http://{}/v1", process.address("base URL"));
        Self { process, base, _folder: folder }
    }

    pub(crate) fn signal(&self, signal: &str) {
        self.process.signal(signal);
    }
}

/// A provider whose streams never end. Dropping it closes everything.
pub(crate) struct Endless {
    pub(crate) base: String,
    streams: Arc<AtomicUsize>,
    accepting: JoinHandle<()>,
}

impl Endless {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}/v1", listener.local_addr().unwrap());
        let streams = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&streams);
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let counted = Arc::clone(&counted);
                tokio::spawn(async move {
                    counted.fetch_add(1, Ordering::SeqCst);
                    drop(talk(stream).await);
                    counted.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self { base, streams, accepting }
    }

    /// Connections whose client is there.
    pub(crate) fn streams(&self) -> usize {
        self.streams.load(Ordering::SeqCst)
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn talk(mut stream: TcpStream) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.ends_with(b"}") {
        if stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    stream
        .write_all(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
        )
        .await?;
    let words = "word ".repeat(800);
    let event = format!(
        "data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{{\"index\":0,\
         \"delta\":{{\"content\":\"{words}\"}},\"finish_reason\":null}}]}}\n\n"
    );
    let chunk = format!("{:x}\r\n{event}\r\n", event.len());
    loop {
        stream.write_all(chunk.as_bytes()).await?;
    }
}

/// A way to a peer. What vanishes on it is neither closed nor answered: as when a machine loses its power, or a firewall
/// its memory.
pub(crate) struct Way {
    pub(crate) address: SocketAddr,
    vanished: watch::Sender<u64>,
    accepted: Arc<AtomicUsize>,
    accepting: JoinHandle<()>,
}

impl Way {
    pub(crate) async fn to(peer: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (vanished, signal) = watch::channel(0);
        let accepted = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&accepted);
        let accepting = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(forward(near, peer, signal.clone()));
            }
        });
        Self { address, vanished, accepted, accepting }
    }

    pub(crate) fn base(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    /// Everything that is on the way now is heard of no more. What comes later gets through.
    pub(crate) fn vanish(&self) {
        self.vanished.send_modify(|times| *times += 1);
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn forward(mut near: TcpStream, peer: SocketAddr, mut vanished: watch::Receiver<u64>) {
    vanished.mark_unchanged();
    let Ok(mut far) = TcpStream::connect(peer).await else { return };
    tokio::select! {
        // How it ended is seen by both sides.
        ended = copy_bidirectional(&mut near, &mut far) => drop(ended),
        gone = vanished.changed() => {
            if gone.is_ok() {
                // Both sockets stay open and are not read, until the way itself is gone.
                while vanished.changed().await.is_ok() {}
            }
        }
    }
}
