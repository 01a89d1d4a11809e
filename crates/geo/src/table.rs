//! Large tables in memory of large pages.
//!
//! A lookup jumps to random places of tables of many megabytes. With pages of 4 KiB nearly every jump has to find its
//! page first; with pages of 2 MiB, which the system gives on request, few do.

use bytemuck::Pod;
use memmap2::{Advice, MmapMut};
use std::alloc::{Layout, handle_alloc_error};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// A fixed number of values. Those that are never written take no memory.
pub(crate) struct Table<T> {
    /// Memory of its own, which no file is behind; none for an empty table.
    memory: Option<MmapMut>,
    kind: PhantomData<T>,
}

impl<T: Pod> Table<T> {
    /// A table of zeros.
    pub(crate) fn zeros(length: usize) -> Self {
        let memory = (length > 0).then(|| {
            let bytes = length.saturating_mul(size_of::<T>());
            // Without memory nothing goes on, as everywhere.
            let memory = MmapMut::map_anon(bytes).unwrap_or_else(|_| handle_alloc_error(Layout::new::<T>()));
            // Only advice: where it is not taken, small pages do.
            let _ = memory.advise(Advice::HugePage);
            memory
        });
        Self { memory, kind: PhantomData }
    }

    pub(crate) fn of(values: &[T]) -> Self {
        let mut table = Self::zeros(values.len());
        table[..values.len()].copy_from_slice(values);
        table
    }
}

impl<T: Pod> Deref for Table<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        self.memory.as_deref().map_or(&[], bytemuck::cast_slice)
    }
}

impl<T: Pod> DerefMut for Table<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.memory.as_deref_mut().map_or(&mut [], bytemuck::cast_slice_mut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_begins_with_zeros_and_keeps_what_is_written() {
        let mut table = Table::<u32>::zeros(1 << 20);
        assert!(table.len() == 1 << 20 && table.iter().all(|value| *value == 0));
        table[7] = 9;
        assert_eq!((table[6], table[7]), (0, 9));
        assert_eq!(*Table::of(&[[1u32; 8], [2; 8]]), [[1; 8], [2; 8]]);
        assert!(Table::<u64>::of(&[]).is_empty());
    }
}
