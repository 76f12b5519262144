//! A minimal registry on 127.0.0.1 whose responses the test determines, correct or not.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::{Arc, Mutex};

use image_linkage::digest::Digest;
use image_linkage::digest::to_hex;
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};

/// A received request.
#[derive(Debug, Clone)]
pub struct Request {
    /// The method, such as `GET`.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// The headers, with lower-case names.
    pub headers: BTreeMap<String, String>,
    /// The body, as text.
    pub body: String,
}

impl Request {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// The first byte of the requested range.
    pub fn range(&self) -> Option<usize> {
        let range = self.header("range")?.strip_prefix("bytes=")?;
        range.strip_suffix('-')?.parse().ok()
    }
}

/// A response.
#[derive(Debug, Clone)]
pub struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    sent: Sent,
}

/// The way in which a body is sent.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sent {
    #[default]
    Whole,
    /// Closes the connection after this many bytes, although the header announces the whole body.
    Cut(usize),
    /// Stalls after this many bytes, with the connection open.
    Stall(usize),
    /// Repeats the body forever, without a length.
    Endless,
    /// Sends a byte every few milliseconds.
    Dripping,
}

impl Reply {
    /// A response with a status and a body.
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: body.into(),
            sent: Sent::Whole,
        }
    }

    /// Adds a header.
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// Sends the body in another way than whole.
    pub fn sent(mut self, sent: Sent) -> Self {
        self.sent = sent;
        self
    }

    /// The part of `blob` in the requested range.
    pub fn range(request: &Request, blob: &[u8]) -> Self {
        match request.range() {
            None => Self::new(200, blob),
            Some(from) if from < blob.len() => Self::new(206, &blob[from..]).with(
                "Content-Range",
                format!("bytes {from}-{}/{}", blob.len() - 1, blob.len()),
            ),
            Some(_) => Self::new(416, ""),
        }
    }
}

/// A server that runs until the test ends.
pub struct Server {
    /// Its listening address.
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// Starts a server whose responses come from `answer`.
    pub fn start(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_on(Ipv4Addr::LOCALHOST.into(), answer)
    }

    /// Same, on another address of this machine.
    pub fn start_on(ip: IpAddr, answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((ip, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        let answer = Arc::new(answer);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
                // In several tests the client closes the connection early.
                std::thread::spawn(move || serve(stream, &log, &*answer).ok());
            }
        });
        Self { address, seen }
    }

    /// The requests so far.
    pub fn seen(&self) -> Vec<Request> {
        self.seen.lock().unwrap().clone()
    }

    /// The paths of the requests so far, without queries.
    pub fn paths(&self) -> Vec<String> {
        let path = |request: &Request| request.path.split('?').next().unwrap().to_owned();
        self.seen().iter().map(path).collect()
    }
}

fn serve(mut stream: TcpStream, log: &Mutex<Vec<Request>>, answer: &dyn Fn(&Request) -> Reply) -> std::io::Result<()> {
    let mut first = [0];
    if stream.peek(&mut first)? == 0 {
        return Ok(());
    }
    if first == [0x16] {
        // This is a TLS handshake, which the server does not support; it answers in plain text like a real one.
        let hello = stream.read(&mut [0; 4096])?;
        return stream.write_all(format!("HTTP/1.0 400 X\r\n\r\n{hello} bytes of TLS").as_bytes());
    }
    let request = receive(&mut BufReader::new(&stream))?;
    log.lock().unwrap().push(request.clone());
    let reply = answer(&request);
    let mut head = format!("HTTP/1.1 {} X\r\nConnection: close\r\n", reply.status);
    for (name, value) in &reply.headers {
        head.extend([name, ": ", value, "\r\n"]);
    }
    if !matches!(reply.sent, Sent::Endless) {
        head.extend(["Content-Length: ", &reply.body.len().to_string(), "\r\n"]);
    }
    stream.write_all(format!("{head}\r\n").as_bytes())?;
    match reply.sent {
        Sent::Whole => stream.write_all(&reply.body),
        Sent::Cut(bytes) => stream.write_all(&reply.body[..bytes.min(reply.body.len())]),
        Sent::Stall(bytes) => {
            stream.write_all(&reply.body[..bytes.min(reply.body.len())])?;
            // Waits until the client closes the connection.
            stream.read_to_end(&mut Vec::new()).map(|_| ())
        }
        Sent::Endless => loop {
            stream.write_all(&reply.body)?;
        },
        Sent::Dripping => reply.body.iter().try_for_each(|byte| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            stream.write_all(&[*byte])
        }),
    }
}

fn receive(reader: &mut impl BufRead) -> std::io::Result<Request> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        match line.trim().split_once(':') {
            Some((name, value)) => headers.insert(name.to_ascii_lowercase(), value.trim().to_owned()),
            None => break,
        };
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok());
    let mut body = String::new();
    reader.take(length.unwrap_or(0)).read_to_string(&mut body)?;
    Ok(Request {
        method,
        path,
        headers,
        body,
    })
}

/// An image with one layer, ready to be served.
#[derive(Debug, Clone)]
pub struct Pushed {
    /// The manifest.
    pub manifest: Vec<u8>,
    /// The config.
    pub config: Vec<u8>,
    /// The layer's bytes, which are not a tar.
    pub layer: Vec<u8>,
}

impl Pushed {
    /// An image with a layer of 200,000 bytes.
    pub fn new() -> Self {
        let layer = Self::bytes(0..200_000);
        let config = json!({"architecture": "amd64", "os": "linux", "config": {"Env": ["A=1"]},
            "rootfs": {"type": "layers", "diff_ids": [digest(&layer).to_string()]}});
        let config = config.to_string().into_bytes();
        let manifest = json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": descriptor("application/vnd.oci.image.config.v1+json", &config),
            "layers": [descriptor("application/vnd.oci.image.layer.v1.tar", &layer)]});
        Self {
            manifest: manifest.to_string().into_bytes(),
            config,
            layer,
        }
    }

    /// Bytes of the layer, or of a longer one.
    pub fn bytes(range: Range<u32>) -> Vec<u8> {
        range.map(|n| (n % 251) as u8).collect()
    }

    /// Serves the image as `app:1`, like a correct registry.
    pub fn serve(&self, request: &Request) -> Reply {
        let path = request.path.split('?').next().unwrap();
        if path == "/v2/app/manifests/1" || path == format!("/v2/app/manifests/{}", digest(&self.manifest)) {
            return Reply::new(200, &*self.manifest).with("Docker-Content-Digest", digest(&self.manifest).to_string());
        }
        for blob in [&self.config, &self.layer] {
            if path == blob_path(blob) {
                return Reply::range(request, blob);
            }
        }
        let error = r#"{"errors":[{"code":"NAME_UNKNOWN","message":"repository name not\u001b known"}]}"#;
        Reply::new(404, error)
    }

    /// The path of the layer's blob.
    pub fn layer_path(&self) -> String {
        blob_path(&self.layer)
    }
}

/// The path of a blob of `app`.
pub fn blob_path(blob: &[u8]) -> String {
    format!("/v2/app/blobs/{}", digest(blob))
}

/// A descriptor of `bytes`.
pub fn descriptor(media_type: &str, bytes: &[u8]) -> serde_json::Value {
    json!({"mediaType": media_type, "digest": digest(bytes).to_string(), "size": bytes.len()})
}

/// The SHA-256 of `bytes`.
pub fn digest(bytes: &[u8]) -> Digest {
    let hash = Sha256::digest(bytes);
    format!("sha256:{}", to_hex(&hash)).parse().unwrap()
}
