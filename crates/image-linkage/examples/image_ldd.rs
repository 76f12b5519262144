//! `ldd` for an image: lists what the image's dynamic loader would load for an object, without running anything.
//!
//! ```text
//! cargo run -p image-linkage --example image_ldd -- OBJECT ROOT
//! cargo run -p image-linkage --example image_ldd -- OBJECT LAYER.tar.gz...
//! ```
//!
//! `OBJECT` is a path in the image, and `ROOT` a folder with an unpacked root file system. Layers are tar files, lowest
//! first, plain or compressed with gzip or zstd.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "an example reads what the user names, and prints"
)]

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use image_linkage::escape::escape_bytes;
use image_linkage::layer::{ExpectedBlob, IndexOptions, LayerIndex, index_layer};
use image_linkage::loader::{
    Arch, CpuLevel, DynamicLoader, LoaderEnvironment, ProcessSetup, SimulatedProcess, StartMode,
};
use image_linkage::rootfs::{FileCredentials, Rootfs, merge_layers};

type AnyError = Box<dyn std::error::Error>;

fn main() -> Result<(), AnyError> {
    let mut arguments = std::env::args_os().skip(1);
    let object = arguments.next().ok_or("usage: image_ldd OBJECT ROOT | LAYER...")?;
    let layers: Vec<PathBuf> = arguments.map(PathBuf::from).collect();
    for line in image_ldd(object.as_encoded_bytes(), &layers)? {
        println!("{line}");
    }
    Ok(())
}

/// The output lines for the object at the path `object`.
pub fn image_ldd(object: &[u8], layers: &[PathBuf]) -> Result<Vec<String>, AnyError> {
    let indexes = layers
        .iter()
        .map(|path| read_layer(path))
        .collect::<Result<Vec<_>, _>>()?;
    let (rootfs, _) = merge_layers(&indexes);
    resolve_object(&rootfs, object).map_err(|why| format!("{}: {why}", escape_bytes(object)).into())
}

/// Reads a layer file, or a folder, which is packed in memory.
fn read_layer(path: &Path) -> Result<LayerIndex, AnyError> {
    let name = path.display().to_string();
    let (expected, options) = (ExpectedBlob::default(), IndexOptions::default());
    if !path.is_dir() {
        return Ok(index_layer(&name, File::open(path)?, &expected, &options)?);
    }
    let (reader, writer) = io::pipe()?;
    std::thread::scope(|scope| {
        let packed = scope.spawn(move || {
            let mut tar = tar::Builder::new(writer);
            tar.follow_symlinks(false);
            tar.append_dir_all(".", path).and_then(|()| tar.finish())
        });
        let index = index_layer(&name, reader, &expected, &options);
        // A packing error explains a truncated tar better than the tar reader does.
        packed.join().map_err(|_panic| "the folder cannot be packed")??;
        Ok(index?)
    })
}

fn resolve_object(rootfs: &Rootfs, object: &[u8]) -> Result<Vec<String>, &'static str> {
    let facts = rootfs.file(object).and_then(|file| file.elf.as_deref());
    let arch = Arch::of_object(facts.ok_or("no ELF object lies there")?);
    let arch = arch.ok_or("it is of a machine whose loader is not known")?;
    let cpu = CpuLevel::V3;
    let linker = DynamicLoader::find_default(rootfs, arch, cpu);
    let setup = ProcessSetup {
        rootfs,
        linker: &linker.ok_or("the image has no dynamic loader for it")?,
        environment: &LoaderEnvironment::default(),
        user: &FileCredentials::default(),
        cpu,
        from_driver: &|_| false,
    };
    // Like `ldd`: the object is an argument of the loader, so that libraries work too.
    let found = SimulatedProcess::new(&setup).start(object, StartMode::Listed);
    let loaded = found.objects.iter().skip(1).map(|it| {
        let (name, path) = (escape_bytes(&it.name), escape_bytes(&it.path));
        format!("{name} => {path} ({})", it.how.text(&found.objects))
    });
    let missing = found.unresolved.iter().map(|it| it.message.clone());
    Ok(loaded.chain(missing).collect())
}
