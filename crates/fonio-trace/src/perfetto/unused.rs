//! Counts the events of storage that were recorded but have no row, so that nobody takes their absence in a report for
//! their absence in the trace.
//!
//! The numbers and names are those of `protos/perfetto/trace/ftrace/ftrace_event.proto` (Apache-2.0, copyright The Android
//! Open Source Project). Events that this version of Perfetto did not know, such as those of jbd2 and of write-back, have a
//! name or a description in the trace.

use rustc_hash::FxHashMap;

use super::wire::{Fields, Value};

/// The number of an event with its name in it (`GenericFtraceEvent`).
pub(super) const NAMED: u32 = 327;

/// Smallest number of events that are described in the trace.
pub(super) const DESCRIBED_FROM: u32 = 65_536;

/// Maximum numbers of names and descriptions that are kept, and maximum length of a name.
const NAMES_MAX: usize = 1024;
const NAME_BYTES_MAX: usize = 64;

/// Maximum number of names in the message.
const LISTED: usize = 12;

/// Events of storage without a row.
#[rustfmt::skip]
const KNOWN: [(u32, &str); 138] = [
    (41, "ext4_da_write_begin"),
    (42, "ext4_da_write_end"),
    (97, "mm_filemap_add_to_page_cache"),
    (98, "mm_filemap_delete_from_page_cache"),
    (121, "block_dirty_buffer"),
    (124, "block_rq_abort"),
    (132, "block_touch_buffer"),
    (134, "ext4_alloc_da_blocks"),
    (135, "ext4_allocate_blocks"),
    (136, "ext4_allocate_inode"),
    (137, "ext4_begin_ordered_truncate"),
    (138, "ext4_collapse_range"),
    (139, "ext4_da_release_space"),
    (140, "ext4_da_reserve_space"),
    (141, "ext4_da_update_reserve_space"),
    (142, "ext4_da_write_pages"),
    (143, "ext4_da_write_pages_extent"),
    (144, "ext4_direct_IO_enter"),
    (145, "ext4_direct_IO_exit"),
    (146, "ext4_discard_blocks"),
    (147, "ext4_discard_preallocations"),
    (148, "ext4_drop_inode"),
    (149, "ext4_es_cache_extent"),
    (150, "ext4_es_find_delayed_extent_range_enter"),
    (151, "ext4_es_find_delayed_extent_range_exit"),
    (152, "ext4_es_insert_extent"),
    (153, "ext4_es_lookup_extent_enter"),
    (154, "ext4_es_lookup_extent_exit"),
    (155, "ext4_es_remove_extent"),
    (156, "ext4_es_shrink"),
    (157, "ext4_es_shrink_count"),
    (158, "ext4_es_shrink_scan_enter"),
    (159, "ext4_es_shrink_scan_exit"),
    (160, "ext4_evict_inode"),
    (161, "ext4_ext_convert_to_initialized_enter"),
    (162, "ext4_ext_convert_to_initialized_fastpath"),
    (163, "ext4_ext_handle_unwritten_extents"),
    (164, "ext4_ext_in_cache"),
    (165, "ext4_ext_load_extent"),
    (166, "ext4_ext_map_blocks_enter"),
    (167, "ext4_ext_map_blocks_exit"),
    (168, "ext4_ext_put_in_cache"),
    (169, "ext4_ext_remove_space"),
    (170, "ext4_ext_remove_space_done"),
    (171, "ext4_ext_rm_idx"),
    (172, "ext4_ext_rm_leaf"),
    (173, "ext4_ext_show_extent"),
    (174, "ext4_fallocate_enter"),
    (175, "ext4_fallocate_exit"),
    (176, "ext4_find_delalloc_range"),
    (177, "ext4_forget"),
    (178, "ext4_free_blocks"),
    (179, "ext4_free_inode"),
    (180, "ext4_get_implied_cluster_alloc_exit"),
    (181, "ext4_get_reserved_cluster_alloc"),
    (182, "ext4_ind_map_blocks_enter"),
    (183, "ext4_ind_map_blocks_exit"),
    (184, "ext4_insert_range"),
    (185, "ext4_invalidatepage"),
    (186, "ext4_journal_start"),
    (187, "ext4_journal_start_reserved"),
    (188, "ext4_journalled_invalidatepage"),
    (189, "ext4_journalled_write_end"),
    (190, "ext4_load_inode"),
    (191, "ext4_load_inode_bitmap"),
    (192, "ext4_mark_inode_dirty"),
    (193, "ext4_mb_bitmap_load"),
    (194, "ext4_mb_buddy_bitmap_load"),
    (195, "ext4_mb_discard_preallocations"),
    (196, "ext4_mb_new_group_pa"),
    (197, "ext4_mb_new_inode_pa"),
    (198, "ext4_mb_release_group_pa"),
    (199, "ext4_mb_release_inode_pa"),
    (200, "ext4_mballoc_alloc"),
    (201, "ext4_mballoc_discard"),
    (202, "ext4_mballoc_free"),
    (203, "ext4_mballoc_prealloc"),
    (204, "ext4_other_inode_update_time"),
    (205, "ext4_punch_hole"),
    (206, "ext4_read_block_bitmap_load"),
    (207, "ext4_readpage"),
    (208, "ext4_releasepage"),
    (209, "ext4_remove_blocks"),
    (210, "ext4_request_blocks"),
    (211, "ext4_request_inode"),
    (212, "ext4_sync_fs"),
    (213, "ext4_trim_all_free"),
    (214, "ext4_trim_extent"),
    (215, "ext4_truncate_enter"),
    (216, "ext4_truncate_exit"),
    (217, "ext4_unlink_enter"),
    (218, "ext4_unlink_exit"),
    (219, "ext4_write_begin"),
    (230, "ext4_write_end"),
    (231, "ext4_writepage"),
    (232, "ext4_writepages"),
    (233, "ext4_writepages_result"),
    (234, "ext4_zero_range"),
    (243, "f2fs_do_submit_bio"),
    (244, "f2fs_evict_inode"),
    (245, "f2fs_fallocate"),
    (246, "f2fs_get_data_block"),
    (247, "f2fs_get_victim"),
    (248, "f2fs_iget"),
    (249, "f2fs_iget_exit"),
    (250, "f2fs_new_inode"),
    (251, "f2fs_readpage"),
    (252, "f2fs_reserve_new_block"),
    (253, "f2fs_set_page_dirty"),
    (254, "f2fs_submit_write_page"),
    (257, "f2fs_sync_fs"),
    (258, "f2fs_truncate"),
    (259, "f2fs_truncate_blocks_enter"),
    (260, "f2fs_truncate_blocks_exit"),
    (261, "f2fs_truncate_data_blocks_range"),
    (262, "f2fs_truncate_inode_blocks_enter"),
    (263, "f2fs_truncate_inode_blocks_exit"),
    (264, "f2fs_truncate_node"),
    (265, "f2fs_truncate_nodes_enter"),
    (266, "f2fs_truncate_nodes_exit"),
    (267, "f2fs_truncate_partial_nodes"),
    (268, "f2fs_unlink_enter"),
    (269, "f2fs_unlink_exit"),
    (270, "f2fs_vm_page_mkwrite"),
    (271, "f2fs_write_begin"),
    (272, "f2fs_write_checkpoint"),
    (273, "f2fs_write_end"),
    (406, "ufshcd_command"),
    (407, "ufshcd_clk_gating"),
    (419, "f2fs_iostat"),
    (420, "f2fs_iostat_latency"),
    (495, "f2fs_background_gc"),
    (496, "f2fs_gc_begin"),
    (497, "f2fs_gc_end"),
    (597, "scsi_dispatch_cmd_error"),
    (598, "scsi_dispatch_cmd_timeout"),
    (599, "scsi_eh_wakeup"),
    (603, "f2fs_lock_elapsed_time"),
];

/// One more than the largest number in [`KNOWN`].
const NUMBERS: usize = KNOWN[KNOWN.len() - 1].0 as usize + 1;

/// The counts of events without a row.
#[derive(Debug)]
pub(super) struct Unused {
    by_number: [u64; NUMBERS],
    by_name: FxHashMap<Box<[u8]>, u64>,
    described: FxHashMap<u32, u64>,
    /// The names of the numbers in [`Unused::described`].
    names: FxHashMap<u32, Box<[u8]>>,
}

impl Default for Unused {
    fn default() -> Unused {
        Unused {
            by_number: [0; NUMBERS],
            by_name: FxHashMap::default(),
            described: FxHashMap::default(),
            names: FxHashMap::default(),
        }
    }
}

impl Unused {
    /// Counts an event without a row.
    pub fn count(&mut self, number: u32, content: &[u8]) {
        if let Some(count) = self.by_number.get_mut(number as usize).filter(|_| number != NAMED) {
            *count += 1;
        } else if number == NAMED {
            if let Some(name) = text(content, 1) {
                add(&mut self.by_name, name.into());
            }
        } else if number >= DESCRIBED_FROM {
            add(&mut self.described, number);
        }
    }

    /// Reads the description of an event (`GenericEventDescriptor`): its number, and a message that begins with its name.
    pub fn describe(&mut self, message: &[u8]) {
        let number = Fields::of(message).find_map(|(field, value)| match (field, value) {
            (1, Value::Varint(number)) => u32::try_from(number).ok(),
            _ => None,
        });
        let name = text_of_long(message, 2).and_then(|description| text(description, 1));
        if let (Some(number), Some(name)) = (number, name)
            && (self.names.len() < NAMES_MAX || self.names.contains_key(&number))
        {
            self.names.insert(number, name.into());
        }
    }

    /// Returns a message about all events without a row; `None` if there are none.
    pub fn message(&self) -> Option<String> {
        let known = KNOWN.iter().map(|(number, name)| (self.by_number[*number as usize], name.as_bytes()));
        let named = self.by_name.iter().map(|(name, count)| (*count, &name[..]));
        let described = self.described.iter();
        let described = described.filter_map(|(number, count)| Some((*count, &self.names.get(number)?[..])));
        let mut all: Vec<(u64, &[u8])> =
            known.chain(named).chain(described).filter(|(count, _)| *count > 0).collect();
        all.sort_unstable_by_key(|(count, name)| (std::cmp::Reverse(*count), *name));
        let total = all.iter().fold(0_u64, |sum, (count, _)| sum.saturating_add(*count));
        if all.is_empty() {
            return None;
        }
        let names: Vec<String> = (all.iter().take(LISTED))
            .map(|(count, name)| format!("{} ({count})", String::from_utf8_lossy(name).escape_debug()))
            .collect();
        let others = match all.len().saturating_sub(LISTED) {
            0 => String::new(),
            count => format!(" and {count} other kinds"),
        };
        Some(format!(
            "{total} events were not used, because fonio has no row for them: {}{others}.",
            names.join(", ")
        ))
    }
}

fn add<K: Eq + std::hash::Hash>(counts: &mut FxHashMap<K, u64>, key: K) {
    if counts.len() < NAMES_MAX || counts.contains_key(&key) {
        *counts.entry(key).or_default() += 1;
    }
}

/// Returns the text in this field, cut to [`NAME_BYTES_MAX`].
fn text(message: &[u8], field: u32) -> Option<&[u8]> {
    text_of_long(message, field).map(|text| &text[..text.len().min(NAME_BYTES_MAX)])
}

fn text_of_long(message: &[u8], wanted: u32) -> Option<&[u8]> {
    Fields::of(message).find(|(field, _)| *field == wanted).and_then(|(_, value)| value.bytes())
}
