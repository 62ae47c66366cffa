//! The kernels as the build made them: machine code for some architectures, and PTX, from which a driver makes machine code for other GPUs.
//!
//! An architecture is ten times the compute capability. Machine code runs on GPUs of the same major number and of the same or a larger minor number. PTX runs on
//! all GPUs from its architecture on (CUDA C++ Programming Guide, "Application Compatibility").

use quire_codec::memory;

use crate::error::{Error, Result, reason};

include!(concat!(env!("OUT_DIR"), "/images.rs"));

/// The kernels for an architecture.
pub(crate) struct Image {
    architecture: u32,
    is_ptx: bool,
    /// Its bytes when it is inflated.
    len: usize,
    deflated: &'static [u8],
}

impl Image {
    fn runs_on(&self, gpu: u32) -> bool {
        self.architecture <= gpu && (self.is_ptx || self.architecture / 10 == gpu / 10)
    }
}

/// What runs on a GPU: machine code rather than PTX, and of the closest architecture.
fn best(images: &[Image], gpu: u32) -> Option<&Image> {
    images.iter().filter(|image| image.runs_on(gpu)).max_by_key(|image| (!image.is_ptx, image.architecture))
}

/// What the driver loads for a GPU of this compute capability.
pub(crate) fn image_for((major, minor): (i32, i32)) -> Result<Vec<u8>> {
    let gpu = 10 * major.unsigned_abs() + minor.unsigned_abs();
    let Some(image) = best(IMAGES, gpu) else {
        let built = IMAGES.iter().map(|image| image.architecture).min().unwrap_or_default();
        return Err(Error::Unavailable(reason!(
            "the GPU has compute capability {major}.{minor}, and the kernels are for {}.{} and newer",
            built / 10,
            built % 10
        )));
    };
    let mut inflated = Vec::new();
    memory::resize(&mut inflated, image.len)?;
    let outcome = miniz_oxide::inflate::decompress_slice_iter_to_slice(&mut inflated, [image.deflated].into_iter(), false, true);
    if outcome != Ok(image.len) {
        return Err(Error::Unavailable(reason!("the kernels in the plugin's file are damaged: {outcome:?}")));
    }
    Ok(inflated)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_get_the_closest_machine_code_and_others_ptx() {
        let image = |(architecture, is_ptx)| Image { architecture, is_ptx, len: 0, deflated: &[] };
        let images = [(80, false), (86, false), (90, false), (100, false), (80, true)].map(image);
        let cases = [
            (75, None),
            (80, Some((80, false))),
            (89, Some((86, false))),
            (90, Some((90, false))),
            (103, Some((100, false))),
            (120, Some((80, true))),
        ];
        for (gpu, expected) in cases {
            assert_eq!(best(&images, gpu).map(|image| (image.architecture, image.is_ptx)), expected, "{gpu}");
        }
    }

    #[test]
    fn every_image_is_inflated() {
        for Image { architecture, len, .. } in IMAGES.iter().filter(|image| !image.is_ptx) {
            assert_eq!(image_for((*architecture as i32 / 10, *architecture as i32 % 10)).unwrap().len(), *len);
        }
        assert!(image_for((7, 5)).is_err_and(|error| error.to_string().contains("compute capability 7.5")));
    }
}
