//! Selects the densities that a dictionary starts from. Together, their books code the targets in about the fewest bits.

use crate::density::Density;
use crate::lengths::code_bits;
use crate::targets::Target;

/// Number of times that each chosen book is replaced by a better one.
const EXCHANGES: usize = 2;

/// The `count` densities whose books together have about the least cost, in ascending order. The cost of a target is a share of its bits with a custom book. Books
/// are added one after the other: the book that lowers the sum of costs most. Then each book is replaced by a better one.
#[must_use]
pub fn select(targets: &[Target], pool: &[Density], count: usize) -> Vec<Density> {
    let weights: Vec<f64> = targets.iter().map(|target| target.custom_bits().recip()).collect();
    let costs: Vec<Vec<f32>> = pool
        .iter()
        .map(|density| {
            let lengths = density.book().lengths;
            targets
                .iter()
                .zip(&weights)
                .map(|(target, weight)| (code_bits(&target.histogram, &lengths) as f64 * weight) as f32)
                .collect()
        })
        .collect();
    let mut chosen = Vec::new();
    for _ in 0..count {
        chosen.push(best_addition(&costs, &least(&costs, &chosen, targets.len())));
    }
    for index in (0..count).cycle().take(EXCHANGES * count) {
        chosen.swap_remove(index);
        let other = best_addition(&costs, &least(&costs, &chosen, targets.len()));
        chosen.push(other);
        chosen.swap(index, count - 1);
    }
    let mut chosen: Vec<Density> = chosen.into_iter().map(|index| pool[index]).collect();
    chosen.sort_unstable();
    chosen
}

/// Cost of each target with the cheapest of the chosen books.
fn least(costs: &[Vec<f32>], chosen: &[usize], targets: usize) -> Vec<f32> {
    let mut least = vec![f32::INFINITY; targets];
    for &book in chosen {
        for (least, &cost) in least.iter_mut().zip(&costs[book]) {
            *least = least.min(cost);
        }
    }
    least
}

/// Index of the book that lowers the sum of the least costs most.
pub(crate) fn best_addition<C: Copy + Into<f64>>(costs: &[Vec<C>], least: &[C]) -> usize {
    let sum = |book: &Vec<C>| -> f64 { book.iter().zip(least).map(|(&cost, &least)| cost.into().min(least.into())).sum() };
    let sums: Vec<f64> = costs.iter().map(sum).collect();
    (0..sums.len()).min_by(|&a, &b| sums[a].total_cmp(&sums[b])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_densities_that_targets_came_from_are_chosen() {
        let pool: Vec<Density> = Density::all().step_by(11).collect();
        let own = [pool[3], pool[30], pool[60]];
        let targets: Vec<Target> = own.into_iter().map(Target::of_density).collect();
        let cost = |books: &[Density]| -> u64 {
            let cheapest = |target: &Target| books.iter().map(|book| code_bits(&target.histogram, &book.book().lengths)).min();
            targets.iter().filter_map(cheapest).sum()
        };
        assert!(cost(&select(&targets, &pool, 3)) <= cost(&own));
    }
}
