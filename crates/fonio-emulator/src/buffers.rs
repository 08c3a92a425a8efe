//! Buffers for the data of requests, allocated before the device appears.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fonio_sim::device::Limits;

/// Maximum number of bytes of all buffers. A device with a deep queue can have more data in flight; the heap
/// serves its other requests.
const BYTES_MAX: usize = 64 << 20;

/// Buffers of equal size. An unused buffer waits here for the next request.
#[derive(Debug)]
pub(crate) struct Buffers {
    free: Mutex<Vec<Vec<u8>>>,
    buffer_bytes: usize,
}

impl Buffers {
    /// Allocates a buffer for each command of the device's queue, but at most [`BYTES_MAX`].
    pub(crate) fn of(limits: &Limits) -> Arc<Buffers> {
        let buffer_bytes =
            usize::try_from(limits.command_max.0).unwrap_or(usize::MAX).clamp(4096, BYTES_MAX / 2);
        let depth = usize::try_from(limits.depth).unwrap_or(usize::MAX);
        // A request that is being received needs a buffer too.
        let count = depth.saturating_add(1).clamp(2, BYTES_MAX / buffer_bytes);
        // The memory is written once, so that the kernel has allocated it.
        let free = (0..count).map(|_| vec![1; buffer_bytes]).collect();
        Arc::new(Buffers { free: Mutex::new(free), buffer_bytes })
    }

    /// Returns memory of `bytes` with any content.
    pub(crate) fn take(self: &Arc<Buffers>, bytes: usize) -> Data {
        if bytes <= self.buffer_bytes
            && let Some(memory) = lock(&self.free).pop()
        {
            return Data { memory, bytes, home: Some(Arc::clone(self)) };
        }
        Data { memory: vec![0; bytes], bytes, home: None }
    }
}

/// Locks the free buffers, ignoring poison: a panic ends the process.
fn lock(free: &Mutex<Vec<Vec<u8>>>) -> MutexGuard<'_, Vec<Vec<u8>>> {
    free.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The data of a request. Dropping this value makes its buffer available to other requests.
#[derive(Debug, Default)]
pub(crate) struct Data {
    memory: Vec<u8>,
    bytes: usize,
    home: Option<Arc<Buffers>>,
}

impl Deref for Data {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[..self.bytes]
    }
}

impl DerefMut for Data {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[..self.bytes]
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        if let Some(home) = self.home.take() {
            // The list has room for all buffers, so this allocates nothing.
            lock(&home.free).push(std::mem::take(&mut self.memory));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back_and_more_data_than_buffers_are_served() {
        let buffers = Arc::new(Buffers { free: Mutex::new(vec![vec![1; 8], vec![1; 8]]), buffer_bytes: 8 });
        let free = || lock(&buffers.free).len();
        let held = [buffers.take(8), buffers.take(5), buffers.take(4)];
        assert_eq!((held.each_ref().map(|data| data.len()), free()), ([8, 5, 4], 0));
        drop(held);
        assert_eq!(free(), 2, "a buffer from the heap does not join the others");
        assert_eq!((buffers.take(9).len(), free()), (9, 2), "a long request has its own memory");
    }
}
