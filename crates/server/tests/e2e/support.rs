//! A gateway, its simulated providers, and a client that sees every byte.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use pointsman_provider_sim::{Sim, SimConfig};
use pointsman_server::{Clock, Running, start};
use serde_json::{Value, json};
use tokio::net::TcpStream;

/// A gateway in front of simulated providers.
pub struct World {
    pub sims: Vec<Sim>,
    pub gateway: Running,
    pub clock: Clock,
}

/// `targets` of one model each: `("a", "gpt-4o")`; the rest of the file follows, with `{NAME}` for a sim's base URL.
pub async fn world(targets: &[(&str, &str)], rest: &str) -> World {
    let mut sims = Vec::new();
    let mut yaml =
        String::from("server: { listen: 127.0.0.1:0 }\nadmin: { listen: 127.0.0.1:0 }\ntargets:\n");
    for (name, model) in targets {
        let sim = Sim::start(SimConfig::named(*name)).await.unwrap();
        yaml.push_str(&format!(
            "  {name}: {{ provider: openai, base_url: \"{}\", model: {model}, api_key: sk-upstream-{name} }}\n",
            sim.base_url()
        ));
        sims.push(sim);
    }
    yaml.push_str(rest);
    world_of(sims, &yaml)
}

/// A gateway with a whole file of its own.
pub fn world_of(sims: Vec<Sim>, yaml: &str) -> World {
    let vars: BTreeMap<String, String> = BTreeMap::new();
    let loaded = pointsman_config::parse(yaml, "test.yaml", &vars).unwrap_or_else(|e| panic!("{e}\n{yaml}"));
    let clock = Clock::default();
    let gateway = start(loaded.config, clock.clone(), None).unwrap();
    World { sims, gateway, clock }
}

/// What a client got.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|v| v.to_str().unwrap())
    }

    /// The data of each event of a stream.
    pub fn events(&self) -> Vec<String> {
        let text = self.text();
        let lines = text.split("\n\n").filter_map(|event| event.strip_prefix("data: "));
        lines.map(str::to_owned).collect()
    }

    /// The text that a stream's deltas join to.
    pub fn content(&self) -> String {
        let deltas = self.events().into_iter().filter_map(|data| serde_json::from_str::<Value>(&data).ok());
        deltas.filter_map(|c| c["choices"][0]["delta"]["content"].as_str().map(str::to_owned)).collect()
    }

    /// The systems (`fp_<sim>`) that the events of a stream came from.
    pub fn fingerprints(&self) -> Vec<String> {
        let events = self.events().into_iter().filter_map(|data| serde_json::from_str::<Value>(&data).ok());
        let mut all: Vec<String> =
            events.filter_map(|c| c["system_fingerprint"].as_str().map(str::to_owned)).collect();
        all.dedup();
        all
    }

    pub fn is_done_once(&self) -> bool {
        self.events().iter().filter(|e| *e == "[DONE]").count() == 1
    }
}

/// A Chat Completions request.
pub fn chat(model: &str, stream: bool) -> Value {
    json!({ "model": model, "stream": stream, "messages": [{ "role": "user", "content": "Say something." }] })
}

impl World {
    pub fn sim(&self, place: usize) -> &Sim {
        &self.sims[place]
    }

    /// Sends a request and reads the whole answer.
    pub async fn post(&self, body: &Value) -> Answer {
        self.post_with(body, &[]).await
    }

    pub async fn post_with(&self, body: &Value, headers: &[(&str, &str)]) -> Answer {
        self.send("POST", "/v1/chat/completions", Bytes::from(body.to_string()), headers).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, Bytes::new(), &[]).await
    }

    pub async fn send(&self, method: &str, path: &str, body: Bytes, headers: &[(&str, &str)]) -> Answer {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", self.gateway.data_addr().to_string())
            .header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = self.exchange(request.body(Full::new(body)).unwrap());
        tokio::time::timeout(Duration::from_secs(60), answer).await.expect("an answer within a minute")
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Answer {
        let stream = TcpStream::connect(self.gateway.data_addr()).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        let driving = tokio::spawn(connection);
        let response = sender.send_request(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.expect("a body that ends in good order").to_bytes();
        drop(sender);
        driving.abort();
        Answer { status: parts.status, headers: parts.headers, body }
    }
}
