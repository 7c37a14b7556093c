//! Small dense linear algebra: symmetric systems, and eigenvectors of symmetric matrices.

/// A square matrix, row by row.
pub(super) type Square = Vec<Vec<f64>>;

/// Solves `a x = b` for a symmetric positive definite `a` by Cholesky's method; none where it is not.
pub(super) fn solve(a: &Square, b: &[f64]) -> Option<Vec<f64>> {
    let size = b.len();
    let mut lower = vec![vec![0.0; size]; size];
    for row in 0..size {
        for column in 0..=row {
            let known: f64 = lower[row][..column]
                .iter()
                .zip(&lower[column])
                .map(|(one, other)| one * other)
                .sum();
            let rest = a[row][column] - known;
            if row == column {
                if rest <= 0.0 || !rest.is_finite() {
                    return None;
                }
                lower[row][row] = rest.sqrt();
            } else {
                lower[row][column] = rest / lower[column][column];
            }
        }
    }
    let mut x = b.to_vec();
    for row in 0..size {
        let known: f64 = lower[row][..row].iter().zip(&x).map(|(one, other)| one * other).sum();
        x[row] = (x[row] - known) / lower[row][row];
    }
    for row in (0..size).rev() {
        let known: f64 = (row + 1..size).map(|below| lower[below][row] * x[below]).sum();
        x[row] = (x[row] - known) / lower[row][row];
    }
    Some(x)
}

/// The eigenvalues of a symmetric matrix, each with its eigenvector of length one, by Jacobi's rotations.
pub(super) fn eigen(matrix: &Square) -> Vec<(f64, Vec<f64>)> {
    let size = matrix.len();
    let mut a = matrix.clone();
    let mut vectors: Square =
        (0..size).map(|row| (0..size).map(|at| f64::from(u8::from(at == row))).collect()).collect();
    for _ in 0..100 {
        let off: f64 = (0..size)
            .flat_map(|row| (0..row).map(move |at| (row, at)))
            .map(|(r, c)| a[r][c].abs())
            .sum();
        if off < 1e-12 {
            break;
        }
        for p in 0..size {
            for q in p + 1..size {
                rotate(&mut a, &mut vectors, p, q);
            }
        }
    }
    (0..size).map(|at| (a[at][at], vectors.iter().map(|row| row[at]).collect())).collect()
}

/// Rotates rows and columns `p` and `q` so that their common element is zero.
fn rotate(a: &mut Square, vectors: &mut Square, p: usize, q: usize) {
    if a[p][q].abs() < 1e-300 {
        return;
    }
    let angle = (a[q][q] - a[p][p]) / (2.0 * a[p][q]);
    let sign = if angle < 0.0 { -1.0 } else { 1.0 };
    let tangent = sign / (angle.abs() + (angle * angle + 1.0).sqrt());
    let cosine = 1.0 / (tangent * tangent + 1.0).sqrt();
    let sine = tangent * cosine;
    let turn = |x: f64, y: f64| (cosine * x - sine * y, sine * x + cosine * y);
    for row in a.iter_mut().chain(vectors.iter_mut()) {
        (row[p], row[q]) = turn(row[p], row[q]);
    }
    let (upper, lower) = a.split_at_mut(q);
    for (one, other) in upper[p].iter_mut().zip(&mut lower[0]) {
        (*one, *other) = turn(*one, *other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_is_solved_and_a_singular_one_refused() {
        let a = vec![vec![4.0, 1.0], vec![1.0, 3.0]];
        let x = solve(&a, &[1.0, 2.0]).unwrap();
        assert!((4.0 * x[0] + x[1] - 1.0).abs() < 1e-12 && (x[0] + 3.0 * x[1] - 2.0).abs() < 1e-12);
        assert_eq!(solve(&vec![vec![1.0, 1.0], vec![1.0, 1.0]], &[1.0, 1.0]), None);
    }

    #[test]
    fn eigenvectors_span_their_matrix() {
        let a = vec![vec![2.0, 1.0, 0.5], vec![1.0, 3.0, 0.2], vec![0.5, 0.2, 1.0]];
        for (value, vector) in eigen(&a) {
            for row in 0..3 {
                let product: f64 = a[row].iter().zip(&vector).map(|(one, other)| one * other).sum();
                assert!((product - value * vector[row]).abs() < 1e-9, "{value} {vector:?}");
            }
        }
    }
}
