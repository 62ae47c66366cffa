//! Every field must keep the statistics that its documentation promises.
use h5_samples::{Field, Size, Values, all, climate, cloud, finite_range, lattice, npy, particles, seismic, series, turbulence};

fn bytes(field: &Field) -> Vec<u8> {
    let mut file = Vec::new();
    npy::write(&mut file, &field.dims, &field.values).unwrap();
    file
}

fn share<T>(values: &[T], wanted: impl Fn(&T) -> bool) -> f64 {
    values.iter().filter(|value| wanted(value)).count() as f64 / values.len() as f64
}

#[test]
fn a_seed_gives_the_same_bytes_and_another_seed_others() {
    for ((first, again), other) in all(5, Size::Small).zip(all(5, Size::Small)).zip(all(6, Size::Small)) {
        assert!(bytes(&first) == bytes(&again), "{} is not reproducible", first.name);
        assert!(bytes(&first) != bytes(&other), "{} ignores the seed", first.name);
    }
}

#[test]
fn shapes_agree_with_the_values_and_ranges_are_sane() {
    let mut names = Vec::new();
    for field in all(1, Size::Small) {
        assert_eq!(field.dims.iter().product::<usize>(), field.values.len(), "{}", field.name);
        let range = finite_range(&field);
        assert!(range > 0.0 && range < 1e7, "{}: range {range}", field.name);
        names.push(field.name);
    }
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 13);
}

#[test]
fn finite_range_leaves_out_fill_and_not_finite_values() {
    let values = Values::F32(vec![1e35, f32::NAN, 2.0, f32::INFINITY, -1.0]);
    let mut field = Field { name: "example", units: "1", dims: vec![5], values, fill: Some(f64::from(1e35_f32)) };
    assert_eq!(finite_range(&field), 3.0);
    field.values = Values::F64(vec![f64::NAN]);
    assert_eq!(finite_range(&field), 0.0);
}

#[test]
fn density_spans_nine_decades() {
    let density = turbulence::density(1, [48; 3]);
    let lowest = f64::from(density.iter().copied().fold(f32::INFINITY, f32::min));
    let highest = f64::from(density.iter().copied().fold(0.0, f32::max));
    assert!(((highest / lowest).log10() - 9.0).abs() < 1e-3);
}

#[test]
fn cloud_is_mostly_exactly_zero() {
    for seed in 1..5 {
        let water = cloud::water(seed, [64; 3]);
        let empty = share(&water, |&value| value == 0.0);
        assert!((0.8..0.98).contains(&empty), "empty share {empty}");
        assert!(water.iter().all(|&value| (0.0..1e-2).contains(&value)));
    }
}

#[test]
fn land_covers_its_share_in_coherent_pieces() {
    let [times, latitudes, longitudes] = [2, 90, 180];
    let surface = climate::sea_surface_temperature(1, [times, latitudes, longitudes]);
    let land = share(&surface, |&value| value == climate::LAND);
    assert!((land - climate::LAND_SHARE).abs() < 0.01, "land share {land}");
    let shores = surface.windows(2).filter(|pair| (pair[0] == climate::LAND) != (pair[1] == climate::LAND)).count();
    assert!(shores < surface.len() / 20, "{shores} shores in {} cells", surface.len());
    assert!(surface.iter().all(|&value| value == climate::LAND || (-1.8..40.0).contains(&value)));
}

#[test]
fn air_is_colder_aloft_and_where_it_is_winter() {
    let [times, levels, latitudes, longitudes] = [12, 8, 24, 48];
    let air = climate::air_temperature(1, [times, levels, latitudes, longitudes]);
    let row_mean = |time: usize, level: usize, row: usize| {
        let start = ((time * levels + level) * latitudes + row) * longitudes;
        air[start..start + longitudes].iter().sum::<f32>() / longitudes as f32
    };
    assert!(row_mean(0, 0, 12) - row_mean(0, 4, 12) > 40.0);
    assert!(row_mean(6, 0, 20) - row_mean(0, 0, 20) > 8.0);
    assert!(air.iter().all(|value| (150.0..340.0).contains(value)));
}

#[test]
fn particles_fill_the_box_in_clusters_and_disorder() {
    let positions = particles::positions(1, 100_000);
    assert!(positions.iter().all(|&position| (0.0..particles::BOX_SIDE as f32).contains(&position)));
    let mut boxes = [0.0_f64; 256];
    positions.iter().for_each(|&position| boxes[position as usize] += 1.0);
    let mean = positions.len() as f64 / 256.0;
    let variance = boxes.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / 256.0;
    assert!(variance > 4.0 * mean, "no more clustered than chance: variance {variance}, mean {mean}");
    let leap = positions.windows(2).map(|pair| f64::from((pair[1] - pair[0]).abs())).sum::<f64>() / positions.len() as f64;
    assert!(leap > particles::BOX_SIDE / 5.0, "sorted: mean leap {leap}");
}

#[test]
fn shot_record_is_quiet_before_the_first_arrival() {
    let [receivers, samples] = [256, 512];
    let record = seismic::shot_record(1, [receivers, samples]);
    let peak = record.iter().fold(0.0_f32, |peak, value| peak.max(value.abs()));
    // The outermost receiver lies 800 m away: the direct wave takes over half a second, 250 samples and more.
    let quiet = &record[..200];
    let noise = quiet.iter().fold(0.0_f32, |peak, value| peak.max(value.abs()));
    assert!(noise > 0.0 && noise < peak * 1e-3, "noise {noise}, peak {peak}");
}

#[test]
fn station_has_gaps() {
    let gaps = share(&series::station_temperature(1, 500_000), |value| value.is_nan());
    assert!((0.05..0.09).contains(&gaps), "gap share {gaps}");
}

#[test]
fn lattice_fields_lie_on_their_lattice() {
    let counts = lattice::detector_counts(1, [128, 200]);
    assert!(counts.iter().all(|&count| count >= 0.0 && count.fract() == 0.0));
    assert!(counts.iter().any(|&count| count > 100.0));
    let eighths = lattice::thermal_eighths(1, [128, 200]);
    assert!(eighths.iter().all(|value| (value * 8.0).fract() == 0.0));
}
