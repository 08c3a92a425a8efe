//! A map of bounded size that evicts the least recently used entries.

use std::hash::Hash;

use rustc_hash::FxHashMap;

/// Keeps a young and an old generation of entries, each in a map. When the young map is full, it replaces the
/// old map, and the remaining entries of the old map are evicted. An entry of the old map moves to the young
/// map when it is used.
#[derive(Debug)]
pub(super) struct Recent<K, V> {
    young: FxHashMap<K, V>,
    old: FxHashMap<K, V>,
    generation_max: usize,
    /// Number of entries evicted so far.
    pub(super) forgotten: u64,
}

impl<K: Copy + Eq + Hash, V> Recent<K, V> {
    /// Creates a map that keeps at least the `generation_max` most recently used entries, and at most twice
    /// this number of entries.
    pub(super) fn new(generation_max: usize) -> Recent<K, V> {
        Recent { young: FxHashMap::default(), old: FxHashMap::default(), generation_max, forgotten: 0 }
    }

    fn make_room(&mut self) {
        if self.young.len() >= self.generation_max {
            self.forgotten += self.old.len() as u64;
            self.old = std::mem::take(&mut self.young);
        }
    }

    pub(super) fn get_mut(&mut self, key: K) -> Option<&mut V> {
        if !self.young.contains_key(&key) {
            let value = self.old.remove(&key)?;
            self.make_room();
            self.young.insert(key, value);
        }
        self.young.get_mut(&key)
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        self.old.remove(&key);
        if !self.young.contains_key(&key) {
            self.make_room();
        }
        self.young.insert(key, value);
    }

    pub(super) fn remove(&mut self, key: K) -> Option<V> {
        self.old.remove(&key).or_else(|| self.young.remove(&key))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.young.is_empty() && self.old.is_empty()
    }

    /// Removes the entries for which `keeps` returns false.
    pub(super) fn retain(&mut self, keeps: impl Fn(&K, &V) -> bool) {
        self.young.retain(|key, value| keeps(key, value));
        self.old.retain(|key, value| keeps(key, value));
    }

    pub(super) fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
    }
}

impl<K: Copy + Eq + Hash, V: Default> Recent<K, V> {
    pub(super) fn entry(&mut self, key: K) -> &mut V {
        if !self.young.contains_key(&key) {
            let value = self.old.remove(&key).unwrap_or_default();
            self.make_room();
            self.young.insert(key, value);
        }
        self.young.entry(key).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_used_entries_stay_and_memory_is_bounded() {
        let mut recent = Recent::new(10);
        recent.insert(u32::MAX, 0);
        for key in 0..100 {
            recent.insert(key, key);
            *recent.get_mut(u32::MAX).unwrap() += 1;
        }
        assert_eq!(recent.get_mut(u32::MAX), Some(&mut 100));
        assert_eq!(recent.get_mut(99), Some(&mut 99));
        assert_eq!(recent.get_mut(0), None);
        assert!(recent.young.len() + recent.old.len() <= 20);
        assert_eq!(recent.forgotten, 101 - (recent.young.len() + recent.old.len()) as u64);
        assert_eq!((recent.remove(99), recent.remove(99)), (Some(99), None));
        recent.retain(|key, _| *key == u32::MAX);
        assert_eq!(recent.get_mut(98), None);
        assert_eq!(recent.get_mut(u32::MAX), Some(&mut 100));
    }
}
