//go:build race

package sweep

// slowdown is how much slower than its budgets something may be. The race detector
// makes it several times as slow.
const slowdown = 10
