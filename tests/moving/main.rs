//! Logs that move: between stores, into archives and back, out of the databases and folders of DSH.

mod archives;
mod databases;
mod equality;
mod hostile_archives;
mod large;
mod logs;
mod read_back;
mod roots;
mod zip_bytes;
