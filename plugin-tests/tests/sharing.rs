//! Processes that share GPUs, and processes that end while they open one. The driver is gpu/emulator's, whose GPUs are CPUs.
#![cfg(target_arch = "x86_64")]

use std::process::Command;

use plugin_tests::{LIBRARY_NAME, Python, Sandbox, assert_says, crate_folder, emulated_driver, shared_library, succeed};

/// Appends the script and its arguments.
fn with_scenes(mut command: Command, sandbox: &Sandbox, kind: &str) -> Command {
    command
        .arg(crate_folder().join("py/sharing.py"))
        .arg(sandbox.plugin_folder().join(LIBRARY_NAME))
        .arg(shared_library(sandbox, "set_clock"))
        .arg(emulated_driver())
        .arg(kind);
    command
}

#[test]
fn a_gpu_is_opened_where_it_pays_and_by_whom_it_is_for() {
    let sandbox = Sandbox::new();
    let report = succeed(&mut with_scenes(sandbox.command(Python::Hdf5_2_0.interpreter()), &sandbox, "free"));
    println!("{}", report.stdout);
    assert_says(&report, &["done"]);
}

/// Makes the driver's files of two cards, their device files and the driver's own, seen by this command alone. The card on bus a0 has number 1, the other one
/// number 0.
const CARDS: &str = r#"
set -e
mount -t tmpfs tmpfs /proc/driver
for card in a0:1 a1:0; do
  mkdir -p "/proc/driver/nvidia/gpus/0000:${card%:*}:00.0"
  printf 'Model: \t\t None\nDevice Minor: \t %s\n' "${card#*:}" >"/proc/driver/nvidia/gpus/0000:${card%:*}:00.0/information"
done
mount -t tmpfs tmpfs "$1"
for node in null zero urandom random; do touch "$1/$node"; mount --bind "/dev/$node" "$1/$node"; done
touch "$1/nvidia0" "$1/nvidia1" "$1/nvidiactl"
mount --move "$1" /dev
shift
exec "$@"
"#;

#[test]
fn a_card_is_used_by_few_processes_at_a_time_and_opened_by_one() {
    let sandbox = Sandbox::new();
    let devices = sandbox.path("dev");
    std::fs::create_dir(&devices).expect("a folder");
    let ways: [&[&str]; 2] = [&["--mount"], &["--mount", "--map-root-user"]];
    let in_namespace = |way: &[&str]| {
        let mut command = sandbox.command("unshare");
        command.args(way).args(["sh", "-c", CARDS, "sh"]).arg(&devices);
        command
    };
    let is_possible = |way: &&&[&str]| in_namespace(way).arg("true").output().is_ok_and(|output| output.status.success());
    let Some(way) = ways.iter().find(is_possible) else {
        println!("no files can be mounted here: the kernel forbids it");
        return;
    };
    let mut command = in_namespace(way);
    command.arg(Python::Hdf5_2_0.interpreter());
    let report = succeed(&mut with_scenes(command, &sandbox, "locked"));
    println!("{}", report.stdout);
    assert_says(&report, &["done"]);
}
