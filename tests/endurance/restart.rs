//! Two gateways behind a balancer, restarted one after the other under load.

use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pointsman_provider_sim::{Script, Sim, SimConfig};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::client::Asked;
use crate::gateway::{Gateway, target, yaml};
use crate::process::{CHAT, PATIENCE, chat};

/// How often the balancer looks, and how much later than it knows it stops sending.
const LOOKS_EVERY: Duration = Duration::from_millis(50);
const STILL_SENDS_FOR: Duration = Duration::from_millis(300);

struct Backend {
    address: SocketAddr,
    taken: AtomicBool,
    connections: AtomicUsize,
}

/// Hands each connection to the next backend that says it is ready. It never tries a second one: what is refused is lost.
struct Balancer {
    address: SocketAddr,
    backends: Arc<[Backend; 2]>,
    lost: Arc<AtomicUsize>,
    tasks: Vec<JoinHandle<()>>,
}

impl Balancer {
    async fn start(addresses: [SocketAddr; 2]) -> Self {
        let backends = addresses.map(|address| Backend {
            address,
            taken: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
        });
        let (backends, lost) = (Arc::new(backends), Arc::new(AtomicUsize::new(0)));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut tasks = Vec::new();
        for place in 0..2 {
            tasks.push(tokio::spawn(look(Arc::clone(&backends), place)));
        }
        tasks.push(tokio::spawn(hand_on(listener, Arc::clone(&backends), Arc::clone(&lost))));
        Self { address, backends, lost, tasks }
    }

    async fn until_taken(&self, place: usize, taken: bool) {
        let until = Instant::now() + PATIENCE;
        while self.backends[place].taken.load(Ordering::SeqCst) != taken {
            assert!(Instant::now() < until, "backend {place} is not seen to be {taken}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn connections(&self, place: usize) -> usize {
        self.backends[place].connections.load(Ordering::SeqCst)
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

async fn look(backends: Arc<[Backend; 2]>, place: usize) {
    let backend = &backends[place];
    loop {
        let ready = is_ready(backend.address).await;
        if !ready && backend.taken.load(Ordering::SeqCst) {
            tokio::time::sleep(STILL_SENDS_FOR).await;
        }
        backend.taken.store(ready, Ordering::SeqCst);
        tokio::time::sleep(LOOKS_EVERY).await;
    }
}

async fn is_ready(address: SocketAddr) -> bool {
    let Ok(stream) = TcpStream::connect(address).await else { return false };
    let text = format!("GET /readyz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    Asked::text(stream, &text).await.rest().await.starts_with("HTTP/1.1 200 ")
}

async fn hand_on(listener: TcpListener, backends: Arc<[Backend; 2]>, lost: Arc<AtomicUsize>) {
    let mut turn = 0_usize;
    while let Ok((mut near, _)) = listener.accept().await {
        turn += 1;
        let next = (turn..turn + 2).map(|n| n % 2).find(|n| backends[*n].taken.load(Ordering::SeqCst));
        let lost = Arc::clone(&lost);
        let backends = Arc::clone(&backends);
        tokio::spawn(async move {
            let far = match next {
                Some(next) => TcpStream::connect(backends[next].address).await.ok().map(|far| (next, far)),
                None => None,
            };
            let Some((next, mut far)) = far else {
                lost.fetch_add(1, Ordering::SeqCst);
                return;
            };
            backends[next].connections.fetch_add(1, Ordering::SeqCst);
            // How it ended is seen by both sides.
            drop(copy_bidirectional(&mut near, &mut far).await);
        });
    }
}

/// Asks on and on, over one connection as long as it is not told to leave it. Answers with the number of its requests.
async fn ask_on(balancer: SocketAddr, stream: bool, over: Arc<AtomicBool>) -> usize {
    let mut asked = 0;
    while !over.load(Ordering::SeqCst) {
        let connection = TcpStream::connect(balancer).await.unwrap();
        let mut client = Asked::text(connection, "").await;
        loop {
            let body = chat("m", stream);
            let length = body.len();
            client
                .send(&format!(
                    "POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{body}"
                ))
                .await;
            let text = match stream {
                true => client.stream_to_its_end().await,
                false => client.answer().await,
            };
            assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
            assert!(text.contains(if stream { "data: [DONE]" } else { "\"usage\"" }), "{text}");
            asked += 1;
            if text.to_ascii_lowercase().contains("connection: close") || over.load(Ordering::SeqCst) {
                break;
            }
        }
    }
    asked
}

fn free() -> SocketAddr {
    StdListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_under_load_loses_nothing() {
    let _turn = crate::turn().await;
    let provider = Sim::start(SimConfig::named("a")).await.unwrap();
    provider.set(Script::healthy().tokens(40).between_tokens(Duration::from_millis(20)));
    let addresses = [free(), free()];
    let file = |place: usize| {
        let server = ", drain: { delay: 1s, timeout: 20s }";
        yaml(server, &[target("a", &provider.base_url(), "")]).replacen(
            "127.0.0.1:0",
            &addresses[place].to_string(),
            1,
        )
    };
    let mut gateways = [Some(Gateway::with(&file(0)).await), Some(Gateway::with(&file(1)).await)];
    let balancer = Balancer::start(addresses).await;
    balancer.until_taken(0, true).await;
    balancer.until_taken(1, true).await;
    let over = Arc::new(AtomicBool::new(false));
    let mut clients = JoinSet::new();
    for number in 0..24 {
        clients.spawn(ask_on(balancer.address, number % 3 != 0, Arc::clone(&over)));
    }
    for (place, gateway) in gateways.iter_mut().enumerate() {
        let leaving = gateway.take().unwrap();
        leaving.signal("-TERM");
        balancer.until_taken(place, false).await;
        assert_eq!(leaving.code().await, Some(0), "gateway {place} ends well, its streams finished");
        let before = balancer.connections(place);
        *gateway = Some(Gateway::with(&file(place)).await);
        balancer.until_taken(place, true).await;
        let until = Instant::now() + PATIENCE;
        while balancer.connections(place) < before + 3 {
            assert!(Instant::now() < until, "the new gateway {place} gets nothing to do");
            // Those who are content with their connection stay on it.
            let mut one = Asked::chat(balancer.address, &chat("m", false)).await;
            assert!(one.rest().await.starts_with("HTTP/1.1 200 "));
        }
    }
    over.store(true, Ordering::SeqCst);
    let mut asked = 0;
    while let Some(client) = clients.join_next().await {
        asked += client.expect("no request is lost, refused or broken");
    }
    assert!(asked > 100, "{asked} requests are no load");
    assert_eq!(balancer.lost.load(Ordering::SeqCst), 0);
    assert_eq!(provider.aborted(), 0);
    drop(provider);
    for gateway in gateways.into_iter().flatten() {
        gateway.everything_is_back().await;
    }
}
