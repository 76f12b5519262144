//! Does a pruned object have what its GPUs need, and nothing else that differs?
#![allow(
    clippy::cast_possible_truncation,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test may panic, and print its counts"
)]

use gpu_code::{CodeAmount, GpuArchitecture, KeptPtx, Obstacle, PruneTarget, PruneWay, plan_pruning, verify_pruned};
use testkit::gpu_object::{GpuEntry, GpuObject, container, cubin, ptx};
use testkit::random::Random;

const EXACT: u64 = 0x10_0000;
const FAMILY: u64 = 0x20_0000;

fn target(gpus: &[u32]) -> PruneTarget {
    let gpus = gpus.iter().map(|gpu| GpuArchitecture::new(*gpu).unwrap());
    PruneTarget::new(gpus.collect(), KeptPtx::Needed).unwrap()
}

/// The object for these GPUs.
fn prune(object: &[u8], target: &PruneTarget, way: PruneWay) -> Result<Vec<u8>, Obstacle> {
    let plan = plan_pruning(object, target, way)?;
    let mut out = Vec::new();
    plan.write(object, &mut out).unwrap();
    assert_eq!(out.len() as u64, plan.bytes_after);
    Ok(out)
}

/// The kinds that stay of one container, as text.
fn kept(entries: &[GpuEntry], target: &PruneTarget, version: u32) -> String {
    let mut object = GpuObject::new("libx.so", &[container(entries)]);
    object.containers[0].1 = version;
    let object = object.build();
    match plan_pruning(object.as_slice(), target, PruneWay::Compact) {
        Ok(plan) => {
            let mut out = Vec::new();
            plan.write(object.as_slice(), &mut out).unwrap();
            verify_pruned(object.as_slice(), out.as_slice(), target).unwrap();
            let kinds: Vec<String> = plan
                .code_after
                .amounts()
                .map(|it: &CodeAmount| it.kind.to_string())
                .collect();
            kinds.join(" ")
        }
        Err(why) => why.to_string(),
    }
}

fn with_flags(entry: GpuEntry, flags: u64) -> GpuEntry {
    GpuEntry { flags, ..entry }
}

#[test]
fn the_kept_code_is_all_that_some_driver_may_choose() {
    let size = 0x3000;
    let all = [
        cubin(75, size),
        cubin(80, size),
        cubin(86, size),
        cubin(90, size),
        ptx(90, size),
    ];
    let features = [
        cubin(90, size),
        with_flags(cubin(90, size), EXACT),
        cubin(100, size),
        with_flags(cubin(100, size), FAMILY),
        with_flags(ptx(100, size), FAMILY),
        ptx(120, size),
    ];
    let old = [cubin(80, size), ptx(80, size), ptx(70, size)];
    let linked = [cubin(80, size), cubin(90, size), ptx(70, size)];
    for (entries, gpus, version, expected) in [
        (&all[..], &[90][..], 1, "sm_90"),
        (&all, &[80], 1, "sm_80"),
        // A newer minor version runs the best of its major version.
        (&all, &[89], 1, "sm_86"),
        (&all, &[75, 90], 1, "sm_75 sm_90"),
        // No machine code: the newest PTX, which the driver compiles.
        (&all, &[120], 1, "compute_90"),
        (&features, &[90], 1, "sm_90 sm_90a"),
        (&features, &[100], 1, "sm_100 sm_100f"),
        (&features, &[103], 1, "sm_100 sm_100f"),
        (&features, &[121], 1, "compute_120"),
        (&old, &[90], 1, "compute_80"),
        // Nothing runs: the smallest entry stays, so that the error stays the same.
        (&[cubin(80, size), cubin(90, size / 2)], &[75], 1, "sm_90"),
        (&linked, &[90], 2, "sm_90"),
        // May be linked at run time, so it stays whole.
        (&linked, &[120], 2, "nothing to save"),
        (&[cubin(90, size)], &[90], 1, "nothing to save"),
    ] {
        assert_eq!(kept(entries, &target(gpus), version), expected, "{gpus:?}");
    }
    let newer = PruneTarget::new(vec![GpuArchitecture::new(80).unwrap()], KeptPtx::All).unwrap();
    assert_eq!(kept(&all, &newer, 1), "sm_80 compute_90");
    let tegra = PruneTarget::new(vec![GpuArchitecture::new(87).unwrap()], KeptPtx::All);
    assert_eq!(tegra, Err("GPUs of Tegra are not supported"));
}

/// The offset of the relocations of the sample, one for each container.
const RELOCATIONS: usize = 392;

/// An object with three containers.
fn sample() -> GpuObject {
    let of = |arch| container(&[cubin(80, 0x5000), cubin(arch, 0x2008), ptx(90, 0x1000)]);
    GpuObject::new("libsample.so", &[of(90), of(86), of(90)])
}

#[test]
fn a_compact_object_is_smaller_and_one_in_place_is_not() {
    let object = sample().build();
    for (way, saved) in [(PruneWay::Compact, 0x12000), (PruneWay::InPlace, 0)] {
        let out = prune(&object, &target(&[90]), way).unwrap();
        verify_pruned(object.as_slice(), out.as_slice(), &target(&[90])).unwrap();
        assert_eq!(object.len() - out.len(), saved, "{way:?}");
        // Again for the same GPU: nothing is left to remove.
        let again = prune(&out, &target(&[90]), way);
        assert!(matches!(again, Err(Obstacle::NoSaving)), "{again:?}");
    }
}

#[test]
fn the_judge_finds_each_difference() {
    let object = sample().build();
    let gpus = target(&[90]);
    let judge =
        |out: &[u8], gpus: &PruneTarget| verify_pruned(object.as_slice(), out, gpus).map_err(|why| why.to_string());
    let out = prune(&object, &gpus, PruneWay::Compact).unwrap();
    assert_eq!(judge(&out, &gpus), Ok(()));
    assert_eq!(judge(&out, &target(&[86])).unwrap_err(), "a GPU lost its code");
    let changed = |at: usize| {
        let mut changed = out.clone();
        changed[at] ^= 1;
        judge(&changed, &gpus).unwrap_err()
    };
    // The soname, a byte of kept code, and the pointer to the second container.
    assert_eq!(changed(64 + 5 * 56 + 3), "bytes outside the GPU code differ");
    assert_eq!(changed(0x1000 + 16 + 64 + 9), "an entry differs");
    assert_eq!(changed(RELOCATIONS + 24 + 16), "a container of an unknown version");
}

#[test]
fn an_unexpected_object_stays_as_it_is_for_a_reason() {
    let object = sample().build();
    let find = |bytes: &[u8]| object.windows(bytes.len()).position(|window| window == bytes).unwrap();
    let code = 0x1000;
    let record = find(&0x4662_43b1_u32.to_le_bytes());
    let relocation = RELOCATIONS;
    for (at, byte, expected) in [
        (4, 1, "not a 64-bit little-endian object"),
        (18, 40, "a processor other than x86-64 and aarch64"),
        (code, 0, "a container of an unknown version"),
        (code + 4, 2, "a container of an unknown version"),
        (code + 15, 1, "a container ends behind its section"),
        (code + 18, 2, "an entry of an unknown version"),
        (code + 80, 0, "machine code that is no ELF object"),
        (record + 4, 3, "a record of an unknown version"),
        (relocation + 8, 6, "a record with an unknown relocation"),
        (relocation, 16, "something else points into .nv_fatbin"),
        (relocation + 16, 8, "a pointer to no container"),
        (64 + 56 + 4, 6, ".nv_fatbin is not in one constant PT_LOAD"),
        (64 + 3 * 56 + 15, 1, "a program header outside all PT_LOADs"),
    ] {
        let mut changed = object.clone();
        assert_ne!(changed[at], byte);
        changed[at] = byte;
        let why = prune(&changed, &target(&[90]), PruneWay::Compact).map(|_| ());
        let why = why.map_err(|why| why.to_string());
        assert_eq!(why, Err(expected.to_owned()), "byte {at}");
    }
    let cut = prune(&object[..object.len() - 1], &target(&[90]), PruneWay::Compact).map(|_| ());
    assert_eq!(cut.unwrap_err().to_string(), "a table ends behind the file");
    // A program is rewritten in place.
    let mut program = object.clone();
    program[16] = 2;
    let plan = plan_pruning(program.as_slice(), &target(&[90]), PruneWay::Compact).unwrap();
    assert_eq!(
        (plan.way, plan.in_place_because),
        (PruneWay::InPlace, Some("it is a program"))
    );
}

#[test]
fn a_real_library_keeps_the_code_of_one_gpu() {
    let Some(path) = testkit::parts::part("wheels/torchvision-0.23.0/torchvision/_C.so") else {
        return;
    };
    let object = std::fs::read(path).unwrap();
    for (gpu, expected) in [
        (75, "sm_75"),
        (80, "sm_80"),
        (86, "sm_86"),
        (89, "sm_86"),
        (90, "sm_90"),
        (103, "sm_100"),
        (120, "sm_120"),
    ] {
        for way in [PruneWay::Compact, PruneWay::InPlace] {
            let target = target(&[gpu]);
            let plan = plan_pruning(object.as_slice(), &target, way).unwrap();
            let kinds: Vec<String> = plan.code_after.by_kind().keys().map(ToString::to_string).collect();
            let entries: u32 = plan.code_after.amounts().map(|amount| amount.entries).sum();
            assert_eq!(
                (kinds, entries, plan.way),
                (vec![expected.to_owned()], 6, way),
                "sm_{gpu}"
            );
            let mut out = Vec::new();
            plan.write(object.as_slice(), &mut out).unwrap();
            verify_pruned(object.as_slice(), out.as_slice(), &target).unwrap();
            assert_eq!(out.len() * 2 < object.len(), way == PruneWay::Compact);
        }
    }
}

/// Changes single fields of an object: it is refused, the judge finds the damage, or it is
/// pruned right. `OBJECTS` names real ones.
#[test]
fn a_changed_object_is_refused_or_pruned_right() {
    let mut objects = vec![sample().build()];
    let named = std::env::var("OBJECTS").unwrap_or_default();
    objects.extend(named.split_whitespace().map(|path| std::fs::read(path).unwrap()));
    let mut random = Random::new(7);
    for object in objects {
        let [mut refused, mut caught, mut pruned] = [0; 3];
        let spots = spots(&object);
        for _ in 0..2000 {
            let mut changed = object.clone();
            let (at, width) = spots[random.below(spots.len())];
            let before = (0..width).fold(0_u64, |sum, byte| sum | u64::from(changed[at + byte]) << (8 * byte));
            let near = [1, 8, 16, 64, 4096][random.below(5)];
            let wild = random.below(usize::MAX) as u64;
            let value = [
                0,
                1,
                u64::MAX,
                1 << (8 * width - 1),
                wild,
                before.wrapping_add(near),
                before.wrapping_sub(near),
            ];
            let value = value[random.below(value.len())].to_le_bytes();
            changed[at..at + width].copy_from_slice(&value[..width]);
            let way = [PruneWay::Compact, PruneWay::InPlace][random.below(2)];
            match prune(&changed, &target(&[90]), way) {
                Ok(out) => match verify_pruned(changed.as_slice(), out.as_slice(), &target(&[90])) {
                    Ok(()) => pruned += 1,
                    Err(_) => caught += 1,
                },
                Err(_) => refused += 1,
            }
        }
        println!(
            "{} bytes: {refused} refused, {caught} caught by the judge, {pruned} pruned",
            object.len()
        );
        assert!(refused > 300 && pruned > 300 && caught < 100);
    }
}

/// The fields of headers, containers and records: offset and width.
fn spots(object: &[u8]) -> Vec<(usize, usize)> {
    let number = |at: usize| u64::from_le_bytes(object[at..at + 8].try_into().unwrap()) as usize;
    let count = |at: usize| usize::from(u16::from_le_bytes([object[at], object[at + 1]]));
    let mut spots = vec![
        (16, 2),
        (18, 2),
        (32, 8),
        (40, 8),
        (54, 2),
        (56, 2),
        (58, 2),
        (60, 2),
        (62, 2),
    ];
    for segment in (0..count(56)).map(|row| number(32) + 56 * row) {
        let fields = [(0, 4), (4, 4), (8, 8), (16, 8), (32, 8), (40, 8), (48, 8)];
        spots.extend(fields.map(|(at, width)| (segment + at, width)));
    }
    for section in (0..count(60)).map(|row| number(40) + 64 * row) {
        let fields = [(4, 4), (8, 8), (16, 8), (24, 8), (32, 8)];
        spots.extend(fields.map(|(at, width)| (section + at, width)));
    }
    for at in (0..object.len() - 24).step_by(8) {
        let fields: &[(usize, usize)] = match object[at..at + 4] {
            [0x50, 0xed, 0x55, 0xba] => &[(0, 4), (4, 2), (6, 2), (8, 8)],
            [1 | 2, 0, 1, 1] => &[(0, 2), (2, 2), (4, 4), (8, 8), (16, 4), (28, 4), (40, 8)],
            [0xb1, 0x43, 0x62, 0x46] => &[(0, 4), (4, 4), (8, 8)],
            _ => &[],
        };
        spots.extend(fields.iter().map(|(field, width)| (at + field, *width)));
    }
    spots
}
