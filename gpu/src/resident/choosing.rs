//! What the device finds of resident chunks before they are compressed: whether they are constant or on a lattice, and their predictors.
//!
//! The first sets of all sessions are looked at together, before any of them is begun. Later sets are looked at one by one.

use quire_codec::memory;
use quire_codec::stages::Axes;

use super::compress::{Choice, Compressing, Found};
use crate::declare::Address;
use crate::error::{Error, Result};
use crate::job::{EncodeParameters, Inspection};
use crate::parameters::encode_parameters;
use crate::plan::{EncodePlan, Memory, Plan};
use crate::set_session::{SetSession, entry};
use crate::tiles::ChunkBatch;

/// Most bytes of device memory for choosing the predictors of the first sets of all sessions together.
const MAX_CHOICE: usize = 256 << 20;

impl Compressing<'_> {
    /// Starts choosing the predictors of the first `chunks` chunks in this session. Returns whether it did: the chunks must be in C order where they are, and
    /// there must be memory for all of them. Otherwise each set chooses for itself, which takes longer, as threads wait for each other's launches.
    pub(super) fn start_choosing(&self, session: &mut SetSession, chunks: usize) -> Result<bool> {
        let parts = &self.values.parts[..chunks];
        let Some(choice) = &self.choice else { return Ok(false) };
        if ChunkBatch::device_len(&choice.0, chunks) > MAX_CHOICE || !parts.iter().all(|part| self.values.is_dense(part)) {
            return Ok(false);
        }
        let addresses = memory::collect(parts.iter().map(|part| part.address))?;
        let tables = session.reserve_tables(chunks * (size_of::<Address>() + size_of::<EncodeParameters>()), 2);
        match tables.and_then(|()| self.start_looking(session, choice, &addresses)) {
            // A single set needs less memory.
            Err(Error::OutOfMemory(_)) => {
                session.wait()?;
                Ok(false)
            }
            outcome => outcome.map(|()| true),
        }
    }

    /// Waits for the predictors that [`Compressing::start_choosing`] chooses.
    pub(super) fn end_choosing(&self, session: &mut SetSession, chunks: usize) -> Result<()> {
        session.wait()?;
        let found = self.found_in(session, chunks)?;
        self.found.get_or_init(|| found);
        Ok(())
    }

    /// Starts inspecting chunks and choosing their predictors on the device. See [`Compressing::found_in`].
    pub(super) fn start_looking(&self, session: &mut SetSession, choice: &Choice<'_>, addresses: &[Address]) -> Result<()> {
        let (choice, config) = choice;
        let loaded = self.device.loaded();
        let count = addresses.len();
        let key = self.key(count, self.unknown());
        session.results.grow(count * size_of::<Found>())?;
        // The counts are where the streams will be.
        session.streams.grow(ChunkBatch::device_len(choice, count))?;
        session.arrays.grow(EncodePlan::for_inspection(&key, &Memory::default()).len())?;
        let memory = Memory {
            arrays: session.arrays.address(),
            tables: loaded.tables(),
            values: session.send_table(addresses)?,
            inspections: session.results.address(),
            ..Memory::default()
        };
        let plan = EncodePlan::for_inspection(&key, &memory);
        let batch = ChunkBatch {
            chunks: plan.job.inputs.address(),
            count,
            device: session.streams.address(),
            predictors: session.results.address() + (count * size_of::<Inspection>()) as u64,
        };
        session.beside(
            |session| batch.choose(loaded, choice, self.layout, &session.stream, &mut session.tiles),
            |session, stream| {
                let predictor = Axes::all(&self.layout.shape).into();
                let parameters = encode_parameters(self.layout, config, &choice.grid(false), predictor);
                let parameters = memory::collect((0..count).map(|_| parameters))?;
                session.send_in(stream, &parameters, plan.job.parameters.address())?;
                plan.inspect(stream, loaded)
            },
        )
    }

    /// What [`Compressing::start_looking`] has found of `count` chunks.
    pub(super) fn found_in(&self, session: &SetSession, count: usize) -> Result<Vec<Found>> {
        let predictors = count * size_of::<Inspection>();
        let found = (0..count).map(|chunk| (entry(&session.results, 0, chunk), entry(&session.results, predictors, chunk)));
        Ok(memory::collect(found)?)
    }
}
