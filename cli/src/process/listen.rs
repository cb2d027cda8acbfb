//! Addresses to listen on, as people write them.

use super::ProcessError;
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use tokio::net::TcpListener;

/// Reads an address: `127.0.0.1:7070`, a name with a port such as `localhost:7070`, or a port
/// alone, which is one of this machine only.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    if let Ok(port) = text.parse() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    let resolved = text.to_socket_addrs().map_err(|error| {
        format!("{error}; write ADDRESS:PORT, such as 127.0.0.1:7070 or localhost:7070")
    })?;
    nearest(resolved).ok_or_else(|| format!("{text} has no address"))
}

/// What only this machine reaches comes first, and IPv4 before IPv6.
fn nearest(addresses: impl Iterator<Item = SocketAddr>) -> Option<SocketAddr> {
    addresses.min_by_key(|address| (!address.ip().is_loopback(), address.is_ipv6()))
}

/// Listens on an address that an option gave.
pub(crate) async fn bind(
    address: SocketAddr,
    option: &'static str,
) -> Result<(TcpListener, SocketAddr), ProcessError> {
    let bound = async {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    bound.await.map_err(|error| ProcessError::Listen {
        address,
        option,
        error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_as_people_write_them() {
        for (text, address) in [
            ("0.0.0.0:7070", "0.0.0.0:7070"),
            ("[::1]:7070", "[::1]:7070"),
            ("localhost:7070", "127.0.0.1:7070"),
            ("7070", "127.0.0.1:7070"),
            ("0", "127.0.0.1:0"),
        ] {
            assert_eq!(
                super::address(text).unwrap(),
                address.parse().unwrap(),
                "{text}"
            );
        }
    }

    #[test]
    fn an_address_that_is_none_is_refused_with_one_that_is() {
        for text in [
            "localhost",
            "127.0.0.1",
            "70700",
            "",
            "no.such.host.invalid:1",
        ] {
            let error = address(text).unwrap_err();
            assert!(error.contains("127.0.0.1:7070"), "{text}: {error}");
        }
    }

    #[test]
    fn loopback_comes_before_all_others() {
        let addresses = ["192.0.2.1:1", "[::1]:1", "127.0.0.1:1"].map(|a| a.parse().unwrap());
        assert_eq!(
            nearest(addresses.into_iter()),
            Some("127.0.0.1:1".parse().unwrap())
        );
        assert_eq!(
            nearest(addresses[..2].iter().copied()),
            Some("[::1]:1".parse().unwrap())
        );
    }
}
