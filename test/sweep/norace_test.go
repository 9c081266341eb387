//go:build !race

package sweep

// slowdown is how much slower than its budgets something may be: other tests run
// beside it.
const slowdown = 2
