//! Simulates loads in an image: the two worlds, the processes of the command, and the result of each request.

pub mod command_entry;
pub mod container_files;
pub mod credentials;
pub mod host_facts;
pub mod interpreter;
pub mod ld_cache;
pub mod load_answer;
pub mod other_loaders;
pub mod plain_open;
pub mod process_context;
pub mod resolved_objects;
pub mod start_failure;
pub mod world;
