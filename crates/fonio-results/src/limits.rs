//! Limits the requests of clients with one token bucket per address. Each bucket fills at a constant rate.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of client addresses. If there are more, addresses with full buckets are removed; if no
/// bucket is full, new addresses are refused. The entry of an address needs about 50 bytes.
const ADDRESSES_MAX: usize = 100_000;

/// A limit on the rate of requests, with a burst size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Number of tokens added per second.
    pub per_s: f64,
    /// The size of the token bucket. This is the largest possible burst.
    pub burst: f64,
}

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    filled_at: Instant,
}

/// Limits the rate of requests from each client address.
#[derive(Debug)]
pub struct Limiter {
    rate: Rate,
    buckets: Mutex<HashMap<IpAddr, Bucket>>,
}

impl Limiter {
    /// Creates a limiter; the token bucket of each client address is full at first.
    pub fn new(rate: Rate) -> Limiter {
        assert!(rate.per_s > 0.0 && rate.burst >= 1.0, "{rate:?}");
        Limiter { rate, buckets: Mutex::default() }
    }

    /// Takes a token from the bucket of `address` for a request at `now`. Returns the time until the next
    /// token if the bucket has no token.
    pub fn take(&self, address: IpAddr, now: Instant) -> Result<(), Duration> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= ADDRESSES_MAX {
            let rate = self.rate;
            buckets.retain(|_, bucket| rate.tokens(bucket, now) < rate.burst);
            if buckets.len() >= ADDRESSES_MAX {
                return Err(Duration::from_secs(1));
            }
        }
        let full = Bucket { tokens: self.rate.burst, filled_at: now };
        let bucket = buckets.entry(network(address)).or_insert(full);
        bucket.tokens = self.rate.tokens(bucket, now);
        bucket.filled_at = now;
        if bucket.tokens >= 1.0 {
            bucket.tokens -= 1.0;
            return Ok(());
        }
        Err(Duration::from_secs_f64((1.0 - bucket.tokens) / self.rate.per_s))
    }
}

impl Rate {
    fn tokens(self, bucket: &Bucket, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(bucket.filled_at).as_secs_f64();
        (bucket.tokens + passed * self.per_s).min(self.burst)
    }
}

/// Returns the network of a client address. For IPv6, this is the /64 network, because each host usually has
/// its own /64 network.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let bits = u128::from(address) & !u128::from(u64::MAX);
            IpAddr::V6(bits.into())
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_its_burst_and_then_its_rate() {
        let limiter = Limiter::new(Rate { per_s: 2.0, burst: 3.0 });
        let (one, other) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        let start = Instant::now();
        for _ in 0..3 {
            assert_eq!(limiter.take(one, start), Ok(()));
        }
        assert_eq!(limiter.take(one, start), Err(Duration::from_millis(500)));
        assert_eq!(limiter.take(other, start), Ok(()));
        assert_eq!(limiter.take(one, start + Duration::from_millis(500)), Ok(()));
        assert!(limiter.take(one, start + Duration::from_millis(600)).is_err());
    }

    #[test]
    fn a_network_of_ipv6_is_one_client() {
        let limiter = Limiter::new(Rate { per_s: 0.001, burst: 1.0 });
        let now = Instant::now();
        assert!(limiter.take("2001:db8::1".parse().unwrap(), now).is_ok());
        assert!(limiter.take("2001:db8::ffff:2".parse().unwrap(), now).is_err());
        assert!(limiter.take("2001:db8:0:1::1".parse().unwrap(), now).is_ok());
        // The same IPv4 address in both notations counts as one client.
        assert!(limiter.take("192.0.2.1".parse().unwrap(), now).is_ok());
        assert!(limiter.take("::ffff:192.0.2.1".parse().unwrap(), now).is_err());
    }
}
