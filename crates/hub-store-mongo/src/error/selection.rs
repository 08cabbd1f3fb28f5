//! That no server was found, in a sentence. The driver describes all that it knows of each of them, in its own notation.

/// Shortens the driver's message; what it cannot read it leaves as it is.
pub fn words(message: &str) -> String {
    let Some((_, topology)) = message.split_once("Topology: ") else { return message.to_owned() };
    let servers: Vec<String> = topology.split("Address: ").skip(1).filter_map(server).collect();
    if servers.is_empty() {
        return message.to_owned();
    }
    let what = if topology.contains("Type: ReplicaSetNoPrimary") {
        "the replica set has no primary"
    } else if topology.split("Address: ").skip(1).any(|server| !server.contains(", Type: Unknown")) {
        "no server will do"
    } else {
        "no server answers"
    };
    format!("{what} ({})", servers.join("; "))
}

/// `host: why`, of what follows `Address: `.
fn server(text: &str) -> Option<String> {
    let (address, rest) = text.split_once(", Type: ")?;
    let why = match rest.split_once("Error: Kind: ") {
        Some((_, error)) => error.split_once(", labels: ").map_or(error, |(why, _)| why),
        None => match rest.split([',', ' ']).next()? {
            "RsSecondary" => "a secondary",
            "RsPrimary" => "a primary",
            "RsGhost" => "its replica set has not been initiated yet, rs.initiate()",
            "Unknown" => "nothing is known of it yet",
            other => other,
        },
    };
    let why = why.strip_prefix("I/O error: ").unwrap_or(why);
    Some(format!("{address}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_is_told_with_its_reason() {
        let one = "Server selection timeout: No available servers. Topology: { Type: Unknown, Servers: [ { Address: \
                   127.0.0.1:27999, Type: Unknown, Error: Kind: I/O error: Connection refused (os error 111), labels: \
                   {\"RetryableError\"}, source: None, server response: None } ] }";
        assert_eq!(words(one), "no server answers (127.0.0.1:27999: Connection refused (os error 111))");
        let two = "Server selection timeout: None of the available servers suitable for criteria X. Topology: { Type: \
                   ReplicaSetNoPrimary, Set Name: rs0, Servers: [ { Address: a:1, Type: RsSecondary, Average RTT: 1ms, \
                   Replica Set Name: rs0 }, { Address: b:2, Type: Unknown, Error: Kind: I/O error: timed out, labels: \
                   {} }, { Address: c:3, Type: Unknown } ] }";
        assert_eq!(
            words(two),
            "the replica set has no primary (a:1: a secondary; b:2: timed out; c:3: nothing is known of it yet)"
        );
        let ghost = "None of … Topology: { Type: Unknown, Servers: [ { Address: a:1, Type: RsGhost, Average RTT: 1ms } ] }";
        assert_eq!(
            words(ghost),
            "no server will do (a:1: its replica set has not been initiated yet, rs.initiate())"
        );
    }

    #[test]
    fn what_cannot_be_read_stays_as_it_is() {
        for text in ["something else", "Topology: { Type: Unknown, Servers: [  ] }"] {
            assert_eq!(words(text), text);
        }
    }
}
