//! The oracle's rules for flushes.

use std::io;

use fonio_core::{LinkEnd, LinkKind, Op};

use super::{FLUSH, Naive, Now, Stage, earlier, move_median};

impl Naive<'_> {
    pub(super) fn issue_flush(&mut self, now: &Now<'_>) -> io::Result<()> {
        let mut waiters = self.all(now, |item| item.stage == Stage::Waiting);
        waiters.sort_by_key(|&place| {
            let item = &self.items[place];
            (item.row.request_id == 0, item.began(), item.number)
        });
        let head = waiters.first().copied();
        waiters.retain(|&place| Some(place) == head || self.items[place].row.request_id == 0);
        let waiters: Vec<u64> = waiters.into_iter().map(|place| self.items[place].number).collect();
        self.retire(now, true)?;
        let number = match waiters.first() {
            Some(&number) => number,
            None => {
                let item = self.fresh(now);
                self.add(item)?
            }
        };
        let place = self.place(number);
        let request_id = self.request_id(place);
        for &waiter in &waiters {
            let place = self.place(waiter);
            self.bio(place, Some(request_id), None)?;
            let item = self.items[place].clone();
            if item.is_bio {
                self.link(LinkKind::Flush, (LinkEnd::Bio, item.bio_id), (LinkEnd::Request, request_id))?;
            }
            if waiter != number {
                self.items.remove(place);
                let place = self.place(number);
                let request = &mut self.items[place].row;
                request.flags |= item.row.flags;
                request.flags_known |= item.row.flags_known;
                request.inserted = earlier(request.inserted, item.row.inserted);
            }
        }
        let count = waiters.len() as u64;
        let place = self.place(number);
        self.items[place].waiters = count;
        let shown = self.shown(now.device);
        shown.ends_due += count;
        let (before, after) = (std::mem::take(&mut shown.before_data), std::mem::take(&mut shown.after_data));
        let mut cause = None;
        let mut parents = Vec::new();
        for parent in before {
            let place =
                self.items.iter().position(|item| item.number == parent && item.stage == Stage::Waiting);
            if let Some(place) = place {
                let id = self.request_id(place);
                parents.push((id, self.items[place].root.or(self.items[place].row.tid)));
            }
        }
        parents.extend(after.into_iter().map(|(id, _, tid)| (id, tid)));
        for (id, tid) in parents {
            cause = cause.or(tid);
            self.link(LinkKind::Flush, (LinkEnd::Request, id), (LinkEnd::Request, request_id))?;
        }
        let item = &mut self.items[place];
        item.root = item.root.or(item.row.tid).or(cause);
        self.launch(place, now);
        Ok(())
    }

    pub(super) fn end_flush_sequence(&mut self, now: &Now<'_>) -> io::Result<()> {
        self.count("flush_sequence_ends");
        let sector = now.event.sector.0;
        let shown = self.shown(now.device);
        shown.after_data.retain(|parent| parent.1 != sector);
        let was_due = shown.ends_due > 0;
        shown.ends_due = shown.ends_due.saturating_sub(1);
        let flush = Now { at: FLUSH, op: Op::Flush, bytes: 0, ..now.clone() };
        if !shown.flush_completion {
            if shown.ends_of_inferred > 0 {
                shown.ends_of_inferred -= 1;
                return Ok(());
            }
            let flying = self.all(&flush, |item| item.stage == Stage::Flying);
            if !flying.is_empty() {
                self.count("flush_completions_inferred");
                let place = self.pick(flying, now.time, 0);
                let (service, waiters) = (now.time - self.items[place].began(), self.items[place].waiters);
                let shown = self.shown(now.device);
                shown.ends_of_inferred = waiters.saturating_sub(1);
                move_median(shown.service.entry(Op::Flush).or_default(), service);
                return self.end(place, &flush);
            }
        }
        if was_due || sector != 0 && sector != u64::MAX {
            return Ok(());
        }
        match self.all(&flush, |item| item.stage == Stage::Waiting).first() {
            Some(&place) => self.end_unissued(place, &flush),
            None => Ok(()),
        }
    }
}
