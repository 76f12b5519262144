//! The rules and profiles that are part of the program, as text: the file's stem and its content.

include!(concat!(env!("OUT_DIR"), "/data_files.rs"));
