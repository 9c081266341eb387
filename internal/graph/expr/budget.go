package expr

import (
	"fmt"
	"slices"
	"time"

	"github.com/espalier-dev/espalier/internal/object"
)

// Budget bounds the evaluations of one reconcile together. What is left of it never grows. A nil
// Budget has no limit. It is not safe for concurrent use.
type Budget struct {
	ended           func() error
	maxCost, cost   uint64 // in CEL's cost units: the limit, and what has been spent
	maxBytes, bytes int    // of values
	refused         []*BudgetExceeded
	branches        *Branches // nil for none
	clock           *clock    // nil for none
	progress        Progress  // nil for none
}

// SetTime has time.now() be a time. Without it, expressions that call it fail.
func (b *Budget) SetTime(now time.Time) { b.clock = &clock{now: now} }

// SetProgress has ready() and updated() ask a Progress. Without it, expressions that call them fail.
func (b *Budget) SetProgress(of Progress) { b.progress = of }

// NextChange is when the first comparison with time.now() changes its result, of those that were evaluated; zero if none
// does.
func (b *Budget) NextChange() time.Time {
	if b.clock == nil {
		return time.Time{}
	}
	return b.clock.next
}

// NewBudget returns a budget of CEL's cost units, some spent already, and of approximate bytes of values. Once ended
// returns an error, such as a context's, every evaluation returns it; one that has begun ends by its own limits.
func NewBudget(ended func() error, cost, spent uint64, bytes int) *Budget {
	return &Budget{ended: ended, maxCost: cost, cost: spent, maxBytes: bytes}
}

// Record has branches record the evaluations.
func (b *Budget) Record(branches *Branches) { b.branches = branches }

func (b *Budget) record(p *Program, vars activation) {
	if b != nil {
		b.branches.record(p, vars)
	}
}

// activate gives an expression of the scope its variables.
func (b *Budget) activate(s *Scope, vars map[string]any, track *tracker) activation {
	in := activation{scope: s, vars: vars, track: track}
	if b != nil {
		in.clock, in.progress = b.clock, b.progress
	}
	return in
}

// The names of what a Budget bounds, as in BudgetExceeded.
const (
	BudgetCost  = "cost"
	BudgetBytes = "bytes"
)

// BudgetExceeded is the error of an evaluation that a Budget does not allow any more.
type BudgetExceeded struct {
	// At is the field whose evaluation was refused.
	At object.Path
	// Limit is BudgetCost or BudgetBytes, Max its value.
	Limit string
	Max   uint64
}

func (e *BudgetExceeded) Error() string {
	if e.Limit == BudgetBytes {
		return pathPrefix(e.At) + fmt.Sprintf("the values of the expressions exceed %d bytes together", e.Max)
	}
	return pathPrefix(e.At) + fmt.Sprintf("the expressions of one reconcile exceed a CEL cost of %d together", e.Max)
}

// untrackedCost is the cost of an evaluation that CEL does not track because the length of the expression bounds it.
const untrackedCost = 10

func (b *Budget) check(p *Program) error {
	if b == nil {
		return nil
	}
	if b.cost > b.maxCost {
		return b.refuse(&BudgetExceeded{At: p.at, Limit: BudgetCost, Max: b.maxCost})
	}
	return b.ended()
}

// spendCost charges an evaluation. One that exceeds the budget has a result: the next has none.
func (b *Budget) spendCost(cost uint64) {
	if b != nil {
		b.cost += cost
	}
}

// spendBytes charges the size of a value before it is copied or becomes part of a document.
func (b *Budget) spendBytes(at object.Path, size int) error {
	if b == nil {
		return nil
	}
	if b.bytes += size; b.bytes > b.maxBytes {
		return b.refuse(&BudgetExceeded{At: at, Limit: BudgetBytes, Max: uint64(b.maxBytes)})
	}
	return nil
}

// refuse records the first evaluation that is refused for each limit.
func (b *Budget) refuse(e *BudgetExceeded) error {
	if !slices.ContainsFunc(b.refused, func(earlier *BudgetExceeded) bool { return earlier.Limit == e.Limit }) {
		b.refused = append(b.refused, e)
	}
	return e
}

// Exceeded lists the first evaluation that was refused for each limit.
func (b *Budget) Exceeded() []*BudgetExceeded { return b.refused }

// Cost is the CEL cost that has been spent, with what was spent before.
func (b *Budget) Cost() uint64 { return b.cost }
