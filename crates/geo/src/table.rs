//! Large tables in memory of large pages.
//!
//! A lookup jumps to random places of tables of many megabytes. With pages of 4 KiB nearly every jump has to find its
//! page first; with pages of 2 MiB, which the system gives on request, few do.

use bytemuck::Pod;
use memmap2::{Advice, MmapMut};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// A table with room for a fixed number of values. Room that is never used takes no memory.
pub(crate) struct Table<T> {
    memory: Memory,
    length: usize,
    kind: PhantomData<T>,
}

enum Memory {
    /// Memory of its own, which no file is behind.
    Large(MmapMut),
    /// Where the system gives none, and for an empty table: words, because their beginning suits every number.
    Plain(Vec<u64>),
}

impl<T: Pod> Table<T> {
    /// A full table of zeros.
    pub(crate) fn zeros(length: usize) -> Self {
        Self { length, ..Self::with_room(length) }
    }

    /// An empty table with room for this many values.
    pub(crate) fn with_room(room: usize) -> Self {
        let bytes = room.saturating_mul(size_of::<T>());
        let large = MmapMut::map_anon(bytes).inspect(|memory| {
            // Only advice: where it is not taken, small pages do.
            let _ = memory.advise(Advice::HugePage);
        });
        let memory = match large {
            Ok(large) if bytes > 0 => Memory::Large(large),
            _ => Memory::Plain(vec![0; bytes.div_ceil(size_of::<u64>())]),
        };
        Self { memory, length: 0, kind: PhantomData }
    }

    /// Adds a value. There must be room for it.
    pub(crate) fn push(&mut self, value: T) {
        let at = self.length;
        self.length += 1;
        self[at] = value;
    }

    pub(crate) fn of(values: &[T]) -> Self {
        let mut table = Self::zeros(values.len());
        table[..values.len()].copy_from_slice(values);
        table
    }
}

impl<T: Pod> Deref for Table<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        let bytes = self.length * size_of::<T>();
        match &self.memory {
            Memory::Large(memory) => bytemuck::cast_slice(&memory[..bytes]),
            Memory::Plain(words) => bytemuck::cast_slice(&bytemuck::cast_slice::<u64, u8>(words)[..bytes]),
        }
    }
}

impl<T: Pod> DerefMut for Table<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        let bytes = self.length * size_of::<T>();
        match &mut self.memory {
            Memory::Large(memory) => bytemuck::cast_slice_mut(&mut memory[..bytes]),
            Memory::Plain(words) => {
                bytemuck::cast_slice_mut(&mut bytemuck::cast_slice_mut::<u64, u8>(words)[..bytes])
            }
        }
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
        let mut growing = Table::with_room(3);
        [5u64, 6].into_iter().for_each(|value| growing.push(value));
        assert_eq!(*growing, [5, 6]);
    }
}
