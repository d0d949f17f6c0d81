//! Running the binary, and plain HTTP/1.1 to what it serves.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

/// Far more than anything here needs, on a busy machine too.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The binary, with nothing of this machine's environment, in an empty folder.
pub(crate) fn pointsman(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pointsman"));
    command.args(arguments).current_dir(folder).env_clear().stdin(Stdio::null());
    command
}

/// Runs it to its end.
pub(crate) fn run(folder: &Path, arguments: &[&str]) -> Output {
    pointsman(folder, arguments).output().expect("it starts")
}

/// Runs it to its end with this on its standard input.
pub(crate) fn run_with(folder: &Path, arguments: &[&str], input: &str) -> Output {
    let mut command = pointsman(folder, arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

pub(crate) fn file(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

pub(crate) fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A process that serves; dropping it ends it.
pub(crate) struct Serving {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Serving {
    pub(crate) fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut command = pointsman(folder, arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// Reads on to the line that names an address under this label, and gives its host and port.
    pub(crate) fn address(&mut self, label: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "it ended before it named its {label}");
            if let Some((_, url)) = line.trim().split_once(label) {
                let url = url.trim().trim_start_matches("http://");
                return url.split('/').next().unwrap().to_owned();
            }
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn terminate(&self) {
        self.signal("-TERM");
    }

    pub(crate) fn signal(&self, signal: &str) {
        let id = self.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    /// Waits for its end and gives its exit code.
    pub(crate) fn code(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // One that has ended already is what is wanted.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A connection with a request on it.
pub(crate) struct Call {
    stream: BufReader<TcpStream>,
}

impl Call {
    pub(crate) fn send(address: &str, method: &str, path: &str, body: &str) -> Self {
        let mut stream = TcpStream::connect(address).unwrap_or_else(|e| panic!("{address}: {e}"));
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\nconnection: close\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        Self { stream: BufReader::new(stream) }
    }

    /// Reads until a line holds this text.
    pub(crate) fn until(&mut self, text: &str) {
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            assert!(self.stream.read_line(&mut line).unwrap() > 0, "the answer ended before '{text}'");
        }
    }

    /// The status and the rest of the answer, as it stands on the wire.
    pub(crate) fn answer(mut self) -> (u16, String) {
        let rest = self.rest();
        let status = rest.split(' ').nth(1).and_then(|s| s.parse().ok());
        (status.unwrap_or_else(|| panic!("no status in {rest:?}")), rest)
    }

    pub(crate) fn rest(&mut self) -> String {
        let mut rest = String::new();
        self.stream.read_to_string(&mut rest).unwrap();
        rest
    }
}

/// One request and its whole answer.
pub(crate) fn call(address: &str, method: &str, path: &str, body: &str) -> (u16, String) {
    Call::send(address, method, path, body).answer()
}

pub(crate) const CHAT: &str = "/v1/chat/completions";

pub(crate) fn chat(model: &str, stream: bool) -> String {
    format!(
        r#"{{"model": "{model}", "stream": {stream}, "messages": [{{"role": "user", "content": "hi"}}]}}"#
    )
}
