//! Keeps the inodes that the kernel knows.
//!
//! A node exists from the first reply that contains it until the kernel has forgotten all its lookups. A node
//! holds an `O_PATH` descriptor of its inode, or the inode's file handle (`crate::place`). So renames and links in
//! the source do no harm.
//!
//! Invariant: the lock of the inode's shard protects both the number of lookups and the existence of the
//! node. So a FORGET request that arrives at the same time as a lookup cannot remove the node that the lookup
//! returns.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use crate::buffer::Pending;
use crate::kernel::{Backing, FileHandle};
use crate::modes::Serving;
use crate::place::{ByHandle, Place};
use crate::protocol::ROOT_ID;
use crate::slab::Slab;

const SHARDS: usize = 16;

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) id: u64,
    pub(crate) place: Place,
    /// Number of lookups that the kernel has not forgotten, changed under the lock of the inode's shard.
    lookups: AtomicU64,
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) is_directory: bool,
    /// The node ID of the directory in which the inode was last found.
    parent: AtomicU64,
    pub(crate) pending: Arc<Pending>,
    /// Whether the inode may have set-user-ID bits or capabilities that a write must clear.
    privileged: AtomicBool,
    open: Mutex<OpenState>,
}

/// How an inode is served while it is open.
#[derive(Debug, Default)]
pub(crate) struct OpenState {
    pub(crate) opens: u64,
    /// Set while `opens` is above zero.
    pub(crate) serving: Option<Serving>,
    pub(crate) backing: Option<Backing>,
    /// Size and times of the file at the last close. If size and times are unchanged at the next open, the
    /// kernel may keep its cached pages.
    pub(crate) version: Option<Version>,
    /// The file that was opened last, if it is still open.
    pub(crate) file: Weak<OwnedFd>,
}

/// Values that change with each write: size, modification time, change time.
pub(crate) type Version = (i64, i64, i64, i64, i64);

pub(crate) fn version_of(stat: &Stat) -> Version {
    // The type of `st_mtime_nsec` depends on the processor architecture.
    (stat.st_size, stat.st_mtime, stat.st_mtime_nsec as i64, stat.st_ctime, stat.st_ctime_nsec as i64)
}

impl Node {
    fn new(id: u64, place: Place, stat: &Stat, parent: u64) -> Self {
        Self {
            id,
            place,
            lookups: AtomicU64::new(1),
            device: stat.st_dev,
            inode: stat.st_ino,
            is_directory: FileType::from_raw_mode(stat.st_mode).is_dir(),
            parent: AtomicU64::new(parent),
            pending: Arc::default(),
            privileged: AtomicBool::new(true),
            open: Mutex::default(),
        }
    }

    /// Returns the descriptor of a directory. Fails with `ENOTDIR` if the node is not a directory.
    pub(crate) fn directory(&self) -> Result<&OwnedFd, Errno> {
        match &self.place {
            Place::Descriptor(file) => Ok(file),
            Place::Handle(_) => Err(Errno::NOTDIR),
        }
    }

    pub(crate) fn lock_open(&self) -> MutexGuard<'_, OpenState> {
        self.open.lock().expect("no thread panics while it holds the lock of a file's open state")
    }

    /// Returns the node ID of a directory that once contained the inode; the kernel may have forgotten the
    /// directory's node.
    pub(crate) fn parent(&self) -> u64 {
        self.parent.load(Ordering::Relaxed)
    }

    /// Records the directory in which the inode was found.
    pub(crate) fn set_parent(&self, parent: u64) {
        self.parent.store(parent, Ordering::Relaxed);
    }

    /// Returns whether an unprivileged write must look for privilege bits to clear. Resets the flag, so that
    /// the next write need not look again.
    pub(crate) fn take_privileged(&self) -> bool {
        self.privileged.swap(false, Ordering::Relaxed)
    }

    /// Records that the file may have privilege bits, which a write must clear.
    pub(crate) fn set_privileged(&self) {
        self.privileged.store(true, Ordering::Relaxed);
    }
}

/// Nodes by device and inode number.
type Shard = HashMap<(u64, u64), Arc<Node>>;

#[derive(Debug)]
pub(crate) struct Nodes {
    by_id: Slab<Node>,
    by_inode: [Mutex<Shard>; SHARDS],
    /// Number of nodes that hold a descriptor.
    descriptors: AtomicU64,
    forgotten: AtomicU64,
    /// Number of forgotten nodes that held a descriptor.
    freed: AtomicU64,
}

impl Nodes {
    /// Creates the table with the root node, which is never forgotten.
    pub(crate) fn new(root: OwnedFd, stat: &Stat) -> Self {
        let nodes = Self {
            by_id: Slab::default(),
            by_inode: std::array::from_fn(|_| Mutex::default()),
            descriptors: AtomicU64::new(0),
            forgotten: AtomicU64::new(0),
            freed: AtomicU64::new(0),
        };
        let root = nodes.look_up(root, stat, ROOT_ID, None, false);
        assert!(root.id == ROOT_ID, "the first node is the root");
        nodes
    }

    fn shard(&self, device: u64, inode: u64) -> MutexGuard<'_, Shard> {
        let at = (device ^ inode) as usize % SHARDS;
        self.by_inode[at].lock().expect("no thread panics while it holds the lock of the table of nodes")
    }

    /// Returns the node for `file`, which was found in the directory `parent`, and counts a lookup. If
    /// descriptors are scarce (`spares`), a new node of a file holds its handle instead of the descriptor.
    pub(crate) fn look_up(
        &self,
        file: OwnedFd,
        stat: &Stat,
        parent: u64,
        by_handle: Option<&ByHandle>,
        spares: bool,
    ) -> Arc<Node> {
        let mut shard = self.shard(stat.st_dev, stat.st_ino);
        let known = shard.get(&(stat.st_dev, stat.st_ino)).filter(|node| match &node.place {
            Place::Descriptor(_) => true,
            // The inode of the node may have been deleted, and its number given to this file. The file may have
            // been found through another mount.
            Place::Handle(handle) => FileHandle::of(&file).is_ok_and(|(found, _)| found == *handle),
        });
        if let Some(node) = known {
            node.lookups.fetch_add(1, Ordering::Relaxed);
            node.set_parent(parent);
            return Arc::clone(node);
        }
        let is_directory = FileType::from_raw_mode(stat.st_mode).is_dir();
        let handle = match by_handle {
            Some(handles) if spares && !is_directory => handles.handle_of(&file),
            _ => None,
        };
        let place = handle.map_or_else(|| Place::Descriptor(file), Place::Handle);
        if matches!(place, Place::Descriptor(_)) {
            self.descriptors.fetch_add(1, Ordering::Relaxed);
        }
        let node = self.by_id.insert_with(|id| Node::new(id, place, stat, parent));
        // A node that is replaced here is still found by its ID, until the kernel forgets it.
        shard.insert((stat.st_dev, stat.st_ino), Arc::clone(&node));
        node
    }

    /// Subtracts `count` forgotten lookups from a node.
    pub(crate) fn forget(&self, id: u64, count: u64) {
        if id == ROOT_ID {
            return;
        }
        let Some(node) = self.by_id.get(id) else { return };
        let mut shard = self.shard(node.device, node.inode);
        let left = node.lookups.load(Ordering::Relaxed).saturating_sub(count);
        node.lookups.store(left, Ordering::Relaxed);
        if left > 0 || self.by_id.remove(id).is_none() {
            return;
        }
        let key = (node.device, node.inode);
        if shard.get(&key).is_some_and(|known| Arc::ptr_eq(known, &node)) {
            shard.remove(&key);
        }
        if matches!(node.place, Place::Descriptor(_)) {
            self.descriptors.fetch_sub(1, Ordering::Relaxed);
            self.freed.fetch_add(1, Ordering::Relaxed);
        }
        self.forgotten.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self, id: u64) -> Option<Arc<Node>> {
        self.by_id.get(id)
    }

    /// Returns the node of an inode, if the kernel knows it.
    pub(crate) fn find(&self, device: u64, inode: u64) -> Option<Arc<Node>> {
        self.shard(device, inode).get(&(device, inode)).map(Arc::clone)
    }

    pub(crate) fn count(&self) -> u64 {
        self.by_id.count()
    }

    /// Returns the number of nodes that hold a descriptor.
    pub(crate) fn descriptors(&self) -> u64 {
        self.descriptors.load(Ordering::Relaxed)
    }

    /// Returns the number of nodes that the kernel has forgotten since the start.
    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten.load(Ordering::Relaxed)
    }

    /// Returns the number of descriptors that forgotten nodes have freed since the start.
    pub(crate) fn freed(&self) -> u64 {
        self.freed.load(Ordering::Relaxed)
    }

    /// Returns the IDs of all nodes except the root, in no particular order.
    pub(crate) fn ids(&self) -> Vec<u64> {
        let mut ids = Vec::new();
        for shard in &self.by_inode {
            let shard = shard.lock().expect("no thread panics while it holds the lock of the table of nodes");
            ids.extend(shard.values().map(|node| node.id).filter(|id| *id != ROOT_ID));
        }
        ids
    }
}
