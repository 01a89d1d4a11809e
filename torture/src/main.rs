//! Fault campaigns against a real server: exactness and durability are shown, not claimed.

fn main() {}
