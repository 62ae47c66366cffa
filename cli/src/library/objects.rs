//! Objects and their links, opened and made with properties for which the crate `hdf5` has no argument.

use hdf5::plist::DatasetAccess;
use hdf5::{Dataset, Group};
use hdf5_sys::h5d::H5Dopen2;

use super::{Result, c_name, check_id, locked};

/// Opens a dataset with access properties, such as the size of its chunk cache.
///
/// # Errors
/// HDF5's.
pub(crate) fn open_dataset(group: &Group, name: &str, access: &DatasetAccess) -> Result<Dataset> {
    let name = c_name(name)?;
    // SAFETY: the name ends with a zero byte; HDF5 checks identifiers; the new one belongs to the value that comes back.
    locked(|| unsafe {
        let id = check_id(H5Dopen2(group.id(), name.as_ptr(), access.id()))?;
        hdf5::from_id(id).map_err(|error| error.to_string())
    })
}
