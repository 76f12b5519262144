//! A minimal DNS server that only has A records (RFC 1035, section 4).

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

/// Answers each question for an A record with `address(name)`. Other record types get an empty answer.
pub fn serve_names(at: SocketAddr, mut address: impl FnMut(&str) -> Ipv4Addr + Send + 'static) {
    let socket = UdpSocket::bind(at).expect("a name server's port is free");
    std::thread::spawn(move || {
        let mut packet = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut packet) {
            let question = &packet[12..length];
            let end = question.iter().position(|&byte| byte == 0).expect("a name ends");
            let mut labels: Vec<String> = Vec::new();
            let mut rest = &question[..end];
            while let [length, after @ ..] = rest {
                let (label, next) = after.split_at(usize::from(*length));
                labels.push(String::from_utf8_lossy(label).into_owned());
                rest = next;
            }
            let is_address = question[end + 1..end + 3] == [0, 1];
            let mut answer = packet[..2].to_vec();
            // A response without an error to one question, with one record or none.
            answer.extend([0x81, 0x80, 0, 1, 0, u8::from(is_address), 0, 0, 0, 0]);
            answer.extend(&question[..end + 5]);
            if is_address {
                // A pointer to the question's name, type A, class IN, TTL 0, length 4.
                answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4]);
                answer.extend(address(&labels.join(".")).octets());
            }
            socket.send_to(&answer, from).expect("an answer goes out");
        }
    });
}
