//! What the device finds of resident chunks before they are compressed: whether they are constant or on a lattice, and their predictors.
//!
//! The first sets of all rooms are looked at in one launch set before any of them is begun, and later sets one by one.

use quire_codec::memory;
use quire_codec::stages::Axes;
use quire_codec::stages::choice::TileChoice;

use super::compress::{Compressing, Found};
use crate::declare::Address;
use crate::error::{Error, Result};
use crate::job::{EncodeParameters, Inspection};
use crate::parameters::encode_parameters;
use crate::plan::{EncodePlan, Memory};
use crate::room::{Room, entry};
use crate::tiles::ChunkBatch;

/// Most bytes of device memory for choosing the predictors of the first sets of all rooms together.
const MAX_CHOICE: usize = 256 << 20;

impl Compressing<'_> {
    /// Starts choosing the predictors of the first `chunks` chunks in this room. Whether it did: the kernels must be able to read the chunks where they are, in
    /// C order. Sets that choose for themselves, at the same time, take longer: their threads wait for each other's launches.
    pub(super) fn start_choosing(&self, room: &mut Room, chunks: usize) -> Result<bool> {
        let parts = &self.values.parts[..chunks];
        let Some(choice) = &self.choice else { return Ok(false) };
        if ChunkBatch::room(choice, chunks) > MAX_CHOICE || !parts.iter().all(|part| self.values.is_dense(part)) {
            return Ok(false);
        }
        let addresses = memory::collect(parts.iter().map(|part| part.address))?;
        let tables = room.begin(chunks * (size_of::<Address>() + size_of::<EncodeParameters>()), 2);
        match tables.and_then(|()| self.choose(room, choice, &addresses)) {
            // A set needs less than all of them.
            Err(Error::OutOfMemory(_)) => {
                room.wait()?;
                Ok(false)
            }
            outcome => outcome.map(|()| true),
        }
    }

    /// Waits for the predictors that [`Compressing::start_choosing`] chooses.
    pub(super) fn end_choosing(&self, room: &mut Room, chunks: usize) -> Result<()> {
        room.wait()?;
        let found = self.found_in(room, chunks)?;
        self.found.get_or_init(|| found);
        Ok(())
    }

    /// Starts inspecting chunks and choosing their predictors on the device. See [`Compressing::found_in`].
    pub(super) fn choose(&self, room: &mut Room, choice: &TileChoice, addresses: &[Address]) -> Result<()> {
        let loaded = self.device.loaded();
        let count = addresses.len();
        let variant = self.variant(false, false);
        let plan = |memory: &Memory| EncodePlan::for_inspection(&self.key(count, variant), self.layout, variant, memory);
        room.results.grow(count * size_of::<Found>())?;
        // The counts have the place of the streams.
        room.streams.grow(ChunkBatch::room(choice, count))?;
        room.arrays.grow(plan(&Memory::default()).len)?;
        let memory = Memory {
            arrays: room.arrays.address(),
            tables: loaded.tables(),
            values: room.send_table(addresses)?,
            inspections: room.results.address(),
            ..Memory::default()
        };
        let plan = plan(&memory);
        let batch = ChunkBatch {
            chunks: plan.job.inputs.address(),
            count,
            device: room.streams.address(),
            predictors: room.results.address() + (count * size_of::<Inspection>()) as u64,
        };
        room.beside(
            |room| batch.choose(loaded, choice, self.layout, &room.stream, &mut room.tiles, |_| Ok(())),
            |room, stream| {
                let predictor = Axes::all(&self.layout.shape).into();
                let parameters = encode_parameters(self.layout, self.config, &choice.grid(false), predictor);
                let parameters = memory::collect((0..count).map(|_| parameters))?;
                room.send_in(stream, &parameters, plan.job.parameters.address())?;
                plan.inspect(stream, &loaded.kernels, loaded.multiprocessors)
            },
        )
    }

    /// What [`Compressing::choose`] has found of `count` chunks.
    pub(super) fn found_in(&self, room: &Room, count: usize) -> Result<Vec<Found>> {
        let predictors = count * size_of::<Inspection>();
        let found = (0..count).map(|chunk| (entry(&room.results, 0, chunk), entry(&room.results, predictors, chunk)));
        Ok(memory::collect(found)?)
    }
}
