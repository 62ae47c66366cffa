//! netCDF: nccopy, the netCDF4 module, and several HDF5 libraries in one process.

use std::path::Path;

use plugin_tests::{FILTER_ID, Python, Sandbox, assert_says, succeed};

/// 1e-3 as cd_values: mode 1 and the f64's bits, low word first.
const ABSOLUTE_1E_3: &str = "1,3539053052,1062232653";
/// The chunks that `netcdf.py make` gives its variables.
const CHUNKS: &str = "time/2,member/2,z/4,y/16,x/16";

fn make(sandbox: &Sandbox, file: &Path) {
    let _ = succeed(sandbox.python(Python::Hdf5_2_0, "netcdf.py").arg("make").arg(file));
}

#[test]
fn nccopy_compresses_every_variable() {
    let sandbox = Sandbox::new();
    let (plain, copy) = (sandbox.path("plain.nc"), sandbox.path("copy.nc"));
    make(&sandbox, &plain);
    let mut command = sandbox.command("nccopy");
    command.args(["-4", "-c", CHUNKS, "-F", &format!("*,{FILTER_ID},{ABSOLUTE_1E_3}")]);
    let _ = succeed(command.arg(&plain).arg(&copy));
    let report = succeed(sandbox.python(Python::Hdf5_2_0, "netcdf.py").arg("check").arg(&plain).arg(&copy));
    println!("{}", report.stdout);
    let header = succeed(sandbox.command("ncdump").arg("-hs").arg(&copy));
    assert_says(&header, &[&format!("field:_Filter = \"{FILTER_ID},1,3539053052,1062232653")]);
    let _ = succeed(sandbox.command("ncdump").arg(&copy));
}

#[test]
fn nccopy_copies_a_compressed_file() {
    let sandbox = Sandbox::new();
    let (plain, copy, again) = (sandbox.path("plain.nc"), sandbox.path("copy.nc"), sandbox.path("again.nc"));
    make(&sandbox, &plain);
    let mut command = sandbox.command("nccopy");
    let _ = succeed(command.args(["-4", "-F", &format!("*,{FILTER_ID},2,3")]).arg(&plain).arg(&copy));
    let _ = succeed(sandbox.python(Python::Hdf5_2_0, "netcdf.py").arg("check").arg(&plain).arg(&copy));
    // The copy of the copy has other chunks: set_local meets the values that it filled in before.
    let _ = succeed(sandbox.command("nccopy").args(["-4", "-c", "time/1,member/3,z/6,y/20,x/50"]).arg(&copy).arg(&again));
    let _ = succeed(sandbox.python(Python::Hdf5_2_0, "netcdf.py").arg("check").arg(&plain).arg(&again));
}

#[test]
fn copies_of_a_compressed_file_keep_its_fill_values() {
    let sandbox = Sandbox::new();
    let copies = ["first.nc", "copy.nc", "chunks.nc", "repacked.nc"].map(|name| sandbox.path(name));
    let _ = succeed(sandbox.python(Python::Hdf5_2_0, "netcdf.py").arg("make_gaps").arg(&copies[0]));
    let nccopy =
        |options: &[&str], from: &Path, to: &Path| _ = succeed(sandbox.command("nccopy").args(options).arg(from).arg(to));
    // nccopy creates variables in no-fill mode, so that HDF5 does not know their fill values; it hands on all cd_values.
    nccopy(&[], &copies[0], &copies[1]);
    nccopy(&["-c", "y/20,x/53"], &copies[1], &copies[2]);
    let _ = succeed(sandbox.command("h5repack").args(["-l", "CHUNK=9x40"]).arg(&copies[2]).arg(&copies[3]));
    let _ = succeed(sandbox.python(Python::Hdf5_2_0, "netcdf.py").arg("check_gaps").args(&copies));
}

#[test]
fn three_libraries_share_a_process() {
    let sandbox = Sandbox::new();
    let report = succeed(sandbox.python(Python::Hdf5_2_0, "netcdf.py").arg("together").arg(sandbox.path("")));
    println!("{}", report.stdout);
}
